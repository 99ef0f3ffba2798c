"""Fixtures: the small towers of the repository, which were trained on drawings, and drawings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import conifer

REPOSITORY = Path(__file__).resolve().parents[2]
TOWERS = REPOSITORY / "crates/cli/assets/toy_towers"


@pytest.fixture(scope="session")
def model() -> conifer.Model:
    return conifer.load(TOWERS)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def drawings(rng: np.random.Generator) -> list[np.ndarray]:
    """Six pictures of one colour each with some noise."""
    colours = rng.integers(0, 255, (6, 1, 1, 3))
    return list(np.clip(colours + rng.integers(-20, 20, (6, 40, 60, 3)), 0, 255).astype(np.uint8))

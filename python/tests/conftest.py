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


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """A folder of four Parquet files of texts with a label, of different lengths."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    folder = tmp_path / "input"
    folder.mkdir()
    for i, count in enumerate((3, 5, 2, 4)):
        rows = {
            "id": [f"{i}-{j}" for j in range(count)],
            "text": [f"a red shape {i} and {j} boxes" for j in range(count)],
            "label": [i * 10 + j for j in range(count)],
        }
        pq.write_table(pa.table(rows), folder / f"part{i}.parquet")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of all files under a folder, by their relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}

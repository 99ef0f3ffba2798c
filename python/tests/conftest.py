"""Fixtures: the small towers of the repository, which were trained on drawings, and drawings."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def write_long_shards(folder: Path, count: int) -> Path:
    """Write Parquet files of 3,000 texts each, enough to kill a worker in the middle of one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    for i in range(count):
        texts = [f"a blue shape number {j} beside {i} dogs and {j % 7} small red birds" for j in range(3000)]
        pq.write_table(pa.table({"text": texts}), folder / f"{i}.parquet")
    return folder


@contextmanager
def a_killed_worker(shards: Path, is_worker: Callable[[int], bool]) -> Iterator[list[str]]:
    """Kill one worker in the middle of a shard: its process number is in the name of the partial file.

    Yields a list that then has the name of that file.
    """
    killed: list[str] = []
    finished = threading.Event()

    def kill() -> None:
        while not finished.is_set() and not killed:
            for partial in shards.glob("*.part") if shards.exists() else []:
                pid = int(partial.name.rsplit("-", 2)[1])
                if not is_worker(pid):
                    continue
                os.kill(pid, signal.SIGKILL)
                time.sleep(0.2)
                # The file is still there if the worker died before it finished the shard.
                if partial.exists():
                    killed.append(partial.name)
                    break
            time.sleep(0.001)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        finished.set()
        killer.join()

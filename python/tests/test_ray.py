"""A local Ray cluster with two workers."""

import os
import signal

import numpy as np
import pytest
from conftest import TOWERS

ray = pytest.importorskip("ray")

import conifer  # noqa: E402
import conifer.ray as cr  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_shards_become_sets_and_finished_ones_are_skipped(model, tmp_path):
    shards = [(f"shard{i}", [{"id": f"{i}-{j}", "text": f"a shape {i} {j}"} for j in range(3)]) for i in range(4)]
    paths = cr.embed(shards, TOWERS, tmp_path / "sets")
    sets = [conifer.EmbeddingSet.open(path) for path in paths]
    assert [it.ids for it in sets] == [[row["id"] for row in rows] for _, rows in shards]
    expected = model.encode_text([row["text"] for row in shards[1][1]])
    np.testing.assert_allclose(sets[1].points, expected, atol=1e-5)
    times = [os.stat(path).st_mtime_ns for path in paths]
    assert cr.embed(shards, TOWERS, tmp_path / "sets") == paths
    assert [os.stat(path).st_mtime_ns for path in paths] == times


def test_search_equals_one_index(tmp_path, rng):
    space = conifer.Lorentz(8)
    points = space.exp0(rng.normal(size=(90, 8))).astype(np.float32)
    points[50] = points[3]
    rows = conifer.EmbeddingSet(points, space)
    paths = [tmp_path / f"{i}" for i in range(3)]
    for i, path in enumerate(paths):
        rows[30 * i : 30 * (i + 1)].save(path)
    index = cr.build_index(paths, cpus_per_actor=0.5)
    whole = conifer.Index(rows)
    try:
        for by in ("distance", "similarity", "narrower"):
            sets, found, scores, ids = index.search(points[:10], k=7, by=by)
            expected = whole.search(points[:10], k=7, by=by)
            assert np.array_equal(30 * sets + found, expected.rows) and np.array_equal(scores, expected.scores)
            assert ids[0, 0] == str(expected.rows[0, 0])
    finally:
        index.close()


def test_a_killed_worker_is_replaced(tmp_path):
    space = conifer.Euclidean(2)
    conifer.EmbeddingSet(np.eye(2), space).save(tmp_path / "set")
    index = cr.build_index([tmp_path / "set"], cpus_per_actor=0.5)
    try:
        before = index.search(np.eye(2), k=2)
        pid = ray.get(index._actors[0].__ray_call__.remote(lambda actor: os.getpid()))
        os.kill(pid, signal.SIGKILL)
        after = index.search(np.eye(2), k=2)
        assert all(np.array_equal(a, b) for a, b in zip(before, after))
    finally:
        index.close()

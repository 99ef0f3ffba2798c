"""Embedding and search on a local Ray cluster with two workers."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from conftest import TOWERS, a_killed_worker, contents, write_long_shards

import conifer

ray = pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("ray.data")
import pyarrow.parquet as pq  # noqa: E402

import conifer.ray as cr  # noqa: E402

pytestmark = pytest.mark.slow

SPACE = conifer.Lorentz(8, 0.7)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    # On a busy machine, workers that are started in advance take the time that Ray's agents have to register.
    settings = {"RAY_enable_worker_prestart": "0", "RAY_agent_register_timeout_ms": "120000"}
    os.environ.update(settings)
    for attempt in range(2):
        try:
            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
            break
        except Exception as error:
            ray.shutdown()
            if attempt:
                pytest.skip(f"Ray cannot start a cluster here: {error}")
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()
    for name in settings:
        del os.environ[name]


def test_shards_become_one_set_and_finished_ones_are_skipped(model, shards, tmp_path):
    done = cr.embed(shards, TOWERS, tmp_path / "out", columns=["label"])
    assert (done.rows, done.embedded, len(done.shards)) == (14, 4, 4)
    rows = conifer.EmbeddingSet.open(done.set)
    tables = [pq.read_table(shards / f"part{i}.parquet").to_pydict() for i in range(4)]
    assert rows.ids == [it for table in tables for it in table["id"]] and set(rows.modality) == {"text"}
    assert rows.columns["label"] == [str(it) for table in tables for it in table["label"]]
    texts = [it for table in tables for it in table["text"]]
    np.testing.assert_allclose(rows.points, model.encode_text(texts), atol=1e-5)
    assert conifer.EmbeddingSet.from_parquet(done.shards[1]).ids == tables[1]["id"]
    assert np.array_equal(done.open().points, rows.points)

    before = contents(tmp_path / "out")
    again = cr.embed(shards, TOWERS, tmp_path / "out", columns=["label"])
    assert again.embedded == 0 and again.shards == done.shards and contents(tmp_path / "out") == before
    # A changed input is embedded again, the others are not.
    pq.write_table(pa.table({"id": ["new"], "text": ["a new text"], "label": [99]}), shards / "part2.parquet")
    changed = cr.embed(shards, TOWERS, tmp_path / "out", columns=["label"])
    assert (changed.rows, changed.embedded) == (13, 1) and changed.open().ids.count("new") == 1
    # Other arguments too.
    assert cr.embed(shards, TOWERS, tmp_path / "out").embedded == 4


def test_a_dataset_with_photos_in_every_form(model, drawings, tmp_path):
    pil = pytest.importorskip("PIL.Image")
    path = tmp_path / "photo.png"
    pil.fromarray(drawings[0]).save(path)
    png = path.read_bytes()
    expected = model.encode_image([drawings[0]])[0]
    files = ray.data.from_items([{"image": png, "id": "bytes"}, {"image": png, "id": "more"}] * 3).repartition(2)
    done = cr.embed(files, TOWERS, tmp_path / "a", actors=1)
    rows = done.open()
    assert rows.ids == ["bytes", "more"] * 3 and set(rows.modality) == {"image"}
    np.testing.assert_allclose(rows.points, np.stack([expected] * 6), atol=1e-5)
    assert cr.embed(files, TOWERS, tmp_path / "a", actors=1).embedded == 0
    for i, value in enumerate((str(path), {"bytes": png, "path": None}, {"bytes": None, "path": str(path)}, drawings[0])):
        data = ray.data.from_items([{"image": value}])
        found = cr.embed(data, TOWERS, tmp_path / f"form{i}", actors=1, join=False)
        assert found.set is None
        np.testing.assert_allclose(found.open().points[0], expected, atol=1e-5)


def test_a_killed_worker_changes_no_byte(tmp_path):
    folder = write_long_shards(tmp_path / "input", 6)
    undisturbed = cr.embed(folder, TOWERS, tmp_path / "a", join=False)
    assert undisturbed.embedded == 6

    def is_worker(pid):
        return b"ray::" in Path(f"/proc/{pid}/cmdline").read_bytes()

    with a_killed_worker(tmp_path / "b/shards", is_worker) as killed:
        disturbed = cr.embed(folder, TOWERS, tmp_path / "b", join=False)
    assert killed, "no worker was killed in the middle of a shard"
    assert contents(tmp_path / "a") == contents(tmp_path / "b") and disturbed.rows == 18_000
    assert len(contents(tmp_path / "b")) == 6, "the partial file is gone"


def test_bad_input(shards, tmp_path):
    with pytest.raises(FileNotFoundError, match="absent does not exist; expected a Parquet file"):
        cr.embed(tmp_path / "absent", TOWERS, tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no Parquet files"):
        cr.embed(tmp_path / "empty", TOWERS, tmp_path / "out")
    with pytest.raises(ValueError, match="given twice"):
        cr.embed([shards, shards / "part0.parquet"], TOWERS, tmp_path / "out")
    with pytest.raises(ValueError, match="`actors` is 0"):
        cr.embed(shards, TOWERS, tmp_path / "out", actors=0)
    pq.write_table(pa.table({"image": [b"no photo"]}), tmp_path / "broken.parquet")
    with pytest.raises(Exception, match="shard .*broken.parquet: .*image 0 cannot be read"):
        cr.embed(tmp_path / "broken.parquet", TOWERS, tmp_path / "out", actors=1)
    with pytest.raises(Exception, match="shard .*part0.parquet: the columns are .*; expected `photo` or `caption`"):
        cr.embed(shards / "part0.parquet", TOWERS, tmp_path / "out", image="photo", text="caption", actors=1)
    assert not list((tmp_path / "out/shards").iterdir())
    with pytest.raises(FileNotFoundError, match="expected a folder of conifer.ray.build_index"):
        cr.ShardedIndex(tmp_path)
    rows = conifer.EmbeddingSet(np.zeros((3, 8)), SPACE)
    with pytest.raises(ValueError, match="`shards` is 4; expected 1 to 3"):
        cr.build_index(rows, 4, tmp_path / "index")


@pytest.fixture
def rows(rng):
    points = SPACE.exp0(rng.normal(size=(500, 8)) * rng.uniform(0.2, 2, (500, 1))).astype(np.float32)
    # Ties within a shard and between shards.
    points[[120, 121, 300, 499]] = points[7]
    labels = [f"class {i % 3}" for i in range(500)]
    modality = ["text" if i % 2 else "image" for i in range(500)]
    return conifer.EmbeddingSet(points, SPACE, [f"row {i}" for i in range(500)], modality, {"label": labels})


def test_search_equals_one_index(rows, tmp_path):
    whole = conifer.Index(rows)
    queries = np.ascontiguousarray(rows.points[:20])
    with cr.build_index(rows, 3, tmp_path / "index", num_cpus=0.5) as index:
        assert (len(index), index.shards, index.space) == (500, 3, SPACE)
        mask = np.arange(500) % 5 == 0
        for arguments in (
            {"by": "distance"},
            {"by": "similarity"},
            {"by": "inner"},
            {"by": "narrower"},
            {"by": "broader"},
            {"by": "gated_narrower", "angle": 1.0},
            {"by": "gated_broader", "angle": 1.0},
            {"by": "general", "within": 2.0},
            {"where": {"label": ["class 1"]}},
            {"where": mask},
            {"where": [499, 7, 300, 2]},
            {"modality": "text", "depth": (0.5, 1.5)},
            {"inside": queries[3], "by": "distance"},
        ):
            for k in (1, 7, 400, 10_000):
                found = cr.search(index, queries, k=k, **arguments)
                expected = whole.search(queries, k=k, **arguments)
                assert np.array_equal(found.rows, expected.rows), arguments
                assert np.array_equal(found.scores, expected.scores, equal_nan=True), arguments
        found, expected = index.search(queries, k=5), whole.search(queries, k=5)
        assert found.rows[7].tolist() == [7, 120, 121, 300, 499]
        assert np.array_equal(found.ids, expected.ids) and found.columns() == expected.columns()
        one = index.search(queries[0], k=3)
        assert one.rows.shape == (3,) and one.ids[0] == "row 0"
        with pytest.raises(ValueError, match="expected rows from 0 to 499"):
            index.search(queries, where=[500])
    # The folder is opened again, and a second index replaces it.
    with cr.ShardedIndex(tmp_path / "index", num_cpus=0.5) as index:
        assert np.array_equal(index.search(queries, k=5).rows, expected.rows)
    rows.save(tmp_path / "set")
    with cr.build_index(tmp_path / "set", 2, tmp_path / "index", num_cpus=0.5) as index:
        assert np.array_equal(index.search(queries, k=5).rows, expected.rows)
    assert sorted(it.name for it in (tmp_path / "index").iterdir()) == [
        "index.json", "shard-00000-of-00002", "shard-00001-of-00002",
    ]


def test_a_killed_shard_is_opened_again(rows, tmp_path):
    queries = np.ascontiguousarray(rows.points[:5])
    with cr.build_index(rows, 2, tmp_path / "index", num_cpus=0.5) as index:
        before = index.search(queries, k=5)
        pid = ray.get(index._actors[0].__ray_call__.remote(lambda actor: os.getpid()))
        os.kill(pid, signal.SIGKILL)
        after = index.search(queries, k=5)
        assert np.array_equal(before.rows, after.rows) and np.array_equal(before.ids, after.ids)

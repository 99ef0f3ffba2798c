"""Embedding with Daft, with two processes on this machine."""

import os
from pathlib import Path

import numpy as np
import pytest
from conftest import TOWERS, a_killed_worker, contents, write_long_shards

import conifer

daft = pytest.importorskip("daft")
pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

import conifer.daft as cd  # noqa: E402

pytestmark = pytest.mark.slow


def test_shards_become_one_set_and_finished_ones_are_skipped(model, shards, tmp_path):
    done = cd.embed(shards, TOWERS, tmp_path / "out", columns=["label"])
    assert (done.rows, done.embedded, len(done.shards)) == (14, 4, 4)
    rows = conifer.EmbeddingSet.open(done.set)
    tables = [pq.read_table(shards / f"part{i}.parquet").to_pydict() for i in range(4)]
    assert rows.ids == [it for table in tables for it in table["id"]] and set(rows.modality) == {"text"}
    assert rows.columns["label"] == [str(it) for table in tables for it in table["label"]]
    texts = [it for table in tables for it in table["text"]]
    np.testing.assert_allclose(rows.points, model.encode_text(texts), atol=1e-5)

    before = contents(tmp_path / "out")
    again = cd.embed(shards, TOWERS, tmp_path / "out", columns=["label"])
    assert again.embedded == 0 and again.shards == done.shards and contents(tmp_path / "out") == before
    pq.write_table(pa.table({"id": ["new"], "text": ["a new text"], "label": [99]}), shards / "part2.parquet")
    changed = cd.embed(shards, TOWERS, tmp_path / "out", columns=["label"])
    assert (changed.rows, changed.embedded) == (13, 1) and changed.open().ids.count("new") == 1


def test_shards_do_not_depend_on_the_engine(shards, tmp_path):
    from conifer._shards import ShardEmbedder, input_files, settings_of

    done = cd.embed(shards, TOWERS, tmp_path / "a", join=False)
    names = {"image": "image", "text": "text", "id": "id", "columns": []}
    settings = settings_of(
        TOWERS, tmp_path / "b", names=names, root_text=None, batch_size=32, actors=1, num_cpus=1
    )
    embedder = ShardEmbedder(settings)
    for number, file in enumerate(input_files(shards)):
        embedder.file({**file, "number": number})
    conifer.set_num_threads(0)
    assert done.set is None and contents(tmp_path / "a") == contents(tmp_path / "b")


def test_the_call_after_a_killed_worker_changes_no_byte(tmp_path):
    folder = write_long_shards(tmp_path / "input", 4)
    undisturbed = cd.embed(folder, TOWERS, tmp_path / "a", join=False)
    assert undisturbed.embedded == 4

    with a_killed_worker(tmp_path / "b/shards", lambda pid: pid != os.getpid()) as killed:
        with pytest.raises(Exception, match="UDF process"):
            cd.embed(folder, TOWERS, tmp_path / "b", join=False)
    assert killed
    rest = cd.embed(folder, TOWERS, tmp_path / "b", join=False)
    assert 1 <= rest.embedded <= 4 and rest.rows == 12_000
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_columns_of_a_data_frame(model, drawings, tmp_path):
    pil = pytest.importorskip("PIL.Image")
    path = tmp_path / "photo.png"
    pil.fromarray(drawings[0]).save(path)
    frame = daft.from_pydict({"photo": [path.read_bytes(), None], "path": [str(path)] * 2, "text": ["a shape", "a dog"]})
    towers = cd.embedder(TOWERS, actors=2)
    found = frame.select(
        towers.image(frame["photo"]).alias("a"), towers.image(frame["path"]).alias("b"), towers.text(frame["text"]).alias("c")
    ).to_pydict()
    expected = model.encode_image([drawings[0]])[0]
    assert found["a"][1] is None
    np.testing.assert_allclose([found["a"][0], *found["b"]], [expected] * 3, atol=1e-5)
    np.testing.assert_allclose(found["c"], model.encode_text(["a shape", "a dog"]), atol=1e-5)


def test_bad_input(shards, tmp_path):
    with pytest.raises(FileNotFoundError, match="absent does not exist; expected a Parquet file"):
        cd.embed(tmp_path / "absent", TOWERS, tmp_path / "out")
    with pytest.raises(ValueError, match="`actors` is 0"):
        cd.embed(shards, TOWERS, tmp_path / "out", actors=0)
    with pytest.raises(ValueError, match="`batch_size` is 0"):
        cd.embedder(TOWERS, batch_size=0)
    pq.write_table(pa.table({"image": [b"no photo"]}), tmp_path / "broken.parquet")
    with pytest.raises(Exception, match="shard .*broken.parquet: .*image 0 cannot be read"):
        cd.embed(tmp_path / "broken.parquet", TOWERS, tmp_path / "out", actors=1)
    assert not list(Path(tmp_path / "out/shards").iterdir())


def test_lance_data_sets(shards, tmp_path):
    pytest.importorskip("lance")
    done = cd.embed(shards, TOWERS, tmp_path / "out", columns=["label"])
    done.to_lance(tmp_path / "rows.lance")
    found, rows = conifer.EmbeddingSet.from_lance(tmp_path / "rows.lance"), done.open()
    assert found.ids == rows.ids and found.columns == rows.columns and found.space == rows.space
    assert np.array_equal(found.points, rows.points)

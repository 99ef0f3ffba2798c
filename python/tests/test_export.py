"""Sets in the forms of other programs: export files, LanceDB, Qdrant, Lance and Hugging Face data sets."""

import numpy as np
import oracle
import pytest

import conifer

N = 400
SPACES = [conifer.Lorentz(8, 0.7), conifer.Product(2, 4, [0.5, 1.5]), conifer.Sphere(8), conifer.Euclidean(8)]


def made(space, rng, count=N):
    tangents = rng.normal(size=(count, 8)) * rng.uniform(0.3, 1.5, (count, 1))
    return space.exp0(tangents).astype(np.float32)


@pytest.fixture
def rows(rng):
    labels = [f"class {i % 3}" for i in range(N)]
    return conifer.EmbeddingSet(
        made(SPACES[0], rng), SPACES[0], [f"row {i}" for i in range(N)], "text", {"label": labels}, model="m"
    )


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.kind)
def test_vectors_have_the_order_of_the_distances(space, rng):
    rows, queries = conifer.EmbeddingSet(made(space, rng), space), made(space, rng, 5)
    vectors = conifer.export._conifer.row_vectors(rows._inner).astype(np.float64)
    sent = conifer.export._conifer.query_vectors(space, queries).astype(np.float64)
    assert vectors.shape[1] == sent.shape[1] == {"lorentz": 10, "product_l1": 11}.get(space.kind, 8)
    squares = ((sent[:, None] - vectors) ** 2).sum(-1)
    if space.kind == "lorentz":
        # docs/search.md: |row - query|^2 = M + |query|^2 + 2 cosh(sqrt(c) d(q, x))
        rest = squares - (sent**2).sum(1, keepdims=True)
        cosh = np.cosh(np.sqrt(0.7) * oracle.distance(queries[:, None], rows.points[None], 0.7))
        bounds = rest - 2 * cosh
        assert np.ptp(bounds) < 1e-4 * np.abs(bounds).max()
    elif space.kind in ("sphere", "euclidean"):
        np.testing.assert_allclose(squares, ((queries[:, None] - rows.points) ** 2).sum(-1), atol=1e-5)


class Nearest(conifer.export.RescoredIndex):
    """An engine that computes the Euclidean distances of all vectors."""

    def __init__(self, rows):
        super().__init__(rows)
        self.vectors = conifer.export._conifer.row_vectors(rows._inner)

    def candidates(self, vector, count):
        return np.argsort(((self.vectors - vector) ** 2).sum(1), kind="stable")[:count].tolist()


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.kind)
def test_rescored_search_is_exact_search(space, rng):
    rows, queries = conifer.EmbeddingSet(made(space, rng), space), made(space, rng, 20)
    # On a product the order of the vectors is not that of the distances, so all rows are candidates.
    candidates = N if space.kind == "product_l1" else None
    found = Nearest(rows).search(queries, k=10, candidates=candidates)
    expected = conifer.Index(rows).search(queries, k=10)
    distances = space.pairwise_distance(queries.astype(np.float64), rows.points.astype(np.float64))
    np.testing.assert_allclose(found.scores, np.sort(distances, axis=1)[:, :10], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-3, atol=1e-3)
    one = Nearest(rows).search(queries[0], k=3)
    assert one.rows.shape == (3,) and one.ids[0] == str(one.rows[0]) and one.columns()["rank"] == [1, 2, 3]
    few = Nearest(rows[:4]).search(queries[:2], k=6)
    assert few.rows.shape == (2, 6) and (few.rows[:, 4:] == -1).all() and np.isnan(few.scores[:, 4:]).all()


def test_arguments_of_a_rescored_search(rows):
    index = Nearest(rows)
    for options, text in (({"k": 0}, "`k` is 0"), ({"k": 5, "candidates": 4}, "`candidates` is 4; expected at least")):
        with pytest.raises(ValueError, match=text):
            index.search(rows.points[:1], **options)
    with pytest.raises(ValueError, match=r"queries has shape \(1, 7\)"):
        index.search(rows.points[:1, :7].copy())
    with pytest.raises(ValueError, match="component 0 of row 0 is NaN"):
        index.search(np.full((1, 8), np.nan, np.float32))


def same_as_exact(index, rows, queries, least):
    expected = conifer.Index(rows).search(queries, k=10).rows
    found = index.search(queries, k=10, candidates=200).rows
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), expected.tolist())])
    assert shared >= least, shared


def test_lancedb(rows, rng, tmp_path):
    pytest.importorskip("lancedb")
    queries = made(rows.space, rng, 20)
    index = conifer.export.to_lancedb(rows, tmp_path / "db", "exact", approximate=False)
    same_as_exact(index, rows, queries, 0.99)
    assert index.table.count_rows() == N
    first = index.table.search().where("row = 7").limit(1).to_list()[0]
    assert (first["id"], first["modality"], first["column_label"]) == ("row 7", "text", "class 1")
    same_as_exact(conifer.export.to_lancedb(rows, tmp_path / "db", "graph"), rows, queries, 0.9)


def test_qdrant(rows, rng):
    qdrant = pytest.importorskip("qdrant_client")
    client = qdrant.QdrantClient(":memory:")
    index = conifer.export.to_qdrant(rows, client)
    same_as_exact(index, rows, made(rows.space, rng, 20), 0.99)
    (point,) = client.retrieve("conifer", [7])
    assert point.payload == {"id": "row 7", "modality": "text", "columns": {"label": "class 1"}}
    client.close()


def test_qdrant_edge(rows, rng, tmp_path):
    pytest.importorskip("qdrant_edge")
    queries = made(rows.space, rng, 20)
    same_as_exact(conifer.export.to_qdrant(rows, tmp_path / "exact", exact=True), rows, queries, 0.99)
    same_as_exact(conifer.export.to_qdrant(rows, tmp_path / "graph"), rows, queries, 0.9)


def test_files(rows, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert conifer.export.to_files(rows, tmp_path / "out", "parquet") == N
    table = parquet.read_table(tmp_path / "out/rows.parquet")
    assert table["id"].to_pylist() == rows.ids
    # One form of vectors: that of the command is that of the package.
    vectors = np.array(table["vector"].to_pylist(), np.float32)
    np.testing.assert_allclose(vectors, conifer.export._conifer.row_vectors(rows._inner), rtol=1e-6)
    with pytest.raises(ValueError, match="expected a new folder"):
        conifer.export.to_files(rows, tmp_path / "out", "parquet")


def test_lance_data_sets(rows, tmp_path):
    pytest.importorskip("lance")
    rows.to_lance(tmp_path / "rows.lance")
    read = conifer.EmbeddingSet.from_lance(tmp_path / "rows.lance")
    assert np.array_equal(read.points, rows.points) and read.space == rows.space and read.source["model"] == "m"
    assert (read.ids, read.modality, read.columns) == (rows.ids, rows.modality, rows.columns)
    with pytest.raises(OSError, match="exists"):
        rows.to_lance(tmp_path / "rows.lance")


def test_hugging_face_data_sets(rows, tmp_path):
    datasets = pytest.importorskip("datasets")
    made_of_rows = rows.to_dataset()
    assert made_of_rows.column_names == ["id", "modality", "point", "column_label"] and len(made_of_rows) == N
    made_of_rows.save_to_disk(tmp_path / "saved")
    for copy in (made_of_rows, datasets.load_from_disk(tmp_path / "saved")):
        read = conifer.EmbeddingSet.from_dataset(copy)
        assert np.array_equal(read.points, rows.points) and read.space == rows.space
        assert (read.ids, read.modality, read.columns) == (rows.ids, rows.modality, rows.columns)
        assert read.source["model"] == "m"
    chosen = conifer.EmbeddingSet.from_dataset(made_of_rows.select([5, 2]))
    assert chosen.ids == ["row 5", "row 2"] and np.array_equal(chosen.points, rows.points[[5, 2]])
    other = datasets.Dataset.from_dict({"id": ["a"], "point": [[0.1] * 8]})
    with pytest.raises(ValueError, match="expected `space`"):
        conifer.EmbeddingSet.from_dataset(other)
    assert conifer.EmbeddingSet.from_dataset(other, rows.space).ids == ["a"]

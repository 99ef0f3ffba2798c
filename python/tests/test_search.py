import pickle

import numpy as np
import oracle
import pytest

import conifer

N, DIM = 300, 8
SPACE = conifer.Lorentz(DIM, 0.8)


@pytest.fixture
def rows(rng):
    points = SPACE.exp0(rng.normal(size=(N, DIM)) * rng.uniform(0.2, 2, (N, 1)))
    labels = [f"class {i % 3}" for i in range(N)]
    modality = ["text" if i % 2 else "image" for i in range(N)]
    return conifer.EmbeddingSet(
        points, SPACE, [f"row {i}" for i in range(N)], modality, {"label": labels}, model="m", data="d"
    )


def test_sets_round_trip(rows, tmp_path):
    rows.save(tmp_path / "set")
    for copy in (conifer.EmbeddingSet.open(tmp_path / "set"), pickle.loads(pickle.dumps(rows))):
        assert np.array_equal(copy.points, rows.points) and copy.space == rows.space
        assert (copy.ids, copy.modality, copy.columns) == (rows.ids, rows.modality, rows.columns)
        assert (copy.source["model"], copy.root) == ("m", None)


def test_points_are_lent_read_only_and_outlive_the_set(rng):
    points = rng.normal(size=(5, DIM)).astype(np.float32)
    rows = conifer.EmbeddingSet(points, SPACE)
    lent = rows.points
    assert np.shares_memory(lent, rows.points) and not lent.flags.writeable and lent.dtype == np.float32
    with pytest.raises(ValueError, match="WRITEABLE|writeable"):
        lent.flags.writeable = True
        lent[0, 0] = 1
    del rows
    assert np.array_equal(lent, points)


def test_rows_are_selected_and_joined(rows):
    assert rows[5].ids == ["row 5"] and rows[-1].ids == [f"row {N - 1}"]
    mask = np.array(rows.modality) == "text"
    assert rows[mask].ids == [f"row {i}" for i in range(1, N, 2)]
    joined = conifer.EmbeddingSet.concat([rows[:2], rows[[7, 3]]])
    assert joined.ids == ["row 0", "row 1", "row 7", "row 3"] and joined.columns["label"][2] == "class 1"


def test_search_equals_sorting_by_the_oracle(rows, rng):
    index = conifer.Index(rows)
    queries = SPACE.exp0(rng.normal(size=(7, DIM))).astype(np.float32)
    table = {
        "distance": oracle.distance(queries[:, None], rows.points[None], 0.8),
        "similarity": oracle.distance(queries[:, None], rows.points[None], 0.8),
        "narrower": oracle.exterior_angle(queries[:, None], rows.points[None], np.zeros((1, 1, DIM)), 0.8),
        "broader": oracle.exterior_angle(rows.points[None], queries[:, None], np.zeros((1, 1, DIM)), 0.8),
    }
    for by, keys in table.items():
        found = index.search(queries, k=10, by=by)
        expected = np.sort(keys, axis=1)[:, :10]
        sign = -1 if by == "similarity" else 1
        np.testing.assert_allclose(sign * found.scores, expected, atol=2e-4)
        np.testing.assert_allclose(np.take_along_axis(keys, found.rows, 1), expected, atol=2e-4)
    one = index.search(queries[3], k=4)
    assert one.rows.shape == (4,) and one.ids[0] == f"row {one.rows[0]}" and len(one) == 1


def test_conditions(rows):
    index, query = conifer.Index(rows), rows.points[0]
    depth = rows.depth()
    mask = np.arange(N) % 5 == 0

    def found(**conditions):
        rows_found = index.search(query, k=N, **conditions).rows
        return set(rows_found[rows_found >= 0].tolist())

    label = {i for i in range(N) if i % 3 == 1}
    assert found(where={"label": "class 1"}) == label
    assert found(where={"label": ["class 1", "class 2"]}) == {i for i in range(N) if i % 3}
    assert found(where=mask) == set(range(0, N, 5)) == found(where=list(range(0, N, 5)))
    assert found(modality="text") == set(range(1, N, 2))
    assert found(depth=(1.0, 2.0)) == set(np.flatnonzero((depth >= 1) & (depth <= 2)).tolist())
    parent = SPACE.exp0(np.full(DIM, 0.05, np.float32))
    inside = set(np.flatnonzero(SPACE.is_inside_cone(parent, rows.points)).tolist())
    assert 0 < len(inside) < N
    assert found(inside=parent) == inside and found(outside=parent) == set(range(N)) - inside
    assert found(where={"label": "class 1"}, modality="text", depth=(0, 1.5)) == {
        i for i in label if i % 2 and depth[i] <= 1.5
    }
    empty = index.search(query, k=3, where={"label": "nothing"})
    assert (empty.rows == -1).all() and np.isnan(empty.scores).all() and empty.ids.tolist() == [None] * 3


def test_columns_of_other_libraries_are_conditions(rows):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    index, frame = conifer.Index(rows), rows.to_pandas()
    expected = index.search(rows.points[0], where={"label": "class 2"}).rows
    mask = frame["label"] == "class 2"
    for where in (mask, pyarrow.array(mask.to_numpy()), pyarrow.chunked_array([mask.to_numpy()])):
        assert np.array_equal(index.search(rows.points[0], where=where).rows, expected)
    assert frame["depth"].to_numpy() == pytest.approx(rows.depth())


def test_gates_and_order(rows):
    index, query = conifer.Index(rows), SPACE.exp0(np.full(DIM, 0.1, np.float32))
    angle = SPACE.exterior_angle(query, rows.points)
    gated = index.search(query, k=N, by="gated_narrower", angle=1.0)
    assert set(gated.rows[gated.rows >= 0]) == set(np.flatnonzero(angle <= 1.0))
    general = index.search(query, k=N, by="general", within=2.0)
    assert np.all(np.diff(general.scores[general.rows >= 0]) >= 0)


def test_traversals_end_at_the_root(rows):
    index = conifer.Index(rows)
    path = index.traverse(rows.points[0])
    assert path[-1].row is None and path.ids[-1] == "[ROOT]"
    assert [stop.at for stop in path] == sorted(stop.at for stop in path)
    between = index.traverse(rows.points[0], rows.points[1])
    assert (between[0].row, between[-1].row) == (0, 1) and between[0].id == "row 0"
    assert len(index.traverse(rows.points[0], rows.points[1], steps=2)) == 2


def test_indexes_round_trip(rows, tmp_path):
    index = conifer.Index(rows)
    index.save(tmp_path / "index")
    expected = index.search(rows.points, k=5).rows
    for copy in (conifer.Index.open(tmp_path / "index"), pickle.loads(pickle.dumps(index))):
        assert np.array_equal(copy.search(rows.points, k=5).rows, expected) and len(copy) == N
    assert index.space == SPACE and index.ids == rows.ids


def test_float64_queries_and_large_k(rows):
    index = conifer.Index(rows)
    wide = index.search(rows.points.astype(np.float64), k=10 * N)
    assert wide.rows.shape == (N, N) and np.array_equal(wide.rows[:, 0], np.arange(N))


def test_tables(rows):
    found = conifer.Index(rows).search(rows.points[:2], k=3)
    columns = found.columns()
    assert columns["query"] == [0, 0, 0, 1, 1, 1] and columns["rank"] == [1, 2, 3] * 2
    assert columns["id"][0] == "row 0" and columns["column_label"][0] == "class 0"
    dangerous = conifer.EmbeddingSet(rows.points[:1], SPACE, ["<script>"])
    for html in (found._repr_html_(), rows._repr_html_(), conifer.Index(rows).traverse(rows.points[0])._repr_html_()):
        assert html.startswith("<table>")
    assert "<script>" not in dangerous._repr_html_() and f"{N - 10} more rows" in rows._repr_html_()


def test_arrow_and_parquet_round_trip(rows, tmp_path):
    pytest.importorskip("pyarrow")
    rows.to_parquet(tmp_path / "rows.parquet")
    read = conifer.EmbeddingSet.from_parquet(tmp_path / "rows.parquet")
    for copy in (conifer.EmbeddingSet.from_arrow(rows.to_arrow()), read):
        assert np.array_equal(copy.points, rows.points) and copy.space == SPACE
        assert (copy.ids, copy.modality, copy.columns) == (rows.ids, rows.modality, rows.columns)
    table = rows.to_arrow().replace_schema_metadata(None)
    with pytest.raises(ValueError, match="expected `space`"):
        conifer.EmbeddingSet.from_arrow(table)
    assert conifer.EmbeddingSet.from_arrow(table, SPACE).ids == rows.ids
    sliced = conifer.EmbeddingSet.from_arrow(rows.to_arrow().slice(10, 5))
    assert np.array_equal(sliced.points, rows.points[10:15])

"""Embedding sets in other search engines: files, LanceDB tables, Qdrant collections.

These engines do not know hyperbolic distance. They get vectors with extra components, whose Euclidean order is the
order of the hyperbolic distance; on a product it is close to it (``docs/search.md``, "Exported vectors"). The engine
returns candidates by these vectors, and :meth:`RescoredIndex.search` ranks them by the exact distance in float64.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _conifer
from .embeddings import EmbeddingSet
from .search import SearchResult

if TYPE_CHECKING:
    import pyarrow

# Rows per request to Qdrant.
BATCH = 1000


def to_files(
    rows: EmbeddingSet | str | os.PathLike[str],
    out: str | os.PathLike[str],
    to: str = "parquet",
    *,
    name: str = "conifer",
    radius: float | None = None,
) -> int:
    """Write the folder ``out``, as ``conifer export`` does, and return the number of rows.

    rows: a set in memory, or the folder of a set or store.
    to: ``parquet``, ``lancedb`` (Parquet and a script that imports it) or ``qdrant``.
    name: of the collection or table. radius: largest distance from the origin of rows that are added later.
    """
    with tempfile.TemporaryDirectory() as folder:
        place: Any = rows
        if isinstance(rows, EmbeddingSet):
            place = os.path.join(folder, "set")
            rows.save(place)
        arguments = [os.fspath(place), "--to", to, "--out", os.fspath(out), "--name", name]
        if radius is not None:
            arguments += ["--radius", repr(float(radius))]
        return _conifer.export(arguments)


def to_lancedb(
    rows: EmbeddingSet, uri: str | os.PathLike[str], name: str = "conifer", *, approximate: bool = True
) -> LanceIndex:
    """Create the LanceDB table ``name`` in the database ``uri`` and return an index over it. Needs the package lancedb.

    The table has the columns ``row``, ``id``, ``modality``, ``vector`` and ``column_NAME`` for each column of the set.
    approximate: build LanceDB's index ``IVF_HNSW_SQ`` for L2. Otherwise LanceDB scans all rows.
    """
    import lancedb
    import pyarrow

    vectors = _conifer.row_vectors(rows._inner)
    lists = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), vectors.shape[1])
    table: pyarrow.Table = rows.to_arrow().drop_columns(["point"])
    table = table.append_column("row", pyarrow.array(np.arange(len(rows)))).append_column("vector", lists)
    made = lancedb.connect(os.fspath(uri)).create_table(name, table)
    if approximate:
        from lancedb.index import HnswSq

        made.create_index("vector", config=HnswSq(distance_type="l2"))
    return LanceIndex(rows, made)


def to_qdrant(
    rows: EmbeddingSet, client: Any, name: str = "conifer", *, exact: bool = False
) -> QdrantIndex | QdrantEdgeIndex:
    """Create the collection ``name`` with the rows of a set and return an index over it.

    client: a ``qdrant_client.QdrantClient``; or a folder, in which Qdrant Edge, the engine of the server, keeps the
        collection in this process (package qdrant-edge-py). The local mode of the client scans all rows.
    exact: let Qdrant scan all rows instead of using its graph.

    The numbers of the points are the row numbers. Payload: ``id``, ``modality`` and ``columns``.
    """
    if isinstance(client, (str, os.PathLike)):
        return _to_qdrant_edge(rows, client, exact)
    from qdrant_client import models

    vectors = _conifer.row_vectors(rows._inner)
    size = vectors.shape[1]
    client.create_collection(name, vectors_config=models.VectorParams(size=size, distance=models.Distance.EUCLID))
    for start in range(0, len(rows), BATCH):
        batch = range(start, min(start + BATCH, len(rows)))
        points = [models.PointStruct(id=i, vector=vectors[i].tolist(), payload=_payload(rows, i)) for i in batch]
        client.upsert(name, points, wait=True)
    return QdrantIndex(rows, client, name, exact)


def _to_qdrant_edge(rows: EmbeddingSet, folder: str | os.PathLike[str], exact: bool) -> QdrantEdgeIndex:
    import qdrant_edge as edge

    vectors = _conifer.row_vectors(rows._inner)
    os.makedirs(folder, exist_ok=True)
    params = edge.EdgeVectorParams(size=vectors.shape[1], distance=edge.Distance.Euclid)
    shard = edge.EdgeShard.create(os.fspath(folder), edge.EdgeConfig(vectors={"": params}))
    for start in range(0, len(rows), BATCH):
        batch = range(start, min(start + BATCH, len(rows)))
        points = [edge.Point(i, vectors[i].tolist(), _payload(rows, i)) for i in batch]
        shard.update(edge.UpdateOperation.upsert_points(points))
    shard.optimize()
    return QdrantEdgeIndex(rows, shard, exact)


def _payload(rows: EmbeddingSet, row: int) -> dict[str, Any]:
    columns = {name: values[row] for name, values in rows.columns.items()}
    return {"id": rows.ids[row], "modality": rows.modality[row], "columns": columns}


class RescoredIndex(ABC):
    """The rows of a set in another engine. The engine returns candidates, which are ranked here.

    rows: the set whose row numbers the engine returns.
    """

    def __init__(self, rows: EmbeddingSet) -> None:
        self.rows = rows

    @abstractmethod
    def candidates(self, vector: npt.NDArray[np.float32], count: int) -> list[int]:
        """The row numbers of the ``count`` nearest vectors by Euclidean distance, as the engine finds them."""

    def search(self, queries: Any, k: int = 10, candidates: int | None = None) -> SearchResult:
        """The k nearest rows of the candidates for each query, by the exact distance.

        queries: points (Q, dim), or one point (dim,). candidates: number of rows to ask the engine for (default: 10 k,
            at least 100). The result is that of :meth:`conifer.Index.search` if they contain the k nearest rows.
        """
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise ValueError(f"`k` is {k}; expected an integer, at least 1")
        count = max(10 * int(k), 100) if candidates is None else int(candidates)
        if count < k:
            raise ValueError(f"`candidates` is {count}; expected at least `k`, {k}")
        vectors = _conifer.query_vectors(self.rows.space, queries)
        points = np.asarray(queries, np.float64).reshape(len(vectors), -1)
        found = np.full((len(vectors), k), -1, np.int64)
        scores = np.full((len(vectors), k), np.nan, np.float32)
        for i, (vector, query) in enumerate(zip(vectors, points)):
            near = np.array(sorted(self.candidates(vector, min(count, len(self.rows)))), np.int64)
            if len(near):
                distance = self.rows.space.distance(self.rows.points[near].astype(np.float64), query)
                best = np.argsort(distance, kind="stable")[:k]
                found[i, : len(best)], scores[i, : len(best)] = near[best], distance[best]
        return SearchResult(self.rows, "distance", found, scores, single=getattr(queries, "ndim", 2) == 1)

    def __repr__(self) -> str:
        return f"conifer.export.{type(self).__name__}({self.rows!r})"


class LanceIndex(RescoredIndex):
    """A LanceDB table with the rows of a set, as :func:`to_lancedb` makes it."""

    def __init__(self, rows: EmbeddingSet, table: Any) -> None:
        super().__init__(rows)
        self.table = table

    def candidates(self, vector: npt.NDArray[np.float32], count: int) -> list[int]:
        found = self.table.search(vector).distance_type("l2").limit(count).select(["row", "_distance"]).to_arrow()
        numbers: list[int] = found["row"].to_pylist()
        return numbers


class QdrantIndex(RescoredIndex):
    """A collection of Qdrant with the rows of a set, as :func:`to_qdrant` makes it."""

    def __init__(self, rows: EmbeddingSet, client: Any, name: str, exact: bool = False) -> None:
        super().__init__(rows)
        self.client, self.name, self.exact = client, name, exact

    def candidates(self, vector: npt.NDArray[np.float32], count: int) -> list[int]:
        from qdrant_client import models

        params = models.SearchParams(exact=self.exact)
        found = self.client.query_points(
            self.name, query=vector.tolist(), limit=count, search_params=params, with_payload=False
        )
        return [int(point.id) for point in found.points]


class QdrantEdgeIndex(RescoredIndex):
    """A shard of Qdrant Edge with the rows of a set, as :func:`to_qdrant` makes it."""

    def __init__(self, rows: EmbeddingSet, shard: Any, exact: bool = False) -> None:
        super().__init__(rows)
        self.shard, self.exact = shard, exact

    def candidates(self, vector: npt.NDArray[np.float32], count: int) -> list[int]:
        import qdrant_edge as edge

        nearest = edge.Query.Nearest(vector.tolist())
        params = edge.SearchParams(exact=self.exact)
        found = self.shard.query(edge.QueryRequest(limit=count, query=nearest, params=params))
        return [int(point.id) for point in found]

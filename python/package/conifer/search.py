"""Exact search by distance, cone and depth, and traversals to the root."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _conifer
from ._html import table
from .embeddings import EmbeddingSet
from .spaces import Space, space_of

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from .ray import ShardedIndex

ROOT = "[ROOT]"


class Index:
    """An exact index over the rows of a set.

    points: an :class:`EmbeddingSet`, or an array (N, dim) with the other arguments as for :class:`EmbeddingSet`.
    """

    def __init__(self, points: Any, space: Space | None = None, **columns_of_set: Any) -> None:
        if not isinstance(points, EmbeddingSet):
            if space is None:
                raise ValueError("`space` is missing; expected the space of the points, such as model.space")
            points = EmbeddingSet(points, space, **columns_of_set)
        elif space is not None or columns_of_set:
            raise ValueError("the set has its own space and columns; expected no other argument")
        self._inner = _conifer.Index(points._inner)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Index:
        """Index a set or the newest version of a store on disk. The points of a store are memory-mapped."""
        found = cls.__new__(cls)
        found._inner = _conifer.Index.open(path)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the indexed set."""
        self._inner.save(path)

    def to_set(self) -> EmbeddingSet:
        """A copy of the indexed rows."""
        return EmbeddingSet._of(self._inner.to_set())

    @cached_property
    def space(self) -> Space:
        """The space of the rows."""
        return space_of(*self._inner.space_spec)

    @cached_property
    def ids(self) -> list[str]:
        """One name per row."""
        return self._inner.ids

    @property
    def root(self) -> npt.NDArray[np.float64] | None:
        """The point (dim,) from which the cones are seen; None: the origin."""
        return self._inner.root

    def __len__(self) -> int:
        return len(self._inner)

    def search(
        self,
        queries: Any,
        k: int = 10,
        by: str = "distance",
        *,
        angle: float | None = None,
        within: float | None = None,
        where: Any = None,
        depth: tuple[float, float] | None = None,
        modality: str | Sequence[str] | None = None,
        inside: Any = None,
        outside: Any = None,
    ) -> SearchResult:
        """The k best rows for each query, best first.

        queries: points (Q, dim), or one point (dim,). The index computes in float32.
        by: ``distance``, ``similarity`` or ``inner``; ``narrower`` (exterior angle with the query as the parent) or
            ``broader`` (with the query as the child); ``gated_narrower`` and ``gated_broader`` (rows within ``angle``
            radians, by similarity); ``general`` (rows within ``angle`` or within the distance ``within``, general first).
        where: a mapping of column names to a value or values, a mask (N,) of booleans (NumPy, pandas, Polars or Arrow),
            or row numbers.
        depth: smallest and largest distance to the root.
        modality: one modality or several.
        inside, outside: a point or points whose cones must, or must not, contain the row.
        """
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise ValueError(f"`k` is {k}; expected an integer, at least 1")
        chosen = self._filter(where, depth, modality, inside, outside)
        rows, scores = self._inner.search(queries, int(k), by, angle, within, chosen)
        return SearchResult(self, by, rows, scores, single=getattr(queries, "ndim", 2) == 1)

    def traverse(
        self,
        start: Any,
        end: Any = None,
        *,
        steps: int | None = None,
        path: str | None = None,
        cones: bool | None = None,
        where: Any = None,
        depth: tuple[float, float] | None = None,
        modality: str | Sequence[str] | None = None,
        inside: Any = None,
        outside: Any = None,
    ) -> TraversalResult:
        """The rows along the path from ``start`` (dim,) to the root, or to ``end``.

        steps: number of samples, including both ends (default: 50 to the root, 100 between points).
        path: ``geodesic`` or ``tangent``, the line between the tangent vectors at the origin.
        cones: admit only rows whose cone contains the sample (default: to the root, but not between points).
        The other arguments restrict the rows as in :meth:`search`.
        """
        chosen = self._filter(where, depth, modality, inside, outside)
        stops = self._inner.traverse(start, end, steps, path, cones, chosen)
        names = iter(self._inner.ids_of([row for row, _, _ in stops if row is not None]))
        return TraversalResult(
            Stop(row, ROOT if row is None else next(names), at, similarity) for row, at, similarity in stops
        )

    def _filter(
        self,
        where: Any,
        depth: tuple[float, float] | None,
        modality: str | Sequence[str] | None,
        inside: Any,
        outside: Any,
    ) -> _conifer.RowFilter | None:
        if where is None and depth is None and modality is None and inside is None and outside is None:
            return None
        columns: dict[str, list[str]] = {}
        mask = None
        if isinstance(where, Mapping):
            columns = {str(name): _texts(values) for name, values in where.items()}
        elif where is not None:
            mask = row_mask(where, len(self))
        return {
            "modality": [modality] if isinstance(modality, str) else None if modality is None else list(modality),
            "columns": columns,
            "depth": None if depth is None else (float(depth[0]), float(depth[1])),
            "inside": _points(inside),
            "outside": _points(outside),
            "mask": mask,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return (Index, (self.to_set(),))

    def __repr__(self) -> str:
        return f"conifer.Index({len(self)} rows, {self.space})"


def row_mask(where: Any, count: int) -> npt.NDArray[np.bool_]:
    """The mask (count,) of row numbers, or of a mask of another library."""
    # Arrow arrays have `to_numpy` with an argument; NumPy, pandas and Polars convert themselves.
    chosen = where.to_numpy(zero_copy_only=False) if type(where).__module__.startswith("pyarrow") else where
    chosen = np.asarray(chosen)
    if chosen.ndim != 1:
        raise ValueError(f"`where` has shape {chosen.shape}; expected ({count},)")
    if chosen.dtype == np.bool_:
        if len(chosen) != count:
            raise ValueError(f"`where` has {len(chosen)} values; expected {count}, one per row")
        return chosen
    if chosen.dtype.kind in "iu" or len(chosen) == 0:
        wrong = chosen[(chosen < 0) | (chosen >= count)] if len(chosen) else chosen
        if len(wrong):
            raise ValueError(f"`where` has row {wrong[0]}; expected rows from 0 to {count - 1}")
        mask = np.zeros(count, np.bool_)
        mask[chosen.astype(np.int64)] = True
        return mask
    raise TypeError(f"`where` has dtype {chosen.dtype}; expected a mapping, booleans or row numbers")


def _texts(values: Any) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        return [str(values)]
    return [str(it) for it in values]


def _points(points: Any) -> list[Any]:
    if points is None:
        return []
    return [points] if getattr(points, "ndim", 2) == 1 else list(points)


class SearchResult:
    """Rows and scores of a search.

    rows: row numbers, int64, (Q, k), or (k,) for a single query; -1 where fewer rows pass the conditions.
    scores: float32 of the same shape: distances, similarities, angles in radians or depths; NaN where the row is -1.
    """

    def __init__(
        self,
        searched: Index | EmbeddingSet | ShardedIndex,
        by: str,
        rows: npt.NDArray[np.int64],
        scores: npt.NDArray[np.float32],
        single: bool,
    ) -> None:
        self._searched = searched
        self.by = by
        self.rows = rows[0] if single else rows
        self.scores = scores[0] if single else scores

    @cached_property
    def ids(self) -> npt.NDArray[np.object_]:
        """Ids of the rows, of the shape of ``rows``; None where the row is -1."""
        flat = self.rows.reshape(-1)
        found = flat >= 0
        ids = np.full(flat.shape, None, dtype=object)
        ids[found] = self._searched._inner.ids_of(flat[found].tolist())
        return ids.reshape(self.rows.shape)

    def __len__(self) -> int:
        """Number of queries."""
        return 1 if self.rows.ndim == 1 else len(self.rows)

    def columns(self) -> dict[str, list[Any]]:
        """One entry per found row: query, rank (from 1), row, id, score, modality, and the columns of the set."""
        width = self.rows.shape[-1]
        rows = self.rows.reshape(-1, width)
        query, place = np.nonzero(rows >= 0)
        flat = rows[query, place]
        modality, columns = self._searched._inner.metadata_of(flat.tolist())
        return {
            "query": query.tolist(),
            "rank": (place + 1).tolist(),
            "row": flat.tolist(),
            "id": self._searched._inner.ids_of(flat.tolist()),
            "score": self.scores.reshape(-1, width)[query, place].tolist(),
            "modality": modality,
            **{f"column_{name}": values for name, values in columns.items()},
        }

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame of :meth:`columns`."""
        import pandas

        return pandas.DataFrame(self.columns())

    def to_arrow(self) -> pyarrow.Table:
        """An Arrow table of :meth:`columns`."""
        import pyarrow

        return pyarrow.table(self.columns())

    def __repr__(self) -> str:
        return f"conifer.SearchResult({len(self)} queries, {self.rows.shape[-1]} rows each, by {self.by})"

    def _repr_html_(self) -> str:
        columns = self.columns()
        count = len(columns["row"])
        rows = list(zip(*columns.values()))[:50]
        return table(repr(self), list(columns), rows, count)


@dataclass(frozen=True)
class Stop:
    """A row, or the root (row None), that a traversal passes first at the fraction ``at`` of the path."""

    row: int | None
    id: str
    at: float
    similarity: float


class TraversalResult(Sequence[Stop]):
    """The stops of a traversal, in order."""

    def __init__(self, stops: Iterable[Stop]) -> None:
        self._stops = list(stops)

    def __getitem__(self, at: Any) -> Any:
        return self._stops[at]

    def __len__(self) -> int:
        return len(self._stops)

    def __iter__(self) -> Iterator[Stop]:
        return iter(self._stops)

    @property
    def ids(self) -> list[str]:
        """Ids of the stops; the root is ``[ROOT]``."""
        return [stop.id for stop in self._stops]

    def __repr__(self) -> str:
        return f"conifer.TraversalResult({' -> '.join(self.ids)})"

    def _repr_html_(self) -> str:
        rows = [(stop.at, stop.id, stop.similarity) for stop in self._stops]
        return table(f"{len(self)} stops", ["at", "id", "similarity"], rows)

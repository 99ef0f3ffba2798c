"""Embedding and search on a Ray cluster. Needs the package ray.

Shards go in, embedding sets come out: one folder per shard, which is replaced atomically. A shard whose set exists is
skipped, so a job that was killed goes on where it stopped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import ray  # type: ignore[import-not-found, import-untyped, unused-ignore]

from .embeddings import EmbeddingSet
from .models import load
from .search import Index


class _Embedder:
    """An actor that holds a model."""

    def __init__(self, checkpoint: str) -> None:
        self._model = load(checkpoint)

    def embed(self, rows: Sequence[dict[str, Any]], out: str) -> str:
        """Embed the rows of a shard, each with ``image`` or ``text`` and optionally ``id``, into the folder ``out``."""
        if os.path.isdir(out):
            return out
        inputs = [row["text"] if row.get("text") is not None else row["image"] for row in rows]
        kinds = ["text" if row.get("text") is not None else "image" for row in rows]
        points = np.empty((len(rows), self._model.space.dim), np.float32)
        for kind, encode in (("text", self._model.encode_text), ("image", self._model.encode_image)):
            chosen = [i for i, it in enumerate(kinds) if it == kind]
            if chosen:
                points[chosen] = encode([inputs[i] for i in chosen])
        ids = [str(row.get("id", i)) for i, row in enumerate(rows)]
        model = self._model
        EmbeddingSet(points, model.space, ids, kinds, root=model.root, model=model.path).save(out)
        return out


def embed(
    shards: Iterable[tuple[str, Sequence[dict[str, Any]]]],
    checkpoint: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    actors: int = 2,
    cpus_per_actor: float = 1,
) -> list[str]:
    """Embed named shards with a pool of actors and return the folders of their sets, in the order of the shards.

    shards: pairs of a name and its rows: dicts with ``text`` or ``image`` (path or bytes) and optionally ``id``.
    checkpoint: as for :func:`conifer.load`; every actor opens it. out: a folder that all workers can write to.
    """
    if actors < 1:
        raise ValueError(f"`actors` is {actors}; expected at least 1")
    listed = list(shards)
    names = [name for name, _ in listed]
    if len(set(names)) != len(names) or any(os.sep in name or not name for name in names):
        raise ValueError(f"the names of the shards are {names}; expected different names without {os.sep!r}")
    remote = ray.remote(num_cpus=cpus_per_actor, max_restarts=-1, max_task_retries=-1)(_Embedder)
    pool = [remote.remote(os.fspath(checkpoint)) for _ in range(min(actors, max(len(listed), 1)))]
    os.makedirs(out, exist_ok=True)
    calls = [
        pool[i % len(pool)].embed.remote(rows, os.path.join(os.fspath(out), name))
        for i, (name, rows) in enumerate(listed)
    ]
    try:
        found: list[str] = ray.get(calls)
    finally:
        for actor in pool:
            ray.kill(actor)
    return found


class _Shard:
    """An actor that holds the index of one set."""

    def __init__(self, path: str) -> None:
        self._index = Index.open(path)

    def search(self, queries: npt.NDArray[Any], k: int, arguments: dict[str, Any]) -> tuple[Any, Any, Any]:
        found = self._index.search(queries, k, **arguments)
        return found.rows, found.scores, found.ids


class ShardedIndex:
    """An index over several sets, one actor each. Use :func:`build_index`."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]], cpus_per_actor: float = 1) -> None:
        if not paths:
            raise ValueError("there are no sets; expected at least one")
        self.paths = [os.fspath(path) for path in paths]
        remote = ray.remote(num_cpus=cpus_per_actor, max_restarts=-1, max_task_retries=-1)(_Shard)
        self._actors = [remote.remote(path) for path in self.paths]

    def search(
        self, queries: npt.NDArray[Any], k: int = 10, by: str = "distance", **arguments: Any
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.object_]]:
        """The k best rows of all sets for queries (Q, dim): set numbers, row numbers, scores and ids, (Q, k) each.

        The result is that of one index over all rows: every set returns its k best rows, equal scores are ordered by
        set and row. The arguments are those of :meth:`conifer.Index.search`.
        """
        if queries.ndim != 2:
            raise ValueError(f"queries have shape {queries.shape}; expected (Q, dim)")
        placed = ray.put(queries)
        arguments = {"by": by, **arguments}
        found = ray.get([actor.search.remote(placed, k, arguments) for actor in self._actors])
        widths = [rows.shape[1] for rows, _, _ in found]
        sets = np.concatenate([np.full((len(queries), width), i, np.int64) for i, width in enumerate(widths)], axis=1)
        rows = np.concatenate([it[0] for it in found], axis=1)
        scores = np.concatenate([it[1] for it in found], axis=1)
        ids = np.concatenate([it[2] for it in found], axis=1)
        larger_is_better = by in ("similarity", "inner", "gated_narrower", "gated_broader")
        key = -scores if larger_is_better else scores
        # Missing places come last; the sort is stable, so ties keep the order of sets and rows.
        order = np.argsort(np.where(rows < 0, np.inf, key), axis=1, kind="stable")[:, :k]
        pick = [np.take_along_axis(it, order, axis=1) for it in (sets, rows, scores, ids)]
        return pick[0], pick[1], pick[2], pick[3]

    def close(self) -> None:
        """End the actors."""
        for actor in self._actors:
            ray.kill(actor)


def build_index(paths: Sequence[str | os.PathLike[str]], cpus_per_actor: float = 1) -> ShardedIndex:
    """An index over several sets of one space on disk, one actor each."""
    return ShardedIndex(paths, cpus_per_actor)

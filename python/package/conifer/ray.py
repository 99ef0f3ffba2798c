"""Embedding and search on a Ray cluster. Needs the packages ray and pyarrow (``pip install conifer[ray]``).

:func:`embed` turns every input shard into one Parquet file and joins the files to one set. :func:`build_index` splits a
set into shards, and :func:`search` searches all of them, one actor each. All workers must see the same folders, such as
a network file system.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow
import ray
import ray.data

from ._conifer import set_num_threads
from ._shards import EmbedResult, ShardEmbedder, finished, input_files, settings_of
from .embeddings import EmbeddingSet
from .search import Index, SearchResult, row_mask
from .spaces import Space, space_of

MANIFEST = "index.json"
LARGER_IS_BETTER = ("similarity", "inner", "gated_narrower", "gated_broader")


def embed(
    dataset: Any,
    checkpoint: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    image: str = "image",
    text: str = "text",
    id: str = "id",
    columns: Sequence[str] = (),
    root_text: str | None = None,
    batch_size: int = 32,
    actors: int = 2,
    num_cpus: float = 1,
    join: bool = True,
) -> EmbedResult:
    """Embed photos and texts with a pool of actors, one output shard per input shard.

    dataset: Parquet files, as a file, a folder or a list of them; or a ``ray.data.Dataset``. An input shard is a file, or
        a block of the dataset (``repartition`` changes their number). Files may be URIs such as ``s3://bucket/folder``.
    checkpoint: as for :func:`conifer.load`. Every actor opens it.
    out: a folder. The shards go to ``out/shards`` and the joined set to ``out/set``.
    image, text, id, columns: names of input columns. A row has an image (a path, the bytes of a file, a dict with
        ``bytes`` or ``path``, or an array) or a text; a row with both is a text. ``id`` is optional. ``columns`` are
        kept as columns of the set.
    root_text, batch_size: as for :func:`conifer.load` and :meth:`conifer.Model.encode_image`.
    actors, num_cpus: size of the pool and processors per actor. A dataset that is read while it is embedded needs
        another processor.
    join: write ``out/set``. The driver holds all points for this.

    A second call skips the shards that are finished: those whose input, model and arguments are the same. A shard appears
    under its name when it is complete. The shard of a worker that dies is embedded again by another actor.
    """
    names = {"image": image, "text": text, "id": id, "columns": list(columns)}
    arguments = settings_of(
        checkpoint,
        out,
        names=names,
        root_text=root_text,
        batch_size=batch_size,
        actors=actors,
        num_cpus=num_cpus,
    )
    pool: dict[str, Any] = {
        "fn_constructor_kwargs": {"arguments": arguments},
        "batch_format": "pyarrow",
        "num_cpus": num_cpus,
    }
    if isinstance(dataset, ray.data.Dataset):
        found = dataset.map_batches(
            _BlockEmbedder, batch_size=None, compute=ray.data.ActorPoolStrategy(size=actors), **pool
        )
    else:
        files = input_files(dataset)
        for number, file in enumerate(files):
            file["number"] = number
        size = min(actors, len(files))
        # One block per file: a worker that dies loses one shard.
        listed = ray.data.from_items(files, override_num_blocks=len(files))
        found = listed.map_batches(
            _FileEmbedder, batch_size=1, compute=ray.data.ActorPoolStrategy(size=size), **pool
        )
    return finished(arguments["folder"], _in_order(found), join)


def _in_order(found: Any) -> list[dict[str, Any]]:
    """The results of the shards, in the order of the input."""
    options = found.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        rows: list[dict[str, Any]] = found.take_all()
    finally:
        options.preserve_order = before
    return sorted(rows, key=lambda row: int(row["number"]))


class _FileEmbedder(ShardEmbedder):
    """Embeds Parquet files, one per call."""

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        return pyarrow.Table.from_pylist([self.file(batch.to_pylist()[0])])


class _BlockEmbedder(ShardEmbedder):
    """Embeds blocks of a dataset, one per call."""

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        return pyarrow.Table.from_pylist([self.block(batch)])


class _ShardActor:
    """An actor with the index of one shard."""

    def __init__(self, path: str, threads: int) -> None:
        set_num_threads(threads)
        self._index = Index.open(path)

    def search(self, queries: npt.NDArray[Any], k: int, by: str, arguments: dict[str, Any]) -> tuple[Any, Any]:
        found = self._index.search(queries, k, by, **arguments)
        return found.rows, found.scores

    def ids_of(self, rows: list[int]) -> list[str]:
        return self._index._inner.ids_of(rows)

    def metadata_of(self, rows: list[int]) -> tuple[list[str], dict[str, list[str]]]:
        return self._index._inner.metadata_of(rows)


class ShardedIndex:
    """An exact index over shards on disk, one actor each. Use :func:`build_index`, or give the folder that it wrote.

    Close it, or use it in a ``with`` statement, to end the actors. An actor that dies is started again and opens its
    shard again.
    """

    def __init__(self, folder: str | os.PathLike[str], *, num_cpus: float = 1) -> None:
        self.folder = os.path.abspath(os.fspath(folder))
        try:
            with open(os.path.join(self.folder, MANIFEST)) as file:
                manifest = json.load(file)
        except FileNotFoundError as error:
            what = f"{self.folder} has no file {MANIFEST}"
            raise FileNotFoundError(f"{what}; expected a folder of conifer.ray.build_index") from error
        counts = [shard["rows"] for shard in manifest["shards"]]
        # Row numbers at which the shards begin, and the number of all rows.
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._spec = manifest["space"]
        actor = ray.remote(num_cpus=num_cpus, max_restarts=-1, max_task_retries=-1)(_ShardActor)
        threads = max(int(num_cpus), 1)
        paths = [os.path.join(self.folder, shard["name"]) for shard in manifest["shards"]]
        self._actors = [actor.remote(path, threads) for path in paths]

    @cached_property
    def space(self) -> Space:
        """The space of the rows."""
        return space_of(*self._spec)

    @property
    def shards(self) -> int:
        """Number of shards."""
        return len(self._actors)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def _inner(self) -> ShardedIndex:
        # A `SearchResult` asks its `_inner` for ids and metadata.
        return self

    def search(
        self, queries: Any, k: int = 10, by: str = "distance", *, where: Any = None, **conditions: Any
    ) -> SearchResult:
        """The k best rows of all shards, with the arguments of :meth:`conifer.Index.search`.

        Rows, scores and their order are those of one :class:`conifer.Index` over all rows: a score does not depend on
        the other rows, every shard returns its k best rows, and equal scores are ordered by row number.
        """
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise ValueError(f"`k` is {k}; expected an integer, at least 1")
        if not self._actors:
            raise ValueError("the index is closed; expected an open one")
        points = np.asarray(queries)
        single = points.ndim == 1
        placed = ray.put(points)
        calls = []
        mask = None if where is None or isinstance(where, Mapping) else row_mask(where, len(self))
        for actor, start, end in zip(self._actors, self._starts[:-1], self._starts[1:]):
            part = where if mask is None else mask[start:end]
            calls.append(actor.search.remote(placed, int(k), by, {"where": part, **conditions}))
        found = ray.get(calls)
        parts = [(np.atleast_2d(rows), np.atleast_2d(scores)) for rows, scores in found]
        rows, scores = merged(parts, self._starts[:-1], min(int(k), len(self)), by)
        return SearchResult(self, by, rows, scores, single=single)

    def ids_of(self, rows: list[int]) -> list[str]:
        """Ids of some rows."""
        found: list[str] = [""] * len(rows)
        for places, ids in self._ask("ids_of", rows):
            for place, name in zip(places, ids):
                found[place] = name
        return found

    def metadata_of(self, rows: list[int]) -> tuple[list[str], dict[str, list[str]]]:
        """Metadata of some rows: modality and columns."""
        modality = [""] * len(rows)
        columns: dict[str, list[str]] = {}
        for places, (kinds, values) in self._ask("metadata_of", rows):
            for i, place in enumerate(places):
                modality[place] = kinds[i]
                for name, column in values.items():
                    columns.setdefault(name, [""] * len(rows))[place] = column[i]
        return modality, columns

    def _ask(self, method: str, rows: list[int]) -> list[tuple[npt.NDArray[np.int64], Any]]:
        """The answers of the shards that hold some of the rows, each with the places of its rows."""
        numbers = np.asarray(rows, np.int64)
        shard = np.searchsorted(self._starts, numbers, side="right") - 1
        calls = []
        for i in np.unique(shard):
            places = np.flatnonzero(shard == i)
            local = (numbers[places] - self._starts[i]).tolist()
            calls.append((places, getattr(self._actors[i], method).remote(local)))
        answers = ray.get([call for _, call in calls])
        return [(places, answer) for (places, _), answer in zip(calls, answers)]

    def close(self) -> None:
        """End the actors."""
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []

    def __enter__(self) -> ShardedIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"conifer.ray.ShardedIndex({len(self)} rows in {self.shards} shards, {self.space})"


def merged(
    parts: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]],
    starts: Sequence[int] | npt.NDArray[np.int64],
    k: int,
    by: str,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The k best rows (Q, k) of the results (Q, k of the shard) of shards whose first rows are ``starts``."""
    rows = np.concatenate([np.where(part >= 0, part + start, -1) for (part, _), start in zip(parts, starts)], axis=1)
    scores = np.concatenate([part for _, part in parts], axis=1)
    # The total order of floats as integers, as `f32::total_cmp` has it. Missing rows come last.
    bits = np.ascontiguousarray(-scores if by in LARGER_IS_BETTER else scores).view(np.int32)
    keys = np.where(rows < 0, np.iinfo(np.int32).max, bits ^ ((bits >> 31) & 0x7FFFFFFF))
    # The sort is stable, and equal scores are in the order of their rows already.
    order = np.argsort(keys, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def build_index(
    rows: EmbeddingSet | str | os.PathLike[str],
    shards: int,
    folder: str | os.PathLike[str],
    *,
    num_cpus: float = 1,
) -> ShardedIndex:
    """Write a set as ``shards`` sets of neighbouring rows into ``folder``, and open them.

    rows: a set, or the folder of a set or store. num_cpus: processors of each actor. ``ShardedIndex(folder)`` opens the
    folder again. Do not write to a folder that is being searched.
    """
    found = rows if isinstance(rows, EmbeddingSet) else EmbeddingSet.open(rows)
    count = len(found)
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= max(count, 1):
        raise ValueError(f"`shards` is {shards}; expected 1 to {max(count, 1)}, the number of rows")
    place = os.path.abspath(os.fspath(folder))
    os.makedirs(place, exist_ok=True)
    # A folder without the manifest is no index: an interrupted call leaves no mixture of two sets.
    manifest = os.path.join(place, MANIFEST)
    if os.path.exists(manifest):
        os.remove(manifest)
    bounds = [count * i // shards for i in range(shards + 1)]
    listed = []
    for i, (start, end) in enumerate(zip(bounds, bounds[1:])):
        name = f"shard-{i:05}-of-{shards:05}"
        found[start:end].save(os.path.join(place, name))
        listed.append({"name": name, "rows": end - start})
    partial = manifest + ".part"
    with open(partial, "w") as file:
        json.dump({"space": found.space.spec, "shards": listed}, file, indent=1)
    os.replace(partial, manifest)
    names = {shard["name"] for shard in listed}
    for name in os.listdir(place):
        if name.startswith("shard-") and name not in names:
            shutil.rmtree(os.path.join(place, name))
    return ShardedIndex(place, num_cpus=num_cpus)


def search(index: ShardedIndex, queries: Any, k: int = 10, by: str = "distance", **conditions: Any) -> SearchResult:
    """:meth:`ShardedIndex.search` of an index."""
    return index.search(queries, k, by, **conditions)

"""Embedding and search on a Ray cluster. Needs the packages ray and pyarrow (``pip install conifer[ray]``).

:func:`embed` turns every input shard into one Parquet file and joins the files to one set. :func:`build_index` splits a
set into shards, and :func:`search` searches all of them, one actor each. All workers must see the same folders, such as
a network file system.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.fs
import pyarrow.parquet
import ray
import ray.data

from ._conifer import __version__, set_num_threads
from .embeddings import EmbeddingSet
from .models import load
from .search import Index, SearchResult, row_mask
from .spaces import Space, space_of

# Rows that a worker holds at a time.
ROWS = 1024
# Key of the metadata of a finished shard.
SHARD_KEY = b"conifer_shard"
MANIFEST = "index.json"
LARGER_IS_BETTER = ("similarity", "inner", "gated_narrower", "gated_broader")


class EmbedResult(NamedTuple):
    """What :func:`embed` wrote.

    set: folder of the joined set, or None if it was not asked for. shards: Parquet files in the order of the input.
    rows: number of rows. embedded: number of shards that this call embedded; the others were finished before.
    """

    set: str | None
    shards: list[str]
    rows: int
    embedded: int

    def open(self) -> EmbeddingSet:
        """The rows of all shards."""
        return _join(self.shards)


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
    if actors < 1:
        raise ValueError(f"`actors` is {actors}; expected at least 1")
    if batch_size < 1:
        raise ValueError(f"`batch_size` is {batch_size}; expected at least 1")
    place = os.path.abspath(os.fspath(out))
    folder = os.path.join(place, "shards")
    os.makedirs(folder, exist_ok=True)
    reference = os.fspath(checkpoint)
    names = {"image": image, "text": text, "id": id, "columns": list(columns)}
    arguments = {
        # A path must mean the same in the working directories of all workers.
        "checkpoint": os.path.abspath(reference) if os.path.exists(reference) else reference,
        "root_text": root_text,
        "names": names,
        "batch_size": batch_size,
        "folder": folder,
        "threads": max(int(num_cpus), 1),
    }
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
        files = _input_files(dataset)
        for number, file in enumerate(files):
            file["number"] = number
        size = min(actors, len(files))
        # One block per file: a worker that dies loses one shard.
        listed = ray.data.from_items(files, override_num_blocks=len(files))
        found = listed.map_batches(
            _FileEmbedder, batch_size=1, compute=ray.data.ActorPoolStrategy(size=size), **pool
        )
    done = _in_order(found)
    shards = [os.path.join(folder, row["name"]) for row in done]
    # Partial files of workers that died.
    for name in os.listdir(folder):
        if name.endswith(".part") and any(name.startswith(row["name"]) for row in done):
            os.remove(os.path.join(folder, name))
    joined = None
    if join:
        joined = os.path.join(place, "set")
        _join(shards).save(joined)
    return EmbedResult(joined, shards, sum(row["rows"] for row in done), sum(row["embedded"] for row in done))


def _in_order(found: Any) -> list[dict[str, Any]]:
    """The results of the shards, in the order of the input."""
    options = found.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        rows: list[dict[str, Any]] = found.take_all()
    finally:
        options.preserve_order = before
    return sorted(rows, key=lambda row: int(row["number"]))


def _join(shards: Sequence[str]) -> EmbeddingSet:
    return EmbeddingSet.concat([EmbeddingSet.from_parquet(path) for path in shards])


def _input_files(dataset: Any) -> list[dict[str, Any]]:
    """The Parquet files of paths and folders, each with its size and time of change."""
    given = [dataset] if isinstance(dataset, (str, os.PathLike)) else list(dataset)
    found = []
    for it in given:
        uri = os.fspath(it)
        if "://" not in uri:
            uri = os.path.abspath(uri)
        system, path = _file_system(uri)
        info = system.get_file_info(path)
        if info.type == pyarrow.fs.FileType.NotFound:
            raise FileNotFoundError(f"{uri} does not exist; expected a Parquet file or a folder of Parquet files")
        inside = [info]
        if info.type == pyarrow.fs.FileType.Directory:
            listed = system.get_file_info(pyarrow.fs.FileSelector(path))
            inside = sorted((it for it in listed if it.path.endswith(".parquet")), key=lambda it: it.path)
        # The options of a URI, such as an endpoint, are those of its files.
        scheme, _, rest = uri.partition("://")
        start, end = (f"{scheme}://", uri[uri.find("?") :] if "?" in uri else "") if rest else ("", "")
        found += [
            {"input": f"{start}{it.path}{end}", "size": it.size, "changed": it.mtime_ns or 0} for it in inside
        ]
    if not found:
        raise ValueError(f"{dataset} has no Parquet files; expected at least one")
    names = [it["input"] for it in found]
    if len(set(names)) != len(names):
        twice = next(it for it in names if names.count(it) > 1)
        raise ValueError(f"the file {twice} is given twice; expected every file once")
    return found


def _file_system(uri: str) -> tuple[Any, str]:
    if "://" in uri:
        system, path = pyarrow.fs.FileSystem.from_uri(uri)
        return system, path
    return pyarrow.fs.LocalFileSystem(), uri


class _Embedder:
    """State of an actor: the model."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        set_num_threads(arguments["threads"])
        self._arguments = arguments
        self._model = load(arguments["checkpoint"], root_text=arguments["root_text"])

    def _shard(self, name: str, identity: dict[str, Any], batches: Any, number: int) -> pyarrow.Table:
        """Write the shard ``name`` unless it is finished, and return one row about it."""
        path = os.path.join(self._arguments["folder"], name)
        identity = {
            **identity,
            "weights": self._model.fingerprint,
            "conifer": __version__,
            **{key: self._arguments[key] for key in ("root_text", "names", "batch_size")},
        }
        rows = _finished_rows(path, identity)
        embedded = rows is None
        if rows is None:
            try:
                rows = self._write(path, identity, batches)
            except (OSError, TypeError, ValueError) as error:
                raise type(error)(f"shard {identity['input']}: {error}") from error
        return pyarrow.table({"number": [number], "name": [name], "rows": [rows], "embedded": [int(embedded)]})

    def _write(self, path: str, identity: dict[str, Any], batches: Iterator[pyarrow.Table]) -> int:
        # Two workers may write the same shard when Ray takes one of them for dead. Each has a file of its own.
        partial = f"{path}.{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.part"
        count = 0
        schema = self._rows(None, 0).to_arrow().schema
        schema = schema.with_metadata({**schema.metadata, SHARD_KEY: json.dumps(identity, sort_keys=True).encode()})
        try:
            with pyarrow.parquet.ParquetWriter(partial, schema) as file:
                for batch in batches:
                    rows = self._rows(batch, count).to_arrow()
                    file.write_table(rows.replace_schema_metadata(schema.metadata))
                    count += len(rows)
            with open(partial, "rb") as written:
                os.fsync(written.fileno())
            os.replace(partial, path)
        finally:
            if os.path.exists(partial):
                os.remove(partial)
        return count

    def _rows(self, batch: pyarrow.Table | None, first: int) -> EmbeddingSet:
        """The embedded rows of a batch. ``first`` is the number of its first row in the shard."""
        names, model = self._arguments["names"], self._model
        count = 0 if batch is None else len(batch)
        inputs: list[Any] = [None] * count
        texts = [False] * count
        kept: dict[str, list[Any]] = {name: [] for name in names["columns"]}
        ids = [str(first + row) for row in range(count)]
        if batch is not None:
            known = ", ".join(f"`{name}`" for name in batch.column_names)
            if names["text"] not in batch.column_names and names["image"] not in batch.column_names:
                raise ValueError(f"the columns are {known}; expected `{names['image']}` or `{names['text']}`")
            for name in kept:
                if name not in batch.column_names:
                    raise ValueError(f"the columns are {known}; expected `{name}`")
                kept[name] = batch[name].to_pylist()
            if names["image"] in batch.column_names:
                inputs = [_photo(value) for value in batch[names["image"]].to_pylist()]
            if names["text"] in batch.column_names:
                for row, value in enumerate(batch[names["text"]].to_pylist()):
                    if value is not None:
                        inputs[row], texts[row] = value, True
            if names["id"] in batch.column_names:
                ids = [str(value) for value in batch[names["id"]].to_pylist()]
        empty = [row for row, value in enumerate(inputs) if value is None]
        if empty:
            raise ValueError(f"row {first + empty[0]} has neither an image nor a text; expected one of them")
        points = np.empty((count, model.space.dim), np.float32)
        size = self._arguments["batch_size"]
        for kind, encode in ((True, model.encode_text), (False, model.encode_image)):
            chosen = [row for row in range(count) if texts[row] == kind]
            if chosen:
                points[chosen] = encode([inputs[row] for row in chosen], size)
        modality = ["text" if it else "image" for it in texts]
        return EmbeddingSet(points, model.space, ids, modality, kept, model.root, model=model.path)


class _FileEmbedder(_Embedder):
    """Embeds Parquet files, one per call."""

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        row = batch.to_pylist()[0]
        identity = {key: row[key] for key in ("input", "size", "changed")}
        stem = os.path.basename(row["input"].partition("?")[0]).removesuffix(".parquet")
        name = f"{stem}-{hashlib.sha256(row['input'].encode()).hexdigest()[:8]}.parquet"
        return self._shard(name, identity, self._batches(row["input"]), row["number"])

    def _batches(self, uri: str) -> Iterator[pyarrow.Table]:
        system, path = _file_system(uri)
        names = self._arguments["names"]
        wanted = {names["image"], names["text"], names["id"], *names["columns"]}
        with system.open_input_file(path) as opened, pyarrow.parquet.ParquetFile(opened) as file:
            there = [name for name in file.schema_arrow.names if name in wanted]
            if names["image"] not in there and names["text"] not in there:
                there = file.schema_arrow.names
            for batch in file.iter_batches(ROWS, columns=there):
                yield pyarrow.Table.from_batches([batch])


class _BlockEmbedder(_Embedder):
    """Embeds blocks of a dataset, one per call. Their names are hashes of their content."""

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        content = hashlib.sha256()
        with pyarrow.ipc.new_stream(pyarrow.PythonFile(_HashFile(content), "w"), batch.schema) as stream:
            stream.write_table(batch.combine_chunks())
        name = content.hexdigest()
        parts = (batch.slice(start, ROWS) for start in range(0, len(batch), ROWS))
        # The order of the results is the order of the blocks.
        return self._shard(f"block-{name[:16]}.parquet", {"input": f"block {name}"}, parts, 0)


class _HashFile:
    """A file that hashes what is written to it."""

    closed = False

    def __init__(self, content: Any) -> None:
        self._content = content

    def write(self, data: Any) -> int:
        self._content.update(data)
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def _finished_rows(path: str, identity: dict[str, Any]) -> int | None:
    """The number of rows of a finished shard with this identity; None if there is none."""
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            stored = json.loads((file.schema_arrow.metadata or {}).get(SHARD_KEY, b"null"))
            return int(file.metadata.num_rows) if stored == identity else None
    except (FileNotFoundError, pyarrow.ArrowInvalid):
        return None


def _photo(value: Any) -> Any:
    """An image as :meth:`conifer.Model.encode_image` takes it. Hugging Face stores a dict with bytes or a path."""
    if isinstance(value, Mapping):
        value = value.get("bytes") if value.get("bytes") is not None else value.get("path")
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value


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

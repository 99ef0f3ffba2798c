"""Shards of embedded rows, one Parquet file per input shard. `conifer.ray` and `conifer.daft` call it in workers."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.fs
import pyarrow.parquet

from ._conifer import __version__, set_num_threads
from .embeddings import EmbeddingSet
from .models import load

# Rows that a worker holds at a time.
ROWS = 1024
# Key of the metadata of a finished shard.
SHARD_KEY = b"conifer_shard"


class EmbedResult(NamedTuple):
    """What :func:`conifer.ray.embed` or :func:`conifer.daft.embed` wrote.

    set: folder of the joined set, or None if it was not asked for. shards: Parquet files in the order of the input.
    rows: number of rows. embedded: number of shards that this call embedded; the others were finished before.
    """

    set: str | None
    shards: list[str]
    rows: int
    embedded: int

    def open(self) -> EmbeddingSet:
        """The rows of all shards."""
        return EmbeddingSet.concat([EmbeddingSet.from_parquet(path) for path in self.shards])

    def to_lance(self, uri: str | os.PathLike[str]) -> None:
        """Write all rows as one Lance data set, one shard at a time. Needs the package pylance."""
        import lance

        schema = _without_shard(pyarrow.parquet.read_schema(self.shards[0]))
        batches = (
            batch
            for path in self.shards
            for batch in pyarrow.parquet.read_table(path).replace_schema_metadata(schema.metadata).to_batches()
        )
        lance.write_dataset(pyarrow.RecordBatchReader.from_batches(schema, batches), os.fspath(uri))


def settings_of(
    checkpoint: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    names: dict[str, Any],
    root_text: str | None,
    batch_size: int,
    actors: int,
    num_cpus: float,
) -> dict[str, Any]:
    """The arguments of :class:`ShardEmbedder`. Creates the folder of the shards."""
    if actors < 1:
        raise ValueError(f"`actors` is {actors}; expected at least 1")
    if batch_size < 1:
        raise ValueError(f"`batch_size` is {batch_size}; expected at least 1")
    folder = os.path.join(os.path.abspath(os.fspath(out)), "shards")
    os.makedirs(folder, exist_ok=True)
    reference = os.fspath(checkpoint)
    return {
        # A path must mean the same in the working directories of all workers.
        "checkpoint": os.path.abspath(reference) if os.path.exists(reference) else reference,
        "root_text": root_text,
        "names": names,
        "batch_size": batch_size,
        "folder": folder,
        "threads": max(int(num_cpus), 1),
    }


def finished(folder: str, done: Sequence[Mapping[str, Any]], join: bool) -> EmbedResult:
    """The result of the shards ``done``, in the order of the input. ``join`` writes the set of all rows.

    done: number, name, rows and embedded of each shard.
    """
    shards = [os.path.join(folder, row["name"]) for row in done]
    # Partial files of workers that died.
    for name in os.listdir(folder):
        if name.endswith(".part") and any(name.startswith(row["name"]) for row in done):
            os.remove(os.path.join(folder, name))
    found = EmbedResult(None, shards, sum(row["rows"] for row in done), sum(row["embedded"] for row in done))
    if not join:
        return found
    joined = os.path.join(os.path.dirname(folder), "set")
    found.open().save(joined)
    return found._replace(set=joined)


def input_files(dataset: Any) -> list[dict[str, Any]]:
    """The Parquet files of paths and folders, each with its size and time of change."""
    given = [dataset] if isinstance(dataset, (str, os.PathLike)) else list(dataset)
    found = []
    for it in given:
        uri = os.fspath(it)
        if "://" not in uri:
            uri = os.path.abspath(uri)
        system, path = file_system(uri)
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


def file_system(uri: str) -> tuple[Any, str]:
    if "://" in uri:
        system, path = pyarrow.fs.FileSystem.from_uri(uri)
        return system, path
    return pyarrow.fs.LocalFileSystem(), uri


class ShardEmbedder:
    """Writes shards with one model. An actor of Ray or Daft holds one."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        set_num_threads(arguments["threads"])
        self._arguments = arguments
        self._model = load(arguments["checkpoint"], root_text=arguments["root_text"])

    def file(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Embed a Parquet file, one of :func:`input_files` with its ``number``."""
        identity = {key: row[key] for key in ("input", "size", "changed")}
        stem = os.path.basename(row["input"].partition("?")[0]).removesuffix(".parquet")
        name = f"{stem}-{hashlib.sha256(row['input'].encode()).hexdigest()[:8]}.parquet"
        return self._shard(name, identity, self._batches(row["input"]), row["number"])

    def block(self, rows: pyarrow.Table) -> dict[str, Any]:
        """Embed a table. The name of its shard is the hash of its content."""
        content = hashlib.sha256()
        with pyarrow.ipc.new_stream(pyarrow.PythonFile(_HashFile(content), "w"), rows.schema) as stream:
            stream.write_table(rows.combine_chunks())
        name = content.hexdigest()
        parts = (rows.slice(start, ROWS) for start in range(0, len(rows), ROWS))
        # The order of the results is the order of the blocks.
        return self._shard(f"block-{name[:16]}.parquet", {"input": f"block {name}"}, parts, 0)

    def _batches(self, uri: str) -> Iterator[pyarrow.Table]:
        system, path = file_system(uri)
        names = self._arguments["names"]
        wanted = {names["image"], names["text"], names["id"], *names["columns"]}
        with system.open_input_file(path) as opened, pyarrow.parquet.ParquetFile(opened) as file:
            there = [name for name in file.schema_arrow.names if name in wanted]
            if names["image"] not in there and names["text"] not in there:
                there = file.schema_arrow.names
            for batch in file.iter_batches(ROWS, columns=there):
                yield pyarrow.Table.from_batches([batch])

    def _shard(self, name: str, identity: dict[str, Any], batches: Any, number: int) -> dict[str, Any]:
        """Write the shard ``name`` unless it is finished. Returns number, name, rows, and 1 if it was embedded."""
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
        return {"number": number, "name": name, "rows": rows, "embedded": int(embedded)}

    def _write(self, path: str, identity: dict[str, Any], batches: Iterator[pyarrow.Table]) -> int:
        # Two workers can write the same shard, if the engine wrongly assumes that one of them died. So each writes a file
        # with a unique name.
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
                inputs = [photo_of(value) for value in batch[names["image"]].to_pylist()]
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


def _without_shard(schema: pyarrow.Schema) -> pyarrow.Schema:
    """The schema of a shard without the metadata of its input."""
    kept = {key: value for key, value in (schema.metadata or {}).items() if key != SHARD_KEY}
    return schema.with_metadata(kept)


def photo_of(value: Any) -> Any:
    """An image as :meth:`conifer.Model.encode_image` takes it. Hugging Face stores a dict with bytes or a path."""
    if isinstance(value, Mapping):
        value = value.get("bytes") if value.get("bytes") is not None else value.get("path")
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value

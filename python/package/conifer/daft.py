"""Embedding with Daft. Needs the packages daft and pyarrow (``pip install conifer[daft]``).

:func:`embed` does the work of :func:`conifer.ray.embed` with Daft's engine, on this machine or, after
``daft.set_runner_ray()``, on a Ray cluster. :func:`embedder` is a function of columns for a data frame.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import daft

from ._conifer import set_num_threads
from ._shards import EmbedResult, ShardEmbedder, finished, input_files, photo_of, settings_of
from .models import load

# The points of a column: a list of float32 per row.
POINTS = daft.DataType.list(daft.DataType.float32())
SHARD = daft.DataType.struct(
    {
        "number": daft.DataType.int64(),
        "name": daft.DataType.string(),
        "rows": daft.DataType.int64(),
        "embedded": daft.DataType.int64(),
    }
)


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
    """Embed Parquet files of photos and texts, one output shard per file.

    The arguments, the files in ``out`` and their bytes are those of :func:`conifer.ray.embed`, except that ``dataset``
    is a file, a folder or a list of them. A second call skips finished shards. Daft on one machine raises an error when
    a worker dies; the same call then embeds the shards that are missing.
    """
    arguments = settings_of(
        checkpoint,
        out,
        names={"image": image, "text": text, "id": id, "columns": list(columns)},
        root_text=root_text,
        batch_size=batch_size,
        actors=actors,
        num_cpus=num_cpus,
    )
    files = input_files(dataset)
    rows = {name: [file[name] for file in files] for name in ("input", "size", "changed")}
    frame = daft.from_pydict({**rows, "number": list(range(len(files)))})
    # The model has a pool of threads, so every actor runs in a separate process.
    actor = daft.cls(_FileEmbedder, max_concurrency=min(actors, len(files)), cpus=num_cpus, use_process=True)(arguments)
    found = frame.select(actor.shard(*(frame[name] for name in frame.column_names)).alias("shard")).to_pydict()
    done = sorted(found["shard"], key=lambda row: int(row["number"]))
    return finished(arguments["folder"], done, join)


def embedder(
    checkpoint: str | os.PathLike[str],
    *,
    root_text: str | None = None,
    batch_size: int = 32,
    actors: int = 1,
    num_cpus: float = 1,
) -> Any:
    """An object with the methods ``image`` and ``text``, which map a column to points, a list of float32 per row.

    >>> towers = embedder("runs/a", actors=4)                              # doctest: +SKIP
    >>> frame.with_column("point", towers.text(frame["caption"]))          # doctest: +SKIP

    A value of ``image`` is a path, the bytes of a file, or the dict of Hugging Face. A null has no point. Every actor is
    a process that opens the checkpoint once.
    """
    if actors < 1:
        raise ValueError(f"`actors` is {actors}; expected at least 1")
    if batch_size < 1:
        raise ValueError(f"`batch_size` is {batch_size}; expected at least 1")
    reference = os.fspath(checkpoint)
    place = os.path.abspath(reference) if os.path.exists(reference) else reference
    made = daft.cls(_ColumnEmbedder, max_concurrency=actors, cpus=num_cpus, use_process=True)
    return made(place, root_text, batch_size, max(int(num_cpus), 1))


class _FileEmbedder(ShardEmbedder):
    """Embeds Parquet files, one per call."""

    @daft.method.batch(return_dtype=SHARD, batch_size=1)  # type: ignore[untyped-decorator, unused-ignore]
    def shard(self, input: Any, size: Any, changed: Any, number: Any) -> list[dict[str, Any]]:
        rows = zip(*(it.to_pylist() for it in (input, size, changed, number)))
        return [self.file(dict(zip(("input", "size", "changed", "number"), row))) for row in rows]


class _ColumnEmbedder:
    """Embeds columns of a data frame."""

    def __init__(self, checkpoint: str, root_text: str | None, batch_size: int, threads: int) -> None:
        set_num_threads(threads)
        self._model = load(checkpoint, root_text=root_text)
        self._batch_size = batch_size

    @daft.method.batch(return_dtype=POINTS, batch_size=1024)  # type: ignore[untyped-decorator, unused-ignore]
    def image(self, values: Any) -> list[Any]:
        return self._points([photo_of(it) for it in values.to_pylist()], self._model.encode_image)

    @daft.method.batch(return_dtype=POINTS, batch_size=1024)  # type: ignore[untyped-decorator, unused-ignore]
    def text(self, values: Any) -> list[Any]:
        return self._points(values.to_pylist(), self._model.encode_text)

    def _points(self, values: list[Any], encode: Callable[..., Any]) -> list[Any]:
        chosen = [row for row, value in enumerate(values) if value is not None]
        found: list[Any] = [None] * len(values)
        for row, point in zip(chosen, encode([values[row] for row in chosen], self._batch_size)):
            found[row] = point.tolist()
        return found

"""Exports for other search engines."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from . import _conifer
from .embeddings import EmbeddingSet


def export(
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

    The vectors have extra components, with which the order of Euclidean distances is that of the hyperbolic ones;
    ``space.json`` in the folder describes them.
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


def to_lancedb(rows: EmbeddingSet, uri: str | os.PathLike[str], name: str = "conifer") -> Any:
    """Create the LanceDB table ``name`` in the database ``uri`` and return it. Needs the package lancedb.

    The table has the columns of :func:`export`. Search it with vectors of the same form and rescore the candidates
    with ``rows.space.distance``.
    """
    import lancedb  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import pyarrow
    import pyarrow.parquet

    with tempfile.TemporaryDirectory() as folder:
        exported = os.path.join(folder, "export")
        export(rows, exported, "parquet", name=name)
        table = pyarrow.parquet.read_table(os.path.join(exported, "rows.parquet"))
    table = table.rename_columns([column.replace(".", "_") for column in table.column_names])
    at = table.schema.get_field_index("vector")
    width = len(table["vector"][0])
    table = table.set_column(at, "vector", table["vector"].cast(pyarrow.list_(pyarrow.float32(), width)))
    return lancedb.connect(os.fspath(uri)).create_table(name, table)

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

"""Figures of embedding sets, with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _conifer
from .embeddings import EmbeddingSet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class DiscProjection(NamedTuple):
    """Rows in the Poincare disc: their numbers (int64), coordinates with x^2 + y^2 < 1, and depths, (n,) each."""

    rows: npt.NDArray[np.int64]
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    depth: npt.NDArray[np.float64]


def project(rows: EmbeddingSet, limit: int = 5000) -> DiscProjection:
    """Project up to ``limit`` rows, evenly spaced over the set, into the Poincare disc.

    The radius shows the exact depth, ``tanh(sqrt(c) depth / 2)``; the angle shows the first two principal components of
    the directions.
    """
    if limit < 1:
        raise ValueError(f"`limit` is {limit}; expected at least 1")
    return DiscProjection(*_conifer.project_disc(rows._inner, limit))


def plot_disc(
    rows: EmbeddingSet, color: str = "modality", limit: int = 5000, labels: int = 0, ax: Axes | None = None
) -> Figure:
    """Draw a set in the Poincare disc and return the figure.

    color: ``modality``, ``depth`` or the name of a column. labels: number of ids to write, general rows first.
    """
    import matplotlib.pyplot as plt

    found = project(rows, limit)
    ax = plt.subplots(figsize=(7, 7))[1] if ax is None else ax
    ax.add_patch(plt.Circle((0, 0), 1, fill=False, color="0.6"))  # type: ignore[attr-defined, unused-ignore]
    if color == "depth":
        drawn = ax.scatter(found.x, found.y, c=found.depth, s=12, cmap="viridis")
        ax.figure.colorbar(drawn, ax=ax, label="depth", shrink=0.7)
    else:
        values = _column(rows, color)
        chosen = [values[row] for row in found.rows]
        for value in sorted(set(chosen)):
            mask = np.array([it == value for it in chosen])
            ax.scatter(found.x[mask], found.y[mask], s=12, label=value)
        if len(set(chosen)) <= 20:
            ax.legend(title=color, fontsize="small")
    for i in np.argsort(found.depth)[:labels]:
        ax.annotate(rows.ids[found.rows[i]], (float(found.x[i]), float(found.y[i])), fontsize="small")
    # The circle is the edge of the disc. It lies outside the figure if all rows are close to the root.
    reach = min(1.05, 1.3 * float(np.hypot(found.x, found.y).max(initial=0.1)))
    title = f"{len(found.rows)} rows, {rows.space.kind} of dimension {rows.space.dim}; radius shown: {reach:.2f}"
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", title=title)
    ax.set_axis_off()
    return _figure(ax)


def depth_histogram(rows: EmbeddingSet, by: str = "modality", bins: int = 40, ax: Axes | None = None) -> Figure:
    """Draw histograms of the distances to the root, one per value of a column, and return the figure."""
    import matplotlib.pyplot as plt

    ax = plt.subplots(figsize=(7, 4))[1] if ax is None else ax
    depth, values = rows.depth(), np.array(_column(rows, by), dtype=object)
    edges = np.histogram_bin_edges(depth, bins)
    for value in sorted(set(values)):
        ax.hist(depth[values == value], bins=edges.tolist(), alpha=0.6, label=str(value))
    ax.set(xlabel="distance to the root", ylabel="rows")
    ax.legend(title=by)
    return _figure(ax)


def _column(rows: EmbeddingSet, name: str) -> list[str]:
    if name == "modality":
        return rows.modality
    if name not in rows.columns:
        known = ", ".join(["modality", *rows.columns])
        raise ValueError(f"no column is called `{name}`; expected one of: {known}")
    return rows.columns[name]


def _figure(ax: Any) -> Figure:
    found: Figure = ax.figure
    return found

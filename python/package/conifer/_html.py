"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Any]], total: int | None = None) -> str:
    """An HTML table. ``total`` is the number of rows if not all are shown."""
    cells = ["<tr>" + "".join(f"<th>{escape(str(it))}</th>" for it in header) + "</tr>"]
    count = 0
    for row in rows:
        cells.append("<tr>" + "".join(f"<td>{escape(shown(it))}</td>" for it in row) + "</tr>")
        count += 1
    more = f"<p>{total - count} more rows</p>" if total is not None and total > count else ""
    return f"<table><caption>{escape(caption)}</caption>{''.join(cells)}</table>{more}"


def shown(value: Any) -> str:
    """A cell: four digits after the point for numbers."""
    return f"{value:.4f}" if isinstance(value, float) else str(value)

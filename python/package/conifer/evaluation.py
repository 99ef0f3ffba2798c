"""Benchmarks of models."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from . import _conifer
from ._html import table
from .embeddings import EmbeddingSet
from .models import Model

if TYPE_CHECKING:
    import pandas


class Records(Sequence[dict[str, Any]]):
    """Results of benchmarks, one dict per number: benchmark, split, metric, value, interval, n, baseline ..."""

    def __init__(self, records: Iterable[dict[str, Any]]) -> None:
        self._records = list(records)

    def __getitem__(self, at: Any) -> Any:
        return self._records[at]

    def __len__(self) -> int:
        return len(self._records)

    def value(self, metric: str) -> float:
        """The value of the only record with this metric."""
        found = [it["value"] for it in self._records if it["metric"] == metric]
        if len(found) != 1:
            known = ", ".join(sorted({it["metric"] for it in self._records}))
            raise KeyError(f"{len(found)} records have the metric {metric}; expected one. Metrics: {known}")
        return float(found[0])

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame with one row per record, without the outcomes of the queries."""
        import pandas

        return pandas.DataFrame([{k: v for k, v in it.items() if k != "outcomes"} for it in self._records])

    def __repr__(self) -> str:
        return f"conifer.Records({len(self)})"

    def _repr_html_(self) -> str:
        rows = [
            (it["benchmark"], it.get("split", ""), it["metric"], float(it["value"]), it.get("interval"), it.get("n"))
            for it in self._records
        ]
        return table(repr(self), ["benchmark", "split", "metric", "value", "interval", "n"], rows)


def evaluate(
    model: Model | EmbeddingSet | str | os.PathLike[str],
    benchmarks: str | Iterable[str],
    *,
    data: str | os.PathLike[str],
    **options: Any,
) -> Records:
    """Run benchmarks, as ``conifer eval run`` does.

    model: a model, or a reference as for :func:`conifer.load`; or the points of another model, as a set or its folder: a
        text row for every text of the benchmark (found by its id, or by a column ``text``), and an image row for every
        photo, whose id is the path of the file or the end of the path.
    benchmarks: names, as ``conifer benchmarks`` lists them.
    data: data set as on the command line: ``KIND:PATH``, a path, ``toy``, or ``set:FOLDER``.
    options: further options of the command with ``_`` for ``-``: ``split="val"``, ``partial=True``,
        ``data_option=["size=100"]``. Ctrl-C takes effect after the current benchmark.
    """
    if isinstance(model, EmbeddingSet):
        with tempfile.TemporaryDirectory() as folder:
            place = os.path.join(folder, "set")
            model.save(place)
            return evaluate(place, benchmarks, data=data, **options)
    arguments = [os.fspath(model.path if isinstance(model, Model) else model), "--data", os.fspath(data)]
    for name, value in options.items():
        arguments += _option("--" + name.replace("_", "-"), value)
    records = []
    for benchmark in [benchmarks] if isinstance(benchmarks, str) else benchmarks:
        lines = _conifer.evaluate([*arguments, "--benchmark", benchmark])
        records += [json.loads(line) for line in lines.splitlines()]
    return Records(records)


def _option(name: str, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [name]
    if isinstance(value, (list, tuple)):
        return [f"{name}={it}" for it in value]
    return [f"{name}={os.fspath(value) if isinstance(value, os.PathLike) else value}"]

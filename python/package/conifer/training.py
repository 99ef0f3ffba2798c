"""Training runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _conifer
from .models import Model, load

Callback = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class RunResult:
    """The end of a run.

    out: folder of the run. step: number of updates made. loss: that of the last step (NaN if there was none).
    stopped: True if a callback ended the run before its last step.
    """

    out: str
    step: int
    loss: float
    stopped: bool

    def load(self) -> Model:
        """The model of the newest checkpoint."""
        return load(self.out)


def train(
    config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    overrides: Iterable[str] = (),
    smoke: bool = False,
    callbacks: Callback | Iterable[Callback] = (),
) -> RunResult:
    """Train a model, as ``conifer train`` does. Progress goes to stderr.

    config: path of a TOML file, or its tables as a dict: ``{"data": {"kind": "toy"}, "method": {"kind": "hycoclip"}}``.
    out: folder of the run (default: that of the config). resume: folder of a run to go on with, instead of ``config``.
    overrides: settings as on the command line, ``"optim.lr=1e-3"``. smoke: a few steps on small sizes.
    callbacks: functions of an event, a dict with the key ``event``: ``started``, ``features``, ``step`` (with ``step``,
        ``loss``, ``terms``, ``lr``, ``eval`` ...), ``checkpoint``, ``stopped`` or ``finished``. They run on this thread
        while the training goes on. A callback that returns False or raises, and Ctrl-C, end the run after a checkpoint.
    """
    if (config is None) == (resume is None):
        raise ValueError("`config` and `resume` are both given or both missing; expected one of them")
    if resume is not None and (out is not None or smoke or list(overrides)):
        raise ValueError("`out`, `overrides` or `smoke` is given with `resume`; expected none of them")
    called = [callbacks] if callable(callbacks) else list(callbacks)

    def on_event(text: str) -> bool:
        event = json.loads(text)
        answers = [callback(event) for callback in called]
        return not any(answer is False for answer in answers)

    is_table = isinstance(config, Mapping)
    done = _conifer.train(
        None if is_table else config,  # type: ignore[arg-type]
        json.dumps(config) if is_table else None,
        resume,
        list(overrides),
        out,
        smoke,
        on_event,
    )
    found = json.loads(done)
    loss = float("nan") if found["loss"] is None else found["loss"]
    return RunResult(found["out"], found["step"], loss, found["stopped"])

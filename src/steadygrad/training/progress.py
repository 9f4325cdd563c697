"""What a run shows while it works: a live display on a terminal, or a line for each check.

A display is told of every check, and of the time in between (`tick`). It only looks: nothing it does reaches the run. How
a kind of run is put into words is said by its `Words`; how far it has come is counted in its own unit.
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .flow_snapshot import Snapshot
from .settings import Settings

_log = logging.getLogger("steadygrad")
PROGRESS = ("auto", "plain", "none")


class Display:
    """Shows nothing: what 'none' asks for, and what the others build on."""

    @contextmanager
    def shown(self, config: Settings, limit: int, max_seconds: float | None, done: int) -> Iterator[None]:
        """While this lasts the display is there. `done`: how far the run had come before, of `limit`."""
        yield

    def check(self, line: dict[str, Any], seen: Snapshot | None) -> None:
        """A check was made: its line of metrics.jsonl, and its look at the gradients."""

    def tick(self, done: int, seconds: float, loss: float) -> None:
        """Time has passed: how far the run has come, the seconds so far, and the loss of the last update."""


class Words:
    """How a run on a task is put into words."""

    unit = "updates"
    """What is counted to tell how far the run has come: a field of its lines."""

    def title(self, config: Any) -> str:
        """The run in one line."""
        return f"{config.task} · {config.algorithm} · length {config.length[0]}–{config.length[1]} · seed {config.seed}"

    def done(self, done: int, limit: int) -> str:
        """How far it has come."""
        return f"{done:,} of {limit:,} {self.unit}"

    def pace(self, rate: float) -> str:
        """How quickly it goes on."""
        return f"{rate:,.0f}/s"

    def text(self, line: dict[str, Any]) -> str:
        """A line of metrics by itself."""
        return text(line)

    def numbers(self, line: dict[str, Any], loss: float | None) -> str:
        """The last line of metrics under the bar, with a smoothed loss of now."""
        most = short(line["gradient_norm_max"], 0)
        return (
            f"loss {short(loss, 0)}   wrong {100 * line['error']:.2f} %   ‖g‖ {short(line['gradient_norm'], 0)} (max {most})   "
            f"clipped {100 * line['clip_rate']:.0f} %   Ω {short(line['omega'], 0)}   ρ {line['spectral_radius']:.3f}   "
            f"horizon {line['horizon']}   length {line['low']}–{line['high']}"
        )


class Plain(Display):
    """One line of text for each check."""

    def __init__(self, words: Words | None = None) -> None:
        self._words = words or Words()

    def check(self, line: dict[str, Any], seen: Snapshot | None) -> None:
        print(self._words.text(line), flush=True)


def display(progress: str, words: Words | None = None) -> Display:
    """The display called 'auto', 'plain' or 'none'."""
    if progress == "none":
        return Display()
    if progress == "auto" and sys.stdout.isatty():
        try:
            from .live import Live
        except ImportError:
            _log.warning("the live display needs rich: pip install 'steadygrad[train]'; here are plain lines instead")
            return Plain(words)
        return Live(words=words)
    return Plain(words)


def text(line: dict[str, Any]) -> str:
    """A line of metrics for people.

    >>> line = {"updates": 1000, "loss": 0.5, "error": 0.25, "gradient_norm": 2.0, "clip_rate": 0.5, "omega": 0.01}
    >>> line |= {"spectral_radius": 1.0, "horizon": 30, "low": 20, "high": 30, "updates_per_second": 900.0, "seconds": 61}
    >>> text(line)[:52]
    '   1,000 updates  loss 0.5     wrong  25.00 %  ‖g‖ 2'
    """
    return (
        f"{line['updates']:8,} updates  loss {short(line['loss'])} wrong {100 * line['error']:6.2f} %  "
        f"‖g‖ {short(line['gradient_norm'])} clipped {100 * line['clip_rate']:3.0f} %  Ω {short(line['omega'])} "
        f"ρ {line['spectral_radius']:.3f}  horizon {line['horizon']:4d}  length {line['low']}–{line['high']}  "
        f"{line['updates_per_second']:.0f}/s  {clock(line['seconds'])}"
    )


def short(value: float | None, width: int = 7) -> str:
    """A number of two digits in `width` characters; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–".ljust(width)
    return f"{value:.2g}".ljust(width)


def clock(seconds: float) -> str:
    """Seconds as hours, minutes and seconds.

    >>> clock(59.6), clock(3725)
    ('1:00', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

"""The live display of a run on a terminal, drawn by rich.

temporal-order · sgd-cr (norm clipping and Ω), optimizer adam · length 50–200 · seed 1
━━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━━━   52 %   104,000 of 200,000 updates   1,210/s   1:20 left at most
loss 0.41   wrong 12.30 %   ‖g‖ 3.1 (max 41)   clipped 61 %   Ω 0.012   ρ 1.08   horizon 140   length 46–69
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .config import Config
from .display import Display, Words, clock
from .record import Snapshot

SMOOTHING = 0.05
"""The weight of the newest loss in the loss that is shown."""


class Live(Display):
    """A bar, the time left, and the last check.

    Args:
        console: where to draw; the terminal if None.
        words: how the run is put into words; those of a drawn problem if None.
    """

    def __init__(self, console: Console | None = None, words: Words | None = None) -> None:
        self._console = console
        self._words = words or Words()
        self._line: dict[str, Any] = {}
        self._loss: float | None = None
        self._done = 0
        self._seconds = 0.0

    @contextmanager
    def shown(self, config: Config, limit: int, max_seconds: float | None, done: int) -> Iterator[None]:
        self._title = self._words.title(config)
        self._limit, self._max_seconds = limit, max_seconds
        self._done = done
        self._rates: tuple[float, int] | None = None
        self._rate = 0.0
        with RichLive(console=self._console, auto_refresh=False) as live:
            self._live = live
            yield

    def check(self, line: dict[str, Any], seen: Snapshot | None) -> None:
        self._line = line
        self._done, self._seconds = line[self._words.unit], line["seconds"]
        if line["loss"] is not None:
            self._loss = line["loss"]
        self._refresh()

    def say(self, text: str) -> None:
        self._live.console.print(text, highlight=False, markup=False)

    def tick(self, done: int, seconds: float, loss: float) -> None:
        if self._rates is not None:
            before, made = self._rates
            now = (done - made) / max(seconds - before, 1e-9)
            self._rate = now if self._rate == 0 else self._rate + SMOOTHING * (now - self._rate)
        self._rates = (seconds, done)
        self._loss = loss if self._loss is None else self._loss + SMOOTHING * (loss - self._loss)
        self._done, self._seconds = done, seconds
        self._refresh()

    def _refresh(self) -> None:
        numbers = self._words.numbers(self._line, self._loss) if self._line else ""
        self._live.update(Group(Text(self._title, style="bold"), self._bar(), Text(numbers)), refresh=True)

    def _bar(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        done = self._words.done(self._done, self._limit)
        bar = ProgressBar(total=self._limit, completed=self._done, width=36)
        grid.add_row(bar, done, self._words.pace(self._rate), clock(self._seconds), self._left())
        return grid

    def _left(self) -> str:
        times = [(self._limit - self._done) / self._rate] if self._rate > 0 else []
        if self._max_seconds is not None:
            times.append(self._max_seconds - self._seconds)
        return f"{clock(max(0.0, min(times)))} left at most" if times else ""

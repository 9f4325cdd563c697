"""The live display of a run on a terminal, drawn by rich.

temporal-order · sgd-cr · length 50–200 · seed 1
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

from .config import RunConfig
from .flow_snapshot import Snapshot
from .progress import Display, clock, short

SMOOTHING = 0.05
"""The weight of the newest loss in the loss that is shown."""


class Live(Display):
    """A bar, the time left, and the last check.

    Args:
        console: where to draw; the terminal if None.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._line: dict[str, Any] = {}
        self._loss: float | None = None
        self._updates = 0
        self._seconds = 0.0

    @contextmanager
    def shown(self, config: RunConfig, max_updates: int, max_seconds: float | None, updates: int) -> Iterator[None]:
        self._title = (
            f"{config.task} · {config.algorithm} · length {config.length[0]}–{config.length[1]} · seed {config.seed}"
        )
        self._max_updates, self._max_seconds = max_updates, max_seconds
        self._updates = updates
        self._rates: tuple[float, int] | None = None
        self._rate = 0.0
        with RichLive(console=self._console, auto_refresh=False) as live:
            self._live = live
            yield

    def check(self, line: dict[str, Any], seen: Snapshot) -> None:
        self._line = line
        self._updates, self._seconds = line["updates"], line["seconds"]
        if line["loss"] is not None:
            self._loss = line["loss"]
        self._refresh()

    def tick(self, updates: int, seconds: float, loss: float) -> None:
        if self._rates is not None:
            before, made = self._rates
            now = (updates - made) / max(seconds - before, 1e-9)
            self._rate = now if self._rate == 0 else self._rate + SMOOTHING * (now - self._rate)
        self._rates = (seconds, updates)
        self._loss = loss if self._loss is None else self._loss + SMOOTHING * (loss - self._loss)
        self._updates, self._seconds = updates, seconds
        self._refresh()

    def _refresh(self) -> None:
        self._live.update(Group(Text(self._title, style="bold"), self._bar(), Text(self._numbers())), refresh=True)

    def _bar(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        done = f"{self._updates:,} of {self._max_updates:,} updates"
        bar = ProgressBar(total=self._max_updates, completed=self._updates, width=36)
        grid.add_row(bar, done, f"{self._rate:,.0f}/s", clock(self._seconds), self._left())
        return grid

    def _left(self) -> str:
        times = [(self._max_updates - self._updates) / self._rate] if self._rate > 0 else []
        if self._max_seconds is not None:
            times.append(self._max_seconds - self._seconds)
        return f"{clock(max(0.0, min(times)))} left at most" if times else ""

    def _numbers(self) -> str:
        line = self._line
        if not line:
            return ""
        loss = line["loss"] if self._loss is None else self._loss
        most = short(line["gradient_norm_max"], 0)
        return (
            f"loss {short(loss, 0)}   wrong {100 * line['error']:.2f} %   ‖g‖ {short(line['gradient_norm'], 0)} (max {most})   "
            f"clipped {100 * line['clip_rate']:.0f} %   Ω {short(line['omega'], 0)}   ρ {line['spectral_radius']:.3f}   "
            f"horizon {line['horizon']}   length {line['low']}–{line['high']}"
        )

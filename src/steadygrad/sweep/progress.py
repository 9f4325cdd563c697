"""How far a sweep is: cells done, running and left, and the time left, read from its folder once a second.

The folder is what all engines share, near or far, and what is left of a sweep after any accident; so it is the one
thing to watch. The time left is the mean time of finished cells like the ones that are left (same problem, length and
algorithm), divided by the workers; where there are none yet, finished cells of any sort, scaled by the work in them
(updates × steps, or epochs × tokens).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from types import TracebackType
from typing import Any, TextIO

from steadygrad.checks import one_of
from steadygrad.experiments import Result
from steadygrad.sweep.cell import FAILURE, STARTS, Outcome, finished, read
from steadygrad.sweep.cell import duration as duration
from steadygrad.sweep.estimate import work
from steadygrad.sweep.grid import Cell

STYLES = ("auto", "plain", "none")
INTERVAL = 1.0


class Watch:
    """Shows a sweep's progress while the block runs.

    Args:
        cells: those to be run.
        directory: the sweep's folder.
        done: how many cells were finished before.
        workers: how many run at once, for the time left; None where only the engine knows.
        style: 'auto' (a live bar on a terminal, plain lines elsewhere), 'plain', or 'none'.
        stream: where to; standard error by default.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        directory: Path,
        done: int = 0,
        workers: int | None = None,
        style: str = "auto",
        stream: TextIO | None = None,
    ) -> None:
        self.style = one_of("progress", style, STYLES)
        self.left = {cell.id: cell for cell in cells}
        self.outcomes: dict[str, Outcome] = {}
        self.directory, self.before, self.workers = directory, done, workers
        self.total = done + len(cells)
        self.stream = stream or sys.stderr
        self._seconds: list[tuple[Cell, float]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._bar: Any = None

    def __enter__(self) -> Watch:
        if self.style != "none":
            if self.style == "auto" and self.stream.isatty():
                self._bar = _bar(self.stream, self.total)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.style == "none":
            return
        self._stop.set()
        self._thread.join()
        self.poll()
        if self._bar is not None:
            self._bar.stop()

    @property
    def running(self) -> int:
        """How many cells have begun and not ended."""
        return sum((self.directory / name / STARTS).is_file() for name in self.left)

    @property
    def time_left(self) -> float | None:
        """Seconds, as far as one can tell from what is finished; None before anything is."""
        if not self._seconds:
            return None
        rate = sum(seconds for _, seconds in self._seconds) / sum(_work(cell) for cell, _ in self._seconds)
        expected = 0.0
        for cell in self.left.values():
            alike = [seconds for other, seconds in self._seconds if _kind(other) == _kind(cell)]
            expected += mean(alike) if alike else rate * _work(cell)
        return expected / max(1, min(self.workers or max(self.running, 1), len(self.left)))

    def poll(self) -> None:
        """Takes in what has changed in the folder, and shows it."""
        for cell in list(self.left.values()):
            outcome = _ended(cell, self.directory / cell.id)
            if outcome is None:
                continue
            del self.left[cell.id]
            self.outcomes[cell.id] = outcome
            if outcome.status == "finished":
                result = Result.read(self.directory / cell.id)
                self._seconds += [] if result is None else [(cell, result.total_seconds)]
            self._say(f"[{self.total - len(self.left)}/{self.total}] {cell.id}: {outcome}{self._rest()}")
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self.total - len(self.left), rest=self._rest())

    def _follow(self) -> None:
        while not self._stop.wait(INTERVAL):
            self.poll()

    def _rest(self) -> str:
        if not self.left:
            return ""
        left = self.time_left
        running = self.running
        words = [f"{running} running", f"{len(self.left) - running} waiting"]
        return " · ".join(["", *words, *([] if left is None else [f"about {duration(left)} left"])])

    def _say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.console.print(line.split(" · ")[0], highlight=False, markup=False)
        else:
            print(line, file=self.stream, flush=True)


def _bar(stream: TextIO, total: int) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.completed}/{task.total} cells{task.fields[rest]}"), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(file=stream))
    bar.add_task("", total=total, rest="")
    bar.start()
    return bar


def _ended(cell: Cell, folder: Path) -> Outcome | None:
    outcome = finished(cell, folder)
    # Until its start is taken back, the worker may still be writing.
    if outcome is not None:
        return outcome
    failure = read(folder / FAILURE)
    return None if failure is None else Outcome(cell.id, "failed", failure["reason"])


def _kind(cell: Cell) -> tuple[Any, ...]:
    config = cell.config
    return config.problem, config.length, config.ahead, config.algorithm, cell.preset


def _work(cell: Cell) -> float:
    return work(cell.config)

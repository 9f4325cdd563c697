"""How far a sweep is and how long it takes: an estimate before it begins, and the time left while it runs.

    seconds of a cell ≤ limit · seconds of one unit of it         (updates of a drawn problem, epochs of a data set)
    seconds of an update = s + c / check_every                    s: of the update itself, c: of a test on check_sequences

Before it begins, they are measured on a few updates of each distinct shape, a drawn problem's at the cell's full lengths: a
curriculum, and success, make it shorter. Finished cells of the same shape are a better measure, and are taken instead.

While it runs, the folder is read once a second: it is what all engines share. The time left is the mean time of finished
cells like those that are left, divided by the workers; where there are none yet, of any finished cells, scaled by the work in
them (updates × steps, or epochs × bytes of data).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, TextIO

from steadygrad.checks import one_of
from steadygrad.experiments import Config, Result
from steadygrad.experiments.config import DRAWN
from steadygrad.experiments.display import PROGRESS, clock
from steadygrad.sweep.cell import FAILURE, STARTS, Outcome, finished, read, remaining
from steadygrad.sweep.grid import Cell, Grid
from steadygrad.wording import duration

UPDATES = {"drawn": 50, "data": 10}  # that a measurement takes, after a few to warm up
SHAPE = (
    *("problem", "algorithm", "length", "batch", "steps", "network", "hidden", "nonlinearity", "optimizer"),
    *("backend", "dtype", "threads"),
)
"""The settings on which the time of an update depends."""
INTERVAL = 1.0


@dataclass(frozen=True)
class Estimate:
    """Seconds of each cell that is left, by id, and of the sweep as a whole; all at most, if nothing is solved early."""

    cells: dict[str, float]
    workers: int

    @property
    def seconds(self) -> float:
        """Of the sweep: no less than its longest cell."""
        return max([sum(self.cells.values()) / self.workers, *self.cells.values()], default=0.0)


def estimate(grid: Grid, directory: Path, workers: int) -> Estimate:
    """How long the cells of `grid` that are not finished in `directory`, which may not exist yet, take with `workers`."""
    known, seconds = dict[tuple[Any, ...], float](), dict[str, float]()
    for cell in grid.cells:
        result = Result.read(Path(directory) / cell.id)
        least = UPDATES["drawn"] if cell.config.form == DRAWN else 0
        if result is not None and (done := result.reached(cell.config.limit)) > least:
            known[_shape(cell.config)] = result.total_seconds / done
    for cell in remaining(grid, directory):
        config, shape = cell.config, _shape(cell.config)
        if config.max_seconds is not None:
            seconds[cell.id] = config.max_seconds
            continue
        if shape not in known:
            known[shape] = (measured_update if config.form == DRAWN else measured_epoch)(config)
        seconds[cell.id] = known[shape] * cell.limit
    return Estimate(seconds, workers)


def measured_update(config: Config, updates: int = UPDATES["drawn"]) -> float:
    """Seconds of one update at the config's full lengths, and its share of a test."""
    from steadygrad.experiments.evaluation import score
    from steadygrad.experiments.learner import Learner
    from steadygrad.reproducible import stream

    learner = Learner(config)
    learner.feed.lengths.now = config.length
    for _ in range(5):
        learner.update()
    one, few = _seconds(learner.update, updates), min(config.check_sequences, 200)
    test = _seconds(lambda: score(learner.network, config.length, few, stream(config.seed, "estimate")))
    return one + test * config.check_sequences / few / config.check_every


def measured_epoch(config: Config, updates: int = UPDATES["data"]) -> float:
    """Seconds of an epoch, validation included, from a few updates and one chunk of validation."""
    from steadygrad.experiments.learner import Learner

    learner = Learner(config)
    feed, problem = learner.feed, learner.problem

    def update() -> None:
        if feed.at_end_of_epoch:
            learner.next_epoch()
        learner.update()

    update()
    before = feed.tokens
    learned = _seconds(update, updates) * updates / (feed.tokens - before)
    chunk, read = next(problem.whole("valid")), list[Any]()
    tested = _seconds(lambda: read.append(learner.network.read(chunk))) / read[0].predictions
    return learned * problem.predictions("train") + tested * problem.predictions("valid")


def _seconds(function: Callable[[], Any], times: int = 1) -> float:
    """Of one call."""
    start = time.perf_counter()
    for _ in range(times):
        function()
    return (time.perf_counter() - start) / times


def _shape(config: Config) -> tuple[Any, ...]:
    names = SHAPE if config.form == DRAWN else [name for name in SHAPE if name != "algorithm"]
    return tuple(getattr(config, name) for name in names)


class Watch:
    """Shows a sweep's progress while the block runs, on standard error if no `stream` is given.

    `cells` are to be run, `done` were finished before; `workers` run at once, None where only the engine knows. `style` is
    'auto' (a live bar on a terminal, plain lines elsewhere), 'plain', or 'none'.
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
        self.style, self.stream = one_of("progress", style, PROGRESS), stream or sys.stderr
        self.left = {cell.id: cell for cell in cells}
        self.directory, self.workers, self.total = directory, workers, done + len(cells)
        self._seconds: list[tuple[Cell, float]] = []
        self._begun = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._bar: Any = None

    def __enter__(self) -> Watch:
        if self.style == "auto" and self.stream.isatty():
            from rich.console import Console

            from steadygrad.terminal import LiveBar

            self._bar = LiveBar(self.total, Console(file=self.stream))
            self._bar.start()
        if self.style != "none":
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.style != "none":
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
        """Seconds, estimated from finished cells; None before there are any."""
        if not self._seconds:
            return None
        rate = sum(seconds for _, seconds in self._seconds) / sum(_work(cell.config) for cell, _ in self._seconds)
        expected = 0.0
        for cell in self.left.values():
            alike = [seconds for other, seconds in self._seconds if _kind(other) == _kind(cell)]
            expected += mean(alike) if alike else rate * _work(cell.config)
        return expected / max(1, min(self.workers or max(self.running, 1), len(self.left)))

    def poll(self) -> None:
        """Takes in what has changed in the folder, and shows it."""
        for cell in list(self.left.values()):
            folder = self.directory / cell.id
            outcome = finished(cell, folder)
            if outcome is None and (failure := read(folder / FAILURE)) is not None:
                outcome = Outcome(cell.id, "failed", failure["reason"])
            if outcome is None:
                continue
            del self.left[cell.id]
            if outcome.result is not None:
                self._seconds.append((cell, outcome.result.total_seconds))
            line = f"[{self.total - len(self.left)}/{self.total}] {cell.id}: {outcome}"
            if self._bar is not None:
                self._bar.console.print(line, highlight=False, markup=False)
            else:
                print(line + self._rest(), file=self.stream, flush=True)
        if self._bar is not None:
            done, passed = self.total - len(self.left), clock(time.monotonic() - self._begun)
            self._bar.show(done, f"{done}/{self.total} cells{self._rest()}  {passed}")

    def _follow(self) -> None:
        while not self._stop.wait(INTERVAL):
            self.poll()

    def _rest(self) -> str:
        if not self.left:
            return ""
        left, running = self.time_left, self.running
        last = "" if left is None else f" · about {duration(left)} left"
        return f" · {running} running · {len(self.left) - running} waiting{last}"


def _kind(cell: Cell) -> tuple[Any, ...]:
    config = cell.config
    return config.problem, config.length, config.ahead, config.algorithm, cell.preset


def _work(config: Config) -> float:
    """How much there is to do at most, to compare runs that are not alike."""
    if config.form == DRAWN:
        return config.max_updates * sum(config.length)
    from steadygrad.data.sources import SOURCES

    if config.problem in SOURCES:
        return config.epochs * SOURCES[config.problem][0].size
    path = Path(config.path or "")
    found = path.rglob("*") if path.is_dir() else [path]
    return config.epochs * sum(file.stat().st_size for file in found if file.is_file())

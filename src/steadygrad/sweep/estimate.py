"""How long a sweep may take, before it is begun.

    seconds of a cell ≤ limit · seconds of one unit of it         (updates of a drawn problem, epochs of a data set)
    seconds of an update = s + c / check_every                    s: of the update itself, c: of a test on check_sequences

They are measured on a few updates of each distinct shape (problem, lengths, hidden units, batch, …), a drawn problem's at the
cell's full lengths: a curriculum, and success, make it shorter. Finished cells of the same shape in the sweep's folder are a
better measure, and are taken instead.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steadygrad.experiments import Config, Result
from steadygrad.experiments.config import DRAWN
from steadygrad.sweep.grid import Grid

UPDATES = {"drawn": 50, "data": 10}
"""That a measurement takes, after a few to warm up."""
SHAPE = (
    *("problem", "algorithm", "length", "batch", "steps", "network", "hidden", "nonlinearity", "optimizer"),
    *("backend", "dtype", "threads"),
)
"""The settings on which the time of an update depends."""


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
    """How long the cells of `grid` that are not finished in `directory` may take.

    Args:
        grid: the sweep's.
        directory: its folder; may not exist yet.
        workers: how many run at once.

    Returns:
        seconds by cell, and of all.
    """
    from steadygrad.sweep.runner import remaining

    known = _finished(grid, directory)
    seconds: dict[str, float] = {}
    for cell in remaining(grid, directory):
        config, shape = cell.config, _shape(cell.config)
        if shape not in known:
            known[shape] = (measured_update if config.form == DRAWN else measured_epoch)(config)
        seconds[cell.id] = known[shape] * getattr(config, config.limit)
    return Estimate(seconds, workers)


def work(config: Config) -> float:
    """How much there is to do at most, to compare runs that are not alike: updates × steps, or epochs × bytes of data."""
    if config.form == DRAWN:
        return config.max_updates * sum(config.length)
    return config.epochs * _bytes(config)


def measured_update(config: Config, updates: int = UPDATES["drawn"]) -> float:
    """Seconds of one update at the config's full lengths, and its share of a test."""
    from steadygrad.experiments.evaluation import score
    from steadygrad.experiments.learner import Learner
    from steadygrad.experiments.network import stream

    learner = Learner(config)
    learner.feed.lengths.now = config.length
    for _ in range(5):
        learner.update()
    start = time.perf_counter()
    for _ in range(updates):
        learner.update()
    one = (time.perf_counter() - start) / updates
    few = min(config.check_sequences, 200)
    start = time.perf_counter()
    score(learner.network, config.length, few, stream(config.seed, "estimate"))
    test = (time.perf_counter() - start) * config.check_sequences / few
    return one + test / config.check_every


def measured_epoch(config: Config, updates: int = UPDATES["data"]) -> float:
    """Seconds of an epoch, validation included, from a few updates and one chunk of validation."""
    from steadygrad.experiments.learner import Learner

    learner = Learner(config)
    feed, problem = learner.feed, learner.problem
    learner.update()
    before = feed.tokens
    start = time.perf_counter()
    for _ in range(updates):
        if feed.at_end_of_epoch:
            learner.next_epoch()
        learner.update()
    learned = (time.perf_counter() - start) / (feed.tokens - before)
    chunk = next(problem.whole("valid"))
    start = time.perf_counter()
    read = learner.network.read(chunk)
    tested = (time.perf_counter() - start) / read.predictions
    return learned * problem.predictions("train") + tested * problem.predictions("valid")


def _finished(grid: Grid, directory: Path) -> dict[tuple[Any, ...], float]:
    """What a unit took in the finished cells of the folder, by shape."""
    found: dict[tuple[Any, ...], float] = {}
    for cell in grid.cells:
        result = Result.read(Path(directory) / cell.id)
        if result is None:
            continue
        if cell.config.form == DRAWN and result.total_updates > UPDATES["drawn"]:
            found[_shape(cell.config)] = result.total_seconds / result.total_updates
        elif result.epochs:
            found[_shape(cell.config)] = result.total_seconds / result.epochs
    return found


def _shape(config: Config) -> tuple[Any, ...]:
    names = SHAPE if config.form == DRAWN else [name for name in SHAPE if name != "algorithm"]
    return tuple(getattr(config, name) for name in names)


def _bytes(config: Config) -> int:
    """How large the training data is as a file: about proportional to its steps, and known without reading it."""
    from steadygrad.data.sources import SOURCES

    if config.problem in SOURCES:
        return SOURCES[config.problem][0].size
    path = Path(config.path or "")
    return sum(file.stat().st_size for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())

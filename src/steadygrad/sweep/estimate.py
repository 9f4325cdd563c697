"""How long a sweep may take, before it is begun.

    seconds of a cell ≤ max_updates · (s + c / check_every)      s: of one update, c: of one test on check_sequences

Both are measured here on a few updates of each distinct shape (task, lengths, hidden units, batch, …), at the cell's
full lengths: a curriculum, and success, make it shorter. Finished cells of the same shape in the sweep's folder are a
better measure, and are taken instead.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steadygrad.sweep.cell import read
from steadygrad.sweep.grid import Grid
from steadygrad.sweep.runner import remaining
from steadygrad.training import RunConfig, files
from steadygrad.training.evaluation import score
from steadygrad.training.learner import Learner
from steadygrad.training.network import stream

UPDATES = 50
"""That a measurement takes, after a few to warm up."""

SHAPE = ("task", "algorithm", "length", "batch", "hidden", "nonlinearity", "optimizer", "backend", "dtype", "threads")


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
    left = remaining(grid, directory)
    known = _measured(grid, directory)
    for cell in left:
        if _shape(cell.config) not in known:
            known[_shape(cell.config)] = seconds_per_update(cell.config)
    return Estimate({cell.id: known[_shape(cell.config)] * cell.config.max_updates for cell in left}, workers)


def seconds_per_update(config: RunConfig, updates: int = UPDATES) -> float:
    """Of one update of this config, and its share of a test, measured.

    Args:
        config: of the run.
        updates: how many to time.
    """
    learner = Learner(config)
    learner.lengths.now = config.length
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


def _measured(grid: Grid, directory: Path) -> dict[tuple[Any, ...], float]:
    """What the finished cells of the folder took, by shape."""
    found: dict[tuple[Any, ...], float] = {}
    for cell in grid.cells:
        result = read(Path(directory) / cell.id / files.RESULT)
        if result is not None and result["total_updates"] > UPDATES:
            found[_shape(cell.config)] = result["total_seconds"] / result["total_updates"]
    return found


def _shape(config: RunConfig) -> tuple[Any, ...]:
    return tuple(getattr(config, field) for field in SHAPE)

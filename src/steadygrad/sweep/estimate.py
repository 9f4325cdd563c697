"""How long a sweep may take, before it is begun.

    seconds of a cell ≤ limit · seconds of one unit of it         (updates of a task, epochs of music and text)

The latter are measured on a few updates of each distinct shape (task, lengths, hidden units, batch, …), a task's at the
cell's full lengths: a curriculum, and success, make it shorter. Finished cells of the same shape in the sweep's folder
are a better measure, and are taken instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steadygrad.sweep import kinds
from steadygrad.sweep.cell import read
from steadygrad.sweep.grid import Grid
from steadygrad.sweep.kind import Config
from steadygrad.sweep.runner import remaining
from steadygrad.training import files


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
    known = _finished(grid, directory)
    seconds: dict[str, float] = {}
    for cell in remaining(grid, directory):
        kind, shape = kinds.of(cell.config), _shape(cell.config)
        if shape not in known:
            known[shape] = kind.measured(cell.config)
        seconds[cell.id] = known[shape] * getattr(cell.config, kind.limit)
    return Estimate(seconds, workers)


def _finished(grid: Grid, directory: Path) -> dict[tuple[Any, ...], float]:
    """What a unit took in the finished cells of the folder, by shape."""
    found: dict[tuple[Any, ...], float] = {}
    for cell in grid.cells:
        result = read(Path(directory) / cell.id / files.RESULT)
        pace = None if result is None else kinds.of(cell.config).pace(result)
        if pace is not None:
            found[_shape(cell.config)] = pace
    return found


def _shape(config: Config) -> tuple[Any, ...]:
    return tuple(getattr(config, field) for field in kinds.of(config).shape)

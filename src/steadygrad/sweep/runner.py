"""From a grid to its outcomes: what is finished is left alone, the rest is run, and a failure is an outcome too.

DIR/sweep.json    the grid's name, the command, and the ids of all its cells
DIR/CELL/         one folder for each (`steadygrad.sweep.cell`)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from steadygrad import __version__, provenance, storage
from steadygrad.experiments import files
from steadygrad.sweep.cell import FAILURE, STARTS, SWEEP, Outcome, Work, can_grow, finished, read, remaining, write
from steadygrad.sweep.cluster import Dask, Ray
from steadygrad.sweep.grid import Grid
from steadygrad.sweep.local import Local
from steadygrad.sweep.progress import Watch

LOCK, WAIT = ".sweep.lock", 10.0  # the lock on sweep.json, and how many seconds to wait for it
Engine = Local | Dask | Ray
"""What runs the cells: `run(function, cells)` gives the function of every cell, in any order."""
PREPARING = (LOCK, f".{SWEEP}.tmp")  # what a folder may hold while another sweep is being prepared there


def run(
    grid: Grid,
    directory: Path,
    *,
    engine: Engine | None = None,
    command: str = "",
    progress: str = "auto",
    train: Callable[..., Any] | None = None,
    evaluate: Callable[..., Any] | None = None,
) -> list[Outcome]:
    """Runs every cell of a grid that is not finished yet.

    Cells go on from their own checkpoints, so a sweep may be killed and started again. A cell that failed before is tried
    again; one that gave up at its limit (`max_updates`, or `epochs` of music and text) goes on if the grid's is now higher.

    One folder for each cell is made in `directory`, which is new, empty, or of an earlier sweep. `engine` is `Local()` by
    default, one model per core; `command` is what the user typed, for the records; `train` and `evaluate` take the places of
    `experiments.run` and `experiments.evaluate`. What became of each cell is returned in the grid's order.
    """
    directory = Path(directory).resolve()
    _prepare(grid, directory, command)
    left = remaining(grid, directory)
    outcomes = {cell.id: outcome for cell in grid.cells if (outcome := finished(cell, directory / cell.id))}
    for cell in left:
        # Starts of an earlier sweep that was killed as a whole say nothing against the cell.
        for name in (STARTS, FAILURE):
            (directory / cell.id / name).unlink(missing_ok=True)
    if left:
        engine = engine or Local()
        about = {"grid": grid.name, "command": command, "commit": provenance.commit(), "version": __version__}
        work = Work(directory, about, train, evaluate)
        with Watch(left, directory, len(outcomes), getattr(engine, "workers", None), progress):
            outcomes |= {outcome.id: outcome for outcome in engine.run(work, left)}
    return [outcomes[cell.id] for cell in grid.cells]


def _prepare(grid: Grid, directory: Path, command: str) -> None:
    check(grid, directory)
    directory.mkdir(parents=True, exist_ok=True)
    # two sweeps begun in one folder at the same moment must not lose each other's cells
    with storage.locked(directory / LOCK, f"{directory} is in use: another sweep is being prepared there", WAIT):
        known = (read(directory / SWEEP) or {"cells": []})["cells"]
        cells = list(dict.fromkeys([*known, *(cell.id for cell in grid.cells)]))
        write(directory / SWEEP, {"grid": grid.name, "command": command, "version": __version__, "cells": cells})


def check(grid: Grid, directory: Path) -> None:
    """Raises ValueError where `directory` can't take the grid: it holds something else, or cells run otherwise."""
    directory = Path(directory)
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"the sweep's folder must be a folder, and {directory} is a file")
    others = directory.is_dir() and any(path.name not in PREPARING for path in directory.iterdir())
    if others and not (directory / SWEEP).is_file():
        allowed = "the sweep's folder must be new, empty, or of an earlier sweep"
        raise ValueError(f"{allowed}, and {directory} holds other files")
    for cell in grid.cells:
        folder = directory / cell.id
        if not (folder / files.CONFIG).is_file():
            continue
        there, limit = files.read_config(folder), cell.config.limit
        if can_grow(there, cell.config):
            there = there.changed(**{limit: cell.limit})
        if other := there.differences(cell.config):
            why = f"{folder} holds another run (there {'; '.join(other)})"
            raise ValueError(f"{why}: choose another folder for this sweep")

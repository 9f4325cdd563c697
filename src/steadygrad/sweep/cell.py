"""One cell of a sweep, from the side of the worker that runs it.

    DIR/CELL/                      the run's own files: config.json, result.json, weights, checkpoints, …
    DIR/CELL/cell.json             what it is a cell of, and where it was run: grid, command, commit, machine, date
    DIR/CELL/generalisation.json   the error at other lengths
    DIR/CELL/failed.json           in place of a result: why there is none
    DIR/CELL/starts.json           only while it runs: how many starts have not ended

A worker that is killed can't say so. It leaves a start without an end; after `DEATHS` of them the cell is given up. Every file
is whole or not there.
"""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from steadygrad import experiments, provenance, storage
from steadygrad.experiments import Config, Result, files
from steadygrad.storage import read_json as read
from steadygrad.storage import write_json as write
from steadygrad.sweep.grid import Cell, Grid
from steadygrad.wording import duration

DEATHS = 3  # starts without an end after which a cell is given up: the first one, and two more
PATIENCE = 5.0
"""Seconds to wait for a cell that another process still holds: an orphan notices sooner that its sweep is gone."""
SWEEP, DESCRIPTION, GENERALISATION = "sweep.json", "cell.json", "generalisation.json"
FAILURE, STARTS, LOCK = "failed.json", "starts.json", ".cell.lock"


@dataclass(frozen=True)
class Outcome:
    """What became of a cell: a result, good or bad, or why there is none; 'busy' means that another process has it."""

    id: str
    status: Literal["finished", "failed", "interrupted", "busy"]
    reason: str = ""
    result: Result | None = None  # of a finished run

    def __str__(self) -> str:
        result, more = self.result, self.reason
        if result is None:
            return f"{self.status}: {self.reason}"
        if result.solved is not None and result.error is not None:
            more = f"{100 * result.error:.{2 if result.solved else 1}f} % wrong"
        return f"{result.verdict} ({duration(result.seconds)}, {more})"


def finished(cell: Cell, folder: Path) -> Outcome | None:
    """The outcome of a cell that has a result and was tested at all of its test lengths, else None."""
    result = Result.read(folder)
    if result is None or result.can_go_on(cell.limit, cell.config.max_seconds):
        return None
    tested = read(folder / GENERALISATION) or {}
    if any(str(length) not in tested for length in _tests(cell, result)):
        return None
    return Outcome(cell.id, "finished", result.reason, result)


def remaining(grid: Grid, directory: Path) -> list[Cell]:
    """The cells of a grid that have no outcome in `directory` yet."""
    return [cell for cell in grid.cells if finished(cell, Path(directory) / cell.id) is None]


def can_grow(there: Config, asked: Config) -> bool:
    """Whether the run that is there would have begun no differently with the limit asked for."""
    # Only a schedule that knows its end would have run otherwise from the start.
    endless = not {there.lr_schedule, there.alpha_schedule} & {"linear", "cosine"}
    return endless and getattr(asked, asked.limit) > getattr(there, asked.limit)


@dataclass(frozen=True)
class Work:
    """What a worker does with a cell. It is sent to the worker, so all of it can be pickled."""

    directory: Path  # the sweep's
    about: Mapping[str, Any] = field(default_factory=dict)  # for cell.json: grid, command, commit, version
    run: Callable[..., Result] | None = None  # in place of `experiments.run`
    evaluate: Callable[..., Any] | None = None  # in place of `experiments.evaluate`

    def __call__(self, cell: Cell) -> Outcome:
        """Runs the cell, or resumes it. An error inside becomes an outcome, not an exception."""
        if not (self.directory / SWEEP).is_file():
            blind = f"the worker on {socket.gethostname()} does not see {self.directory}"
            return Outcome(cell.id, "failed", f"{blind}: the sweep's folder must be on a disk that all nodes share")
        folder = self.directory / cell.id
        try:
            folder.mkdir(exist_ok=True)
            with storage.locked(folder / LOCK, "another process is running it", PATIENCE):
                return self._run(cell, folder)
        except storage.FolderError as busy:
            return Outcome(cell.id, "busy", str(busy))
        except OSError as error:
            return Outcome(cell.id, "failed", _sentence(error))

    def _run(self, cell: Cell, folder: Path) -> Outcome:
        starts = (read(folder / STARTS) or {"starts": 0})["starts"]
        if starts >= DEATHS:
            return _failure(cell, folder, f"its worker died {starts} times, every time it was tried")
        write(folder / STARTS, {"starts": starts + 1, "process": os.getpid(), "host": socket.gethostname()})
        about = {"id": cell.id, "preset": cell.preset, "test_lengths": list(cell.test_lengths)}
        about |= {"config": cell.config.as_dict(), **self.about}
        write(folder / DESCRIPTION, {**about, "machine": provenance.machine(), "date": provenance.today()})
        (folder / FAILURE).unlink(missing_ok=True)
        try:
            outcome = self._train_and_test(cell, folder)
        except KeyboardInterrupt:
            outcome = Outcome(cell.id, "interrupted", "interrupted")
        except Exception as error:  # a cell that fails is recorded, and the others go on
            return _failure(cell, folder, _sentence(error), traceback.format_exc())
        (folder / STARTS).unlink(missing_ok=True)
        return outcome

    def _train_and_test(self, cell: Cell, folder: Path) -> Outcome:
        if cell.test_lengths and cell.config.form != "drawn":
            raise ValueError("test_lengths must be left out of a cell of music or text, whose test set is its own")
        result = Result.read(folder)
        if result is None or result.can_go_on(cell.limit, cell.config.max_seconds):
            there = (folder / files.CONFIG).is_file()
            # What is there differs in its limit at most (`steadygrad.sweep.runner.check`), and goes on to the new one.
            config = files.read_config(folder) if there else cell.config
            limit: dict[str, Any] = {config.limit: cell.limit}
            result = (self.run or experiments.run)(config, folder, progress="none", resume=there, **limit)
            if result.interrupted:
                raise KeyboardInterrupt
        if cell.test_lengths:
            evaluate = self.evaluate or experiments.evaluate
            write(folder / GENERALISATION, {str(length): evaluate(folder, length) for length in _tests(cell, result)})
        return Outcome(cell.id, "finished", result.reason, result)


def _tests(cell: Cell, result: Result) -> tuple[int, ...]:
    # A run that diverged has no network to test.
    return () if result.diverged else cell.test_lengths


def _failure(cell: Cell, folder: Path, reason: str, details: str = "") -> Outcome:
    record = {"id": cell.id, "reason": reason, "date": provenance.today()}
    write(folder / FAILURE, {**record, **({"traceback": details} if details else {})})
    (folder / STARTS).unlink(missing_ok=True)
    return Outcome(cell.id, "failed", reason)


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__

"""`steadygrad sweep`: a grid of runs, on this machine's cores or on a cluster."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import ranges, sweep
from ..checks import one_of
from ..experiments.presets import PRESETS
from ..sweep import Grid, Outcome
from ..sweep.cell import remaining
from ..sweep.progress import estimate
from ..sweep.runner import Engine, check
from ..wording import duration
from . import options

AXES = ("problem", "length", "ahead", "algorithm", "preset", "init")
OF_CELLS = ("length", "ahead", "init", "seed")  # settings that are axes of the grid
TUNED_FIRST = "comparison"  # the grid whose settings are each method's best trial, which this command does not read


def add_sweep(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", help=f"{_names()}; or give the axes below")
    add("--budget", metavar="NAME", help="of a named grid: minutes, hours, full")
    add("--seeds", metavar="LIST", help="such as 1:5 or 1,3,7")
    add("--out", type=Path, metavar="DIR", help="one folder for each cell is made in it")
    add("--only", metavar="TEXT", help="only the cells whose id contains TEXT, such as _proceedings_")
    add("--dry-run", action="store_true", help="print the cells and how long they may take, and run nothing")
    add = parser.add_argument_group("axes of your own grid, lists with commas").add_argument
    add("--problem", "--task", metavar="LIST", help="such as temporal-order,addition or my_problem.py:Parity")
    add("--length", metavar="LIST", help="50:200 is one model for this range; 10,20,50 is a model for each")
    add("--ahead", metavar="LIST", help="of texts, such as 1,5")
    add("--algorithm", metavar="LIST", help="of sgd, sgd-c, sgd-r, sgd-cr (sgd,sgd-c,sgd-cr)")
    add("--preset", metavar="LIST", help=f"of {', '.join(PRESETS)} (steady)")
    add("--init", metavar="LIST", help=options.help_text("init"))
    add("--test-length", metavar="LIST", help="where trained models are tested beside, such as 250,300,400")
    add_engine(parser)
    settings = [name for name in options.settings() if name not in OF_CELLS]
    options.add_settings(parser, {"settings of every cell, each in place of the preset's": settings})


def _names() -> str:
    """The grids that this command can run."""
    return options.either(name for name in sweep.GRIDS if name != TUNED_FIRST)


def add_engine(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("where it runs").add_argument
    add("--engine", default="local", metavar="NAME", help="local, dask or ray (local)")
    add("--address", metavar="ADDRESS", help="of the cluster, such as tcp://10.0.0.1:8786")
    add("--workers", type=int, metavar="N", help="models at once on this machine (one for each core)")
    add("--records", type=Path, metavar="DIR", help="also keep the records there, as DIR/GRID.jsonl")
    add("--missing", action="store_true", help="only the cells of which --records has no result yet")
    add("--plain", action="store_true", help="lines of text, also on a terminal")
    add("--quiet", action="store_true", help="no progress")


def run_sweep(args: argparse.Namespace) -> int:
    """Run a grid of runs, one model per core, or on an existing Dask or Ray cluster.

    examples:
      steadygrad sweep smoke --out runs/smoke
      steadygrad sweep tasks --budget hours --out runs/tasks --dry-run
      steadygrad sweep --task temporal-order --length 50:200 --algorithm sgd,sgd-c,sgd-cr --seeds 1:5 --out runs/mine
      steadygrad sweep fig7 --engine dask --address tcp://10.0.0.1:8786 --out /shared/fig7

    The same command goes on where it stopped. A finished cell is never run again. Without its folder, --records DIR --missing
    goes on with what DIR has no record of. Exit code 1: some cells failed.
    """
    from ..report import tables

    if args.name == TUNED_FIRST:
        run = f"run steadygrad reproduce {TUNED_FIRST}, which tunes each method first"
        raise ValueError(f"NAME must not be {TUNED_FIRST}: {run}")
    grid = _grid(args)
    if args.only is not None:
        cells = tuple(cell for cell in grid.cells if args.only in cell.id)
        if not cells:
            raise ValueError(f"--only must be a part of a cell's id, such as {grid.cells[0].id}, not {args.only!r}")
        grid = sweep.Grid(grid.name, cells)
    if (grid := to_be_run(grid, args)) is None:
        return 0
    if args.dry_run:
        return _dry_run(args, grid)
    if args.out is None:
        raise ValueError("--out DIR must be given: the folder that gets one folder for each cell")
    outcomes = carry_out(grid, args.out, args, _command(args))
    records = sweep.collect(args.out)
    print(tables.cells(records).plain())
    print(f"everything is in {args.out}; a page of it: steadygrad report {shlex.quote(str(args.out))}")
    keep(records, args.records)
    return verdict(outcomes)


def carry_out(grid: Grid, directory: Path, args: argparse.Namespace, command: str) -> list[Outcome]:
    """Runs a grid with the engine asked for; after Ctrl-C or SIGTERM it reports how many cells are finished, and keeps them."""
    check(grid, directory)
    try:
        return sweep.run(grid, directory, engine=engine(args), command=command, progress=options.progress(args))
    except KeyboardInterrupt as stopped:
        keep(sweep.collect(directory), args.records)
        done = len(grid.cells) - len(remaining(grid, directory))
        words = f"stopped: {done} of {len(grid.cells)} cells are finished; the same command goes on with the rest"
        raise type(stopped)(words) from None


def engine(args: argparse.Namespace) -> Engine:
    one_of("--engine", args.engine, ("local", "dask", "ray"))
    if args.engine == "local":
        if args.address is not None:
            raise ValueError("--address must be left out with the engine local: it is for dask and ray")
        return sweep.Local(args.workers)
    if args.workers is not None:
        raise ValueError(f"--workers must be left out with the engine {args.engine}: the cluster decides")
    return sweep.Dask(args.address) if args.engine == "dask" else sweep.Ray(args.address)


def to_be_run(grid: Grid, args: argparse.Namespace) -> Grid | None:
    """The grid without what is recorded already, if the user asked for that; None where nothing is left of it."""
    if not args.missing:
        return grid
    if args.records is None:
        raise ValueError("--missing must come with --records DIR, where the records are")
    path = args.records / f"{grid.name}.jsonl"
    if cells := sweep.unrecorded(grid, path):
        return Grid(grid.name, cells)
    print(f"{path} has a result of each of the {len(grid.cells)} cells: nothing is left to be run")
    return None


def keep(records: Sequence[Any], folder: Path | None) -> None:
    """Adds records to folder/GRID.jsonl."""
    if folder is None:
        return
    for grid in sorted({record["grid"] for record in records}):
        mine = [record for record in records if record["grid"] == grid]
        print(sweep.write_records(folder / f"{grid}.jsonl", mine))


def verdict(outcomes: Sequence[Outcome]) -> int:
    """Says which cells have no result, and why; 1 if there are any."""
    missing = [outcome for outcome in outcomes if outcome.status != "finished"]
    for outcome in missing:
        print(f"{outcome.id}: {outcome.status}: {outcome.reason}", file=sys.stderr)
    return int(bool(missing))


def _grid(args: argparse.Namespace) -> Grid:
    settings = _settings(args)
    given = [name for name in (*AXES, "test_length") if getattr(args, name) is not None]
    seeds = {} if args.seeds is None else {"seeds": ranges.seeds(args.seeds)}
    if args.name is not None:
        if given:
            which = f"the named grid {args.name}, which has its own"
            raise ValueError(f"{options.option(given[0])} must be left out with {which}")
        return sweep.get(args.name, args.budget, **seeds, **settings)
    if not given:
        raise ValueError(f"a grid must be given: a NAME ({_names()}), or axes such as --problem")
    if args.budget is not None:
        raise ValueError("--budget must be left out without a named grid: give --max-updates")
    return sweep.Grid.product(
        "own",
        problems=options.names(args.problem or "temporal-order"),
        aheads=None if args.ahead is None else ranges.seeds(args.ahead),
        lengths=None if args.length is None else ranges.lengths(args.length),
        algorithms=options.names(args.algorithm or "sgd,sgd-c,sgd-cr"),
        presets=options.names(args.preset or "steady"),
        inits=None if args.init is None else options.names(args.init),
        test_lengths=[high for _, high in ranges.lengths(args.test_length or "")],
        **seeds,
        **settings,
    )


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in options.given(args).items() if name not in OF_CELLS}


def _command(args: argparse.Namespace) -> str:
    """The command that makes the same records, without its folder and engine."""
    axes = {name: getattr(args, name) for name in ("budget", *AXES, "test_length", "seeds")}
    settings = _settings(args)
    settings["options"] = settings.pop("options", {})  # last
    typed = {name: value for name, value in axes.items() if value is not None}
    return shlex.join(["steadygrad", "sweep", *filter(None, [args.name]), *options.words({**typed, **settings})])


def _dry_run(args: argparse.Namespace, grid: Grid) -> int:
    import torch

    torch.set_num_threads(1)
    workers = sweep.Local(args.workers).workers
    left = estimate(grid, args.out or Path(), workers)
    for cell in grid.cells:
        print(f"{cell.id}: {'at most ' + duration(left.cells[cell.id]) if cell.id in left.cells else 'finished'}")
    counts = Counter(cell.config.algorithm for cell in grid.cells)
    kinds = ", ".join(f"{number} {name}" for name, number in counts.items())
    print(f"{len(grid.cells)} cells ({kinds}), {len(left.cells)} left")
    print(f"at most {duration(left.seconds)} on {workers} cores of this machine, if nothing is solved early")
    return 0

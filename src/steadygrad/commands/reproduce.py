"""`steadygrad reproduce`: the paper's figures and tables, one command each."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import sweep
from ..checks import one_of
from ..experiments.presets import OF_DATA, PRESETS
from ..sweep import Grid, comparison
from . import options
from . import sweep as sweeping

if TYPE_CHECKING:
    from ..page import Page

DRAWN = ("fig2", "fig3", "fig4", "fig5", "fig6")  # computed at once; the others are sweeps
TABLES = ("table1", "table2")
SWEPT = ("fig7", "panels", "tasks", "comparison", *TABLES)


def add_reproduce(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("what", metavar="WHAT", help=options.either(DRAWN + SWEPT))
    add("--budget", metavar="NAME", help="demo (fig7), minutes, hours or full (minutes)")
    add("--seeds", type=int, metavar="N", help="so many, in place of the budget's")
    add("--max-updates", type=int, metavar="N", help="give up after so many, in place of the budget's")
    add("--epochs", type=int, metavar="N", help="of the tables: stop after so many, likewise")
    presets = f"{options.either(PRESETS)} (of the tables {options.either(OF_DATA)})"
    add("--preset", metavar="NAME", help=f"{presets}, in place of the budget's")
    add("--out", type=Path, metavar="DIR", help="where everything goes (runs/WHAT, or runs/WHAT-BUDGET)")
    sweeping.add_engine(parser)


def run_reproduce(args: argparse.Namespace) -> int:
    """Make a figure or a table of the paper: run what it needs, draw it, and set the paper's claim beside it.

    examples:
      steadygrad reproduce fig6 --out runs/figures
      steadygrad reproduce fig7 --budget demo
      steadygrad reproduce fig7 --budget hours --seeds 5 --max-updates 200000 --out runs/fig7 --records results
      steadygrad reproduce panels --budget hours --out runs/panels --records results
      steadygrad reproduce tasks --budget hours --out runs/tasks --records results
      steadygrad reproduce comparison --budget hours --out runs/comparison --records results
      steadygrad reproduce table1 --budget minutes
      steadygrad reproduce table2 --budget hours --preset paper --epochs 12 --out runs/table2 --records results

    budgets, on two cores: demo (fig7 alone) two to three minutes, minutes about ten, hours a night, full the paper's
    protocol of 50 seeds and up to 5,000,000 updates, and of the tables 3 seeds. The same command goes on where it stopped.
    comparison has minutes (no tuning) and hours: RECORDS/tuning.jsonl has each method's trials; those it lacks are made first.
    With --missing, what RECORDS has a result of is not run again, and is shown with the rest.
    The tables need music and text: steadygrad data fetch all.
    """
    from .. import plotting

    one_of("WHAT", args.what, DRAWN + SWEPT)
    if args.what in TABLES:
        _left_out(args, ("max_updates",), "which goes by --epochs")
        return _sweep(args)
    plotting.require()
    _left_out(args, ("epochs",), "which has none" if args.what in DRAWN else "which goes by --max-updates")
    if args.what == "comparison":
        _left_out(args, ("preset",), "whose methods have their own settings")
    if args.what in SWEPT:
        return _sweep(args)
    sizes = ("budget", "seeds", "max_updates", "preset", "address", "workers", "records")
    _left_out(args, sizes, "which is computed at once")
    from ..paper import figures

    for path in figures.reproduce(args.what, args.out or Path("runs") / args.what):
        print(path)
    return 0


def _sweep(args: argparse.Namespace) -> int:
    """Run the grid, print its table, and write the records and the page."""
    from .. import data

    budget = args.budget or "minutes"
    out = args.out or Path("runs") / f"{args.what}-{budget}"
    grid = _grid(args, budget, _tuned(args, budget, out) if args.what == "comparison" else {})
    command, outcomes, found = _command(args, budget), list[sweep.Outcome](), list[Any]()
    if left := sweeping.to_be_run(grid, args):
        if args.what in TABLES:
            # Once, before the cells begin: each of them would fetch it otherwise.
            for name in dict.fromkeys(cell.config.problem for cell in left.cells):
                data.fetch(name)
        outcomes = sweeping.carry_out(left, out / "cells", args, command)
        found = sweep.collect(out / "cells")
    if args.missing:
        there = args.records / f"{grid.name}.jsonl"
        found = [*(sweep.read_records(there) if there.exists() else []), *found]
    mine = {cell.id for cell in grid.cells}  # the folder may hold cells of earlier, larger grids
    records = list({record["id"]: record for record in found if record["id"] in mine}.values())
    page = _shown(args.what, records, out, command)
    print(sweep.write_records(out / "records.jsonl", records))
    print(page.write(out / "index.html"))
    sweeping.keep(records, args.records)
    return sweeping.verdict(outcomes)


def _tuned(args: argparse.Namespace, budget: str, out: Path) -> dict[str, Any]:
    """The settings that each method's trials found best; `minutes` takes the first of each in place of trials."""
    if budget != "hours":
        return {}
    path, trials = (args.records or Path("results")) / "tuning.jsonl", sweep.get("tuning", budget)
    records = sweep.read_records(path) if path.is_file() else []
    if left := sweep.unrecorded(trials, path):
        command = f"steadygrad sweep tuning --budget {budget}"
        sweeping.carry_out(Grid(trials.name, left), out / "tuning", args, command)
        made = sweep.collect(out / "tuning")
        sweeping.keep(made, args.records)
        records += made
    else:
        print(f"settings are the best of the trials in {path}")
    return {"tuned": comparison.best(records)}


def _grid(args: argparse.Namespace, budget: str, more: dict[str, Any]) -> Grid:
    size = _typed(args, "seeds", "max_updates", "epochs")
    presets = {} if args.preset is None else {"presets": [args.preset]}
    grid = sweep.get(args.what, budget, **size, **more, **presets)
    if args.what == "tasks" and args.preset in (None, "steady"):
        grid += sweep.get("ablation", budget, **size)
    return grid


def _shown(what: str, records: Sequence[Any], out: Path, command: str) -> Page:
    """Print the figure or table in numbers, and what the paper says; return the page."""
    from .. import plotting
    from ..paper import comparison, fig7
    from ..paper.tables import TABLES as PRINTED
    from ..report import pages, tables

    made = {"comparison": tables.comparison, "tasks": tables.tasks, "fig7": tables.success_by_length}
    made |= {"panels": tables.success_by_panel}
    table = tables.figures(PRINTED[what], records) if what in PRINTED else made[what](records)
    print(f"\n{table.plain()}\n")
    written: Sequence[Any] = ()
    if what == "panels":
        written = plotting.save(fig7.draw_panels(records), out / what)
    elif what == "comparison":
        written = plotting.save(comparison.draw(comparison.rows(records)), out / what)
    elif what == "fig7":
        print(f"The paper: {fig7.CLAIM}\n{pages.measured(records)}\n")
        data, about = fig7.data(records), {"title": fig7.TITLE, "claim": fig7.CLAIM, "command": command}
        written = plotting.save_with_data("fig7", data, fig7.draw(data), out, about=about)
    elif what in PRINTED:
        written = [sentence.replace("`", "") for sentence in tables.sentences(PRINTED[what], records)]
    for each in written:
        print(each)
    return pages.of_grid(what, records, command)


def _typed(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Those of the options that were typed."""
    return {name: value for name in names if (value := getattr(args, name)) is not None}


def _left_out(args: argparse.Namespace, names: tuple[str, ...], why: str) -> None:
    options.refuse(_typed(args, *names), (), f"with {args.what}, {why}")


def _command(args: argparse.Namespace, budget: str) -> str:
    """What to type to make the same records, whatever the folder and the engine."""
    sizes = {"budget": budget, **_typed(args, "seeds", "max_updates", "epochs", "preset")}
    return shlex.join(["steadygrad", "reproduce", args.what, *options.words(sizes)])

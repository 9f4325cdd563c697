"""`steadygrad reproduce`: the paper's figures and tables, one command each."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import sweep as sweeping

if TYPE_CHECKING:
    from ..sweep import Grid

DESCRIPTION = "Make a figure or a table of the paper: run what it needs, draw it, and set the paper's claim beside it."
DRAWN = ("fig2", "fig3", "fig4", "fig5", "fig6")
"""Computed at once; the others are sweeps."""
TABLES = ("table1", "table2")
SWEPT = ("fig7", "tasks", *TABLES)
EXAMPLES = """\
examples:
  steadygrad reproduce fig6 --out runs/figures
  steadygrad reproduce fig7 --budget demo
  steadygrad reproduce fig7 --budget hours --seeds 5 --max-updates 200000 --out runs/fig7 --records results
  steadygrad reproduce tasks --budget hours --out runs/tasks --records results
  steadygrad reproduce table1 --budget minutes
  steadygrad reproduce table2 --budget hours --preset paper --epochs 12 --out runs/table2 --records results

budgets, on two cores: demo (fig7 alone) two to three minutes, minutes about ten, hours a night, full the paper's
protocol of 50 seeds and up to 5,000,000 updates, and of the tables 3 seeds. The same command goes on where it stopped.
The tables need music and text: steadygrad data fetch all.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("what", metavar="WHAT", help="fig2, fig3, fig4, fig5, fig6, fig7, tasks, table1 or table2")
    parser.add_argument("--budget", metavar="NAME", help="demo (fig7), minutes, hours or full (minutes)")
    parser.add_argument("--seeds", type=int, metavar="N", help="so many, in place of the budget's")
    parser.add_argument("--max-updates", type=int, metavar="N", help="give up after so many, in place of the budget's")
    parser.add_argument("--epochs", type=int, metavar="N", help="of the tables: stop after so many, likewise")
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help="paper, proceedings, program, steady or fig7 (of the tables paper or steady), in place of the budget's",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where everything goes (runs/WHAT, or runs/WHAT-BUDGET)"
    )
    sweeping.add_engine(parser)


def run(args: argparse.Namespace) -> int:
    """Reproduce."""
    from ..checks import one_of
    from ..paper import style

    one_of("WHAT", args.what, DRAWN + SWEPT)
    if args.what in TABLES:
        _left_out(args, ("max_updates",), "which goes by --epochs")
        return _table(args)
    style.require()
    _left_out(args, ("epochs",), "which has none" if args.what in DRAWN else "which goes by --max-updates")
    if args.what in SWEPT:
        return _fig7(args) if args.what == "fig7" else _tasks(args)
    sizes = ("budget", "seeds", "max_updates", "preset", "address", "workers", "records")
    _left_out(args, sizes, "which is computed at once")
    from ..paper import figures

    for path in figures.reproduce(args.what, args.out or Path("runs") / args.what):
        print(path)
    return 0


def _fig7(args: argparse.Namespace) -> int:
    from .. import sweep
    from ..paper import fig7, figures
    from ..report import pages, tables

    preset = {} if args.preset is None else {"preset": args.preset}
    grid = sweep.get("fig7", args.budget or "minutes", **_size(args), **preset)
    out, command = _out(args), _command(args)
    outcomes = sweeping.carry_out(grid, out / "cells", args, command)
    records = _of(grid, out)
    data = fig7.data(records)
    about = {"title": fig7.TITLE, "claim": fig7.CLAIM, "command": command}
    print(f"\n{tables.success_by_length(records).plain()}\n")
    print(f"The paper: {fig7.CLAIM}\n{pages.measured(records)}\n")
    paths = figures.save("fig7", data, fig7.draw(data), out, about=about)
    paths += [
        sweep.write_records(out / "records.jsonl", records),
        pages.of_fig7(records, command).write(out / "index.html"),
    ]
    for path in paths:
        print(path)
    sweeping.keep(records, args.records)
    return sweeping.verdict(outcomes)


def _tasks(args: argparse.Namespace) -> int:
    from .. import sweep
    from ..report import pages, tables

    budget = args.budget or "minutes"
    presets = {} if args.preset is None else {"presets": [args.preset]}
    grid = sweep.get("tasks", budget, **_size(args), **presets)
    if args.preset in (None, "steady"):
        grid += sweep.get("ablation", budget, **_size(args))
    out, command = _out(args), _command(args)
    outcomes = sweeping.carry_out(grid, out / "cells", args, command)
    records = _of(grid, out)
    print(f"\n{tables.tasks(records).plain()}\n")
    print(sweep.write_records(out / "records.jsonl", records))
    print(pages.of_tasks(records, command).write(out / "index.html"))
    sweeping.keep(records, args.records)
    return sweeping.verdict(outcomes)


def _table(args: argparse.Namespace) -> int:
    from .. import data, sweep
    from ..paper.tables import TABLES as PAPER_TABLES
    from ..report import pages, paper_tables

    table = PAPER_TABLES[args.what]
    presets = {} if args.preset is None else {"presets": [args.preset]}
    grid = sweep.get(args.what, args.budget or "minutes", **_size(args), **presets)
    # Once, before the cells begin: each of them would fetch it otherwise.
    for name in dict.fromkeys(block.problem for block in table.blocks):
        data.fetch(name)
    out, command = _out(args), _command(args)
    outcomes = sweeping.carry_out(grid, out / "cells", args, command)
    records = _of(grid, out)
    print(f"\n{paper_tables.figures(table, records).plain()}\n")
    for sentence in paper_tables.sentences(table, records):
        print(sentence.replace("`", ""))
    print(sweep.write_records(out / "records.jsonl", records))
    print(pages.of_table(table, records, command).write(out / "index.html"))
    sweeping.keep(records, args.records)
    return sweeping.verdict(outcomes)


def _left_out(args: argparse.Namespace, names: tuple[str, ...], why: str) -> None:
    for name in names:
        if getattr(args, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} must be left out with {args.what}, {why}")


def _of(grid: Grid, out: Path) -> list[dict[str, Any]]:
    """The records of this grid alone: the folder may hold cells of earlier, larger ones."""
    from .. import sweep

    mine = {cell.id for cell in grid.cells}
    return [record for record in sweep.collect(out / "cells") if record["id"] in mine]


def _size(args: argparse.Namespace) -> dict[str, Any]:
    given = {"seeds": args.seeds, "max_updates": args.max_updates, "epochs": args.epochs}
    return {name: value for name, value in given.items() if value is not None}


def _out(args: argparse.Namespace) -> Path:
    return args.out or Path("runs") / f"{args.what}-{args.budget or 'minutes'}"


def _command(args: argparse.Namespace) -> str:
    """What to type to make the same records, whatever the folder and the engine."""
    words = ["steadygrad", "reproduce", args.what, "--budget", args.budget or "minutes"]
    for name in ("seeds", "max_updates", "epochs", "preset"):
        if getattr(args, name) is not None:
            words += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    return shlex.join(words)

"""The parts of README.md that are made of records: what stands between `<!-- generated: NAME -->` and `<!-- end -->`.

bench     the speed of a training step
tasks     which of the paper's tasks are solved, with Ω and without
"""

from __future__ import annotations

import re
from pathlib import Path

from steadygrad.paper.tasks_table import Row, rows
from steadygrad.report import speed, tables
from steadygrad.report.table import Table
from steadygrad.sweep.records import read_records

BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
LONGEST = 200
"""The longest sequences of the paper's tasks, and …"""
BEYOND = 400
"""… those to which its models generalise."""
SUCCESS, SEEDS = 0.01, 3
"""What the longest sequences must reach: so few wrong, in so many seeds and in all there are."""


def filled(page: str, folder: Path) -> str:
    """`page` with its parts made anew.

    >>> filled("a\\n<!-- generated: bench -->\\nold\\n<!-- end -->\\n", Path("nowhere"))
    'a\\n<!-- generated: bench -->\\nNot measured yet: `make bench`\\n<!-- end -->\\n'
    """
    parts = {"bench": speed.render(folder), "tasks": tasks(folder)}
    return BLOCK.sub(lambda found: found[1] + parts[found[2]] + found[3], page)


def tasks(folder: Path) -> str:
    """A line for each task under `steady`: solved with Ω and without, the error at 400 steps, the longest sequences.

    >>> tasks(Path("nowhere"))
    'Not run yet: `steadygrad reproduce tasks --budget hours --records results`\\n'
    """
    found = _rows(folder / "tasks.jsonl")
    if not found:
        return "Not run yet: `steadygrad reproduce tasks --budget hours --records results`\n"
    longest = [row for row in _rows(folder / "longest.jsonl") if _is_solved_at_its_longest(row)]
    body = []
    for row in found:
        if row.algorithm != "sgd-cr" or row.length[1] != LONGEST:
            continue
        without = next((str(each.success) for each in found if _is(each, row, "sgd-c")), tables.NOTHING)
        further = max((each.length[1] for each in longest if each.task == row.task), default=None)
        errors = row.errors.get(BEYOND)
        body.append(
            [
                row.task,
                tables.span(row.length),
                str(row.success),
                without,
                tables.NOTHING if row.updates is None else f"{row.updates:,.0f}",
                tables.median_error(errors),
                tables.NOTHING if further is None else f"{further:,}",
            ]
        )
    header = ["task", "steps", "solved", "without Ω", "updates", f"error at {BEYOND}", "longest solved"]
    return Table(header, body, text=2).markdown() + "\n"


def _rows(path: Path) -> list[Row]:
    """The rows of `steady`."""
    return [row for row in rows(read_records(path)) if row.preset == "steady"] if path.is_file() else []


def _is_solved_at_its_longest(row: Row) -> bool:
    """Whether every seed of enough solved it, and errs as little at the longest length alone as it may over all lengths."""
    errors = row.errors.get(row.length[1], [])
    return row.success.solved == row.success.seeds == len(errors) >= SEEDS and max(errors) <= SUCCESS


def _is(row: Row, other: Row, algorithm: str) -> bool:
    """Whether `row` is what `algorithm` made of the other's task."""
    return (row.task, row.length, row.algorithm) == (other.task, other.length, algorithm)

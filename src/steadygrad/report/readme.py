"""The parts of README.md that are made of records: what stands between `<!-- generated: NAME -->` and `<!-- end -->`.

bench     the speed of a training step
tasks     which of the paper's tasks are solved, with Ω and without
tanh      temporal order by the paper's own tanh network, with Ω and without
longest   the longest sequences that were solved, by models of their own
recall    which networks recall the first token after a delay: with Ω, without, and by what people do today
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from steadygrad.paper import recall as study
from steadygrad.paper.tasks_table import Row, rows
from steadygrad.report import results, tables
from steadygrad.report.page import Table

BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
LONGEST, BEYOND = 200, 400  # the longest sequences of the paper's tasks, and those to which its models generalise
SUCCESS, SEEDS = 0.01, 3  # what the longest sequences must reach: so few wrong, in so many seeds and in all there are


def filled(page: str, folder: Path) -> str:
    """`page` with its parts made anew.

    >>> filled("a\\n<!-- generated: bench -->\\nold\\n<!-- end -->\\n", Path("nowhere"))
    'a\\n<!-- generated: bench -->\\nNot measured yet: `make bench`\\n<!-- end -->\\n'
    """
    parts = {"bench": results.speed, "tasks": tasks, "tanh": tanh, "longest": longest, "recall": recall}
    return BLOCK.sub(lambda found: found[1] + parts[found[2]](folder) + found[3], page)


def tasks(folder: Path) -> str:
    """A line for each task under `steady`: solved with Ω and without, the updates, the error at 400 steps.

    >>> tasks(Path("nowhere"))
    'Not run yet: `steadygrad reproduce tasks --budget hours --records results`\\n'
    """
    found = [row for row in rows(results.records(folder, "tasks")) if row.preset == "steady"]
    if not found:
        return results.not_run("reproduce tasks --budget hours")
    body = []
    for row in found:
        if row.algorithm != "sgd-cr" or row.length[1] != LONGEST:
            continue
        other = (row.problem, row.length, "sgd-c")
        same = (each for each in found if (each.problem, each.length, each.algorithm) == other)
        without = next((str(each.success) for each in same), tables.NOTHING)
        updates = tables.NOTHING if row.updates is None else f"{row.updates:,.0f}"
        error = tables.median_error(row.errors.get(BEYOND))
        body.append([row.problem, tables.span(row.length), str(row.success), without, updates, error])
    header = ["task", "steps", "solved", "without Ω", "updates", f"error at {BEYOND}"]
    return Table(header, body, text=2).markdown() + "\n"


def tanh(folder: Path) -> str:
    """Temporal order by the paper's network under `fig7`: the seeds that solve it with Ω and without, and how far it reaches.

    >>> tanh(Path("nowhere"))
    'Not run yet: `steadygrad sweep --problem temporal-order --length 50:200 --preset fig7 --records results`\\n'
    """
    found = [row for row in rows(results.records(folder, "tasks")) if row.preset == "fig7"]
    if not found:
        return results.not_run("sweep --problem temporal-order --length 50:200 --preset fig7")
    body = []
    for row in found:
        updates = f"none in {row.limit:,}" if row.updates is None else f"{row.updates:,.0f}"
        errors = [tables.median_error(row.errors.get(length)) for length in (250, BEYOND)]
        body.append(
            ["clipping and Ω" if row.algorithm == "sgd-cr" else "clipping alone", str(row.success), updates, *errors]
        )
    return Table(["", "solved", "updates", "error at 250", f"error at {BEYOND}"], body).markdown() + "\n"


def longest(folder: Path) -> str:
    """A line for each task: the longest sequences that every seed of a model trained on them solved.

    >>> longest(Path("nowhere"))
    'Not run yet: `steadygrad sweep longest --out runs/longest --records results`\\n'
    """
    found = [row for row in rows(results.records(folder, "longest")) if _is_solved_at_its_longest(row)]
    if not found:
        return results.not_run("sweep longest --out runs/longest")
    body = []
    for task in dict.fromkeys(row.problem for row in found):
        row = max((each for each in found if each.problem == task), key=lambda each: each.length[1])
        worst = tables.percent(max(row.errors[row.length[1]]))
        updates = tables.NOTHING if row.updates is None else f"{row.updates:,.0f}"
        body.append([task, tables.span(row.length), f"{row.length[1]:,}", str(row.success), updates, worst])
    header = ["task", "trained on steps", "longest solved", "seeds", "updates", "worst error there"]
    return Table(header, body, text=2).markdown() + "\n"


def recall(folder: Path) -> str:
    """A line for each network and delay: the seeds that recall the first token, by each method, and the updates it takes.

    >>> recall(Path("nowhere"))
    'Not run yet: `steadygrad sweep recall --budget hours --out runs/recall --records results`\\n'
    """
    records = [record for record in results.records(folder, "recall") if record["problem"] == "recall"]
    if not records:
        return results.not_run("sweep recall --budget hours --out runs/recall")
    table = tables.recall(records)
    return Table(table.header[1:], [row[1:] for row in table.rows], text=1).markdown() + "\n"


def pictures(folder: Path) -> dict[str, Any]:
    """The figures of README that are made of records, by file name."""
    found = study.rows(results.records(folder, "recall"))
    return {"recall.png": study.draw(found)} if found else {}


def _is_solved_at_its_longest(row: Row) -> bool:
    """Whether every seed of enough solved it, and errs as little at the longest length alone as it may over all lengths."""
    errors = row.errors.get(row.length[1], [])
    return (
        row.preset == "steady"
        and row.success.solved == row.success.seeds == len(errors) >= SEEDS
        and max(errors) <= SUCCESS
    )

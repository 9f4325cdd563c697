"""The parts of README.md that are made of records: what stands between `<!-- generated: NAME -->` and `<!-- end -->`. NAME is
bench, the speed of a training step, or one of `PARTS`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from steadygrad.paper import PRINTED, comparison, fig7, reach
from steadygrad.paper import recall as study
from steadygrad.paper.rows import CLAIMS, Row, rows
from steadygrad.report import results, tables
from steadygrad.success import grouped
from steadygrad.table import NOTHING, Table
from steadygrad.wording import percent, span

BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
LONGEST, BEYOND = 200, 400  # the longest sequences of the paper's tasks, and those to which its models generalise
ORDER = "temporal-order"
FINAL: dict[str, str] = PRINTED["final"]  # what the final edition says of a task, where it says more
LASTING = {ORDER: "latch"}  # the settings by which a task's memory lasts; of the others `tanh`
OWN_NETWORK = ("paper", "proceedings", "fig7", "tanh", "latch")  # the settings whose network is the paper's own
SUCCESS, SEEDS = 0.01, 3  # what the longest sequences must reach: so few wrong, in so many seeds and in all there are


def filled(page: str, folder: Path) -> str:
    """`page` with its parts made anew."""
    return BLOCK.sub(lambda found: found[1] + _part(found[2], folder) + found[3], page)


def _part(name: str, folder: Path) -> str:
    if name == "bench":
        return results.speed(folder)
    table, command = PARTS[name]
    made = table(folder)
    return made.markdown() + "\n" if made.rows else results.not_run(command)


def tasks(folder: Path) -> Table:
    """A line for each task under `steady`: solved with Ω and without, the updates, the error at 400 steps."""
    found = [row for row in rows(results.records(folder, "tasks")) if row.preset == "steady"]
    without = {(row.problem, row.length): str(row.success) for row in found if row.algorithm == "sgd-c"}
    body = []
    for row in found:
        if row.algorithm == "sgd-cr" and row.length[1] == LONGEST:
            beside, error = without.get((row.problem, row.length)), tables.median_error(row.errors.get(BEYOND))
            solved = str(row.success), beside or NOTHING
            body.append([row.problem, span(row.length), *solved, _updates(row), error])
    return Table(["task", "steps", "solved", "without Ω", "updates", f"error at {BEYOND}"], body, text=2)


def claims(folder: Path) -> Table:
    """A line for each task by the paper's network: what the paper says; solved with Ω and without; how far it reaches."""
    found = [row for row in rows(results.records(folder, "claims")) if row.preset == LASTING.get(row.problem, "tanh")]
    without = {(row.problem, row.length): str(row.success) for row in found if row.algorithm == "sgd-c"}
    body = []
    for row in found:
        if row.algorithm == "sgd-cr":
            printed = f"{FINAL[row.problem]} (final)" if row.problem in FINAL else f"{CLAIMS[row.problem]} (arXiv)"
            solved = str(row.success), without.get((row.problem, row.length), NOTHING), _updates(row)
            errors = (tables.median_error(row.errors.get(length)) for length in (BEYOND, 500, 5000))
            body.append([row.problem, printed, f"`{row.preset}`", span(row.length), *solved, *errors])
    header = ["task", "the paper says", "settings", "steps", "with Ω", "without", "updates"]
    return Table([*header, f"error at {BEYOND}", "at 500", "at 5,000"], body, text=4)


def tanh(folder: Path) -> Table:
    """Temporal order by the paper's network: the seeds that solve it with Ω, without, and without clipping; its reach."""
    methods = {"sgd-cr": "clipping and Ω", "sgd-c": "clipping alone", "sgd-r": "Ω alone"}
    body = []
    for row in rows(results.records(folder, "claims")):
        if row.problem == ORDER and row.preset in OWN_NETWORK and row.length[1] == LONGEST and row.algorithm in methods:
            solved = [str(row.within), str(row.success), _updates(row, f"none in {row.limit:,}")]
            errors = (tables.median_error(row.errors.get(length)) for length in (BEYOND, 5000))
            body.append([f"`{row.preset}`", methods[row.algorithm], *solved, *errors])
    header = ["settings", "", "at most 1 % wrong", "solved", "updates", f"error at {BEYOND}", "error at 5,000"]
    return Table(header, body, text=2)


def longest(folder: Path) -> Table:
    """A line for each task: the longest sequences that every seed of a model trained on them solved."""
    found = grouped(
        filter(_is_solved_at_its_longest, rows(results.records(folder, "longest"))), lambda row: row.problem
    )
    body = []
    for task, each in found.items():
        row = max(each, key=lambda row: row.length[1])
        worst = percent(max(row.errors[row.length[1]]))
        body.append([task, span(row.length), f"{row.length[1]:,}", str(row.success), _updates(row), worst])
    header = ["task", "trained on steps", "longest solved", "seeds", "updates", "worst error there"]
    return Table(header, body, text=2)


def recall(folder: Path) -> Table:
    """A line for each network and delay: the seeds that recall the first token, by each method, and the updates it takes."""
    table = tables.recall([record for record in results.records(folder, "recall") if record["problem"] == "recall"])
    return Table(table.header[1:], [row[1:] for row in table.rows], text=1)


# By name: what makes the table, and the command that makes its records.
PARTS = {
    "tasks": (tasks, "reproduce tasks --budget hours"),
    "claims": (claims, "sweep claims --budget hours --out runs/claims"),
    "tanh": (tanh, "sweep claims --budget hours --out runs/claims"),
    "longest": (longest, "sweep longest --out runs/longest"),
    "recall": (recall, "sweep recall --budget hours --out runs/recall"),
}


def _updates(row: Row, none: str = NOTHING) -> str:
    return none if row.updates is None else f"{row.updates:,.0f}"


def pictures(folder: Path) -> dict[str, Any]:
    """The figures of README and RESULTS.md that are made of records, by file name; those without records are left out."""
    made = {
        "recall.png": (study.draw, study.rows(results.records(folder, "recall"))),
        "fig7.png": (lambda found: fig7.draw(fig7.data(found)), results.records(folder, "fig7")),
        "panels.png": (fig7.draw_panels, results.records(folder, "panels")),
        "reach.png": (reach.draw, reach.curves(results.records(folder, "claims"), "proceedings")),
        "comparison.png": (comparison.draw, comparison.rows(results.records(folder, "comparison"))),
    }
    return {name: draw(found) for name, (draw, found) in made.items() if found}


def _is_solved_at_its_longest(row: Row) -> bool:
    """Whether every seed of enough solved it, and errs as little at the longest length alone as it may over all lengths."""
    errors = row.errors.get(row.length[1], [])
    solved = row.success.solved == row.success.seeds == len(errors) >= SEEDS
    return solved and row.preset == "steady" and max(errors) <= SUCCESS

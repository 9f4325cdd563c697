"""Tables 1 and 2 as tables and sentences: the paper's figure beside ours, and whether its order holds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from steadygrad.paper.tables import ALGORITHMS, FOLDS, TOLD_APART, Found, PaperTable, Record, Row, rows
from steadygrad.report.tables import Table

NOTHING = "–"


def figures(table: PaperTable, records: Sequence[Record]) -> Table:
    """A row for each block, preset and fold; ours and the paper's figure for each algorithm.

    Args:
        table: of `paper.tables.TABLES`.
        records: of `steadygrad.sweep.collect`.
    """
    body = []
    for row in rows(table, records):
        for fold in FOLDS:
            cells: list[str] = []
            for algorithm in ALGORITHMS:
                printed = row.printed.figure(algorithm, fold)
                cells += [figure(row.found[algorithm], fold), NOTHING if printed is None else f"{printed:.2f}"]
            body.append([row.printed.label, row.preset, fold, *cells])
    header = [entry for name in ALGORITHMS.values() for entry in (name, "paper")]
    return Table(["", "settings", "fold", *header], body, text=3)


def runs(table: PaperTable, records: Sequence[Record]) -> Table:
    """What it took: seeds, epochs and minutes of every algorithm, block and preset."""
    body = []
    for row in rows(table, records):
        for algorithm, name in ALGORITHMS.items():
            found = row.found[algorithm]
            if not found.records:
                continue
            results = [record["result"] for record in found.records]
            seeds = ", ".join(str(seed) for seed in sorted(record["seed"] for record in found.records))
            best, all_epochs = (mean(result[key] for result in results) for key in ("best_epoch", "epochs"))
            # Why a run diverged is in its record.
            ended = ", ".join(sorted({result["reason"].partition(":")[0] for result in results}))
            epochs = [f"{best:.0f}", f"{all_epochs:.0f}", f"{found.minutes:.1f}"]
            body.append([row.printed.label, row.preset, name, ended, seeds, *epochs])
    return Table(["", "settings", "algorithm", "ended by", "seeds", "best epoch", "epochs", "minutes"], body, text=4)


def figure(found: Found, fold: str) -> str:
    """The figure of the seed that was best on validation, and the range of all seeds where there are several.

    >>> seeds = [{"result": {"test": value}} for value in (3.46, 3.52, 3.44)]
    >>> figure(Found(tuple(seeds)), "test"), figure(Found(()), "test")
    ('3.46 (3.44–3.52)', '–')
    """
    chosen, each = found.figure(fold), found.all(fold)
    if chosen is None:
        return NOTHING
    return f"{chosen:.2f}" if len(each) == 1 else f"{chosen:.2f} ({min(each):.2f}–{max(each):.2f})"


def sentences(table: PaperTable, records: Sequence[Record]) -> list[str]:
    """For each block and preset: whether the order SGD > SGD+C > SGD+CR holds, and how far it is from the paper."""
    return [f"{row.printed.label}, `{row.preset}`: {_order(row)}{_against(row)}" for row in rows(table, records)]


def _order(row: Row) -> str:
    tested = {name: row.found[algorithm].figure("test") for algorithm, name in ALGORITHMS.items()}
    missing = [name for name, value in tested.items() if value is None]
    if missing:
        return f"the order SGD > SGD+C > SGD+CR can't be told without {' and '.join(missing)}."
    values = ", ".join(f"{name} {value:.3f}" for name, value in tested.items())
    seeds = row.order_by_seed
    count = f"; seed by seed in {sum(seeds)} of {len(seeds)}" if len(seeds) > 1 else ""
    verb = "holds" if row.order else "does not hold"
    alike = "".join(f"; {one} and {two} are within {TOLD_APART} of each other" for one, two in row.alike)
    return f"the order SGD > SGD+C > SGD+CR {verb} on the test split ({values}{alike}{count})."


def _against(row: Row) -> str:
    parts: list[str] = []
    for algorithm, name in ALGORITHMS.items():
        ours, printed = row.found[algorithm].figure("test"), row.printed.figure(algorithm, "test")
        if ours is not None and printed is not None:
            parts.append(f"{name} {100 * (ours / printed - 1):+.1f} %".replace("-", "−"))
    return f" Against the paper's test figures: {', '.join(parts)}." if parts else ""


def failures(records: Sequence[Record]) -> list[str]:
    """One sentence for each run without a figure."""
    said: list[str] = []
    for record in records:
        result: Any = record["result"]
        if result is None:
            said.append(f"{record['id']} failed: {record['failed']}.")
        elif "test" in result and result["test"] is None:
            said.append(f"{record['id']} has no figure: {result['reason']}.")
    return said

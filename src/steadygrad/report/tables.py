"""Records as tables: the success of Fig. 7, the tasks, the longest sequences, and plainly every cell.

A table is ready-made text: as Markdown, as HTML, or in columns for a terminal.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from steadygrad.experiments.problem import title
from steadygrad.paper import fig7
from steadygrad.paper.tasks_table import CLAIMS, Row, rows


@dataclass(frozen=True)
class Table:
    """A table of ready-made text.

    Args:
        header: the names of the columns.
        rows: as many entries each as there are columns.
        text: how many columns from the left hold words; the others are numbers, set to the right.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: int = 1

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"a table's row must have {len(self.header)} entries, not {len(row)}: {list(row)}")

    def markdown(self) -> str:
        """As GitHub's Markdown.

        >>> print(Table(["task", "solved"], [["addition", "5/5"]]).markdown())
        | task | solved |
        |---|--:|
        | addition | 5/5 |
        """
        rule = ["---" if column < self.text else "--:" for column in range(len(self.header))]
        lines = [self.header, *self.rows]
        body = ["| " + " | ".join(entry.replace("|", "\\|") for entry in line) + " |" for line in lines]
        return "\n".join([body[0], "|" + "|".join(rule) + "|", *body[1:]])

    def plain(self) -> str:
        """In columns, for a terminal."""
        lines = [list(self.header), *map(list, self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        rows = (
            "  ".join(
                entry.ljust(width) if column < self.text else entry.rjust(width)
                for column, (entry, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )
        return "\n".join(rows)

    def html(self, links: Mapping[str, str] | None = None) -> str:
        """As an HTML table that scrolls sideways where the page is narrow; `links` are those of entries in the first column."""
        head = "".join(f'<th scope="col"{self._kind(i)}>{html.escape(name)}</th>' for i, name in enumerate(self.header))
        body = "\n".join(
            "<tr>"
            + "".join(f"<td{self._kind(i)}>{_entry(i, text, links or {})}</td>" for i, text in enumerate(row))
            + "</tr>"
            for row in self.rows
        )
        return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'

    def _kind(self, column: int) -> str:
        return ' class="text"' if column < self.text else ""


def _entry(column: int, text: str, links: Mapping[str, str]) -> str:
    shown = html.escape(text)
    return f'<a href="{html.escape(links[text])}">{shown}</a>' if column == 0 and text in links else shown


Record = Mapping[str, Any]
NOTHING = "–"


def success_by_length(records: Sequence[Record]) -> Table:
    """Fig. 7 in numbers: k/n and Wilson's interval, a row for each algorithm, a column for each length."""
    data = fig7.data(records)
    body = []
    for row, algorithm in enumerate(fig7.ALGORITHMS):
        cells = zip(*(np.asarray(data[key])[row] for key in ("solved", "seeds", "low", "high")), strict=True)
        body.append([fig7.LOOKS[algorithm][0], *(_rate(*cell) for cell in cells)])
    return Table(["algorithm", *(f"T = {length}" for length in np.asarray(data["lengths"]))], body)


def tasks(records: Sequence[Record], tested: Sequence[int] = (250, 300, 400)) -> Table:
    """Each task under each preset: solved, updates, minutes, errors beyond, and what the paper says.

    Args:
        records: of the grids `tasks` and `ablation`.
        tested: the lengths whose errors have a column.
    """
    header = ["task", "lengths", "settings", "solved", "updates", "minutes", *(f"error at {T}" for T in tested)]
    body, claims = [], []
    for row in rows(records):
        claims.append(CLAIMS.get(row.problem, "") if (row.preset, row.algorithm) == ("paper", "sgd-cr") else "")
        body.append([*_what(row), *_how(row), *(_errors(row.errors.get(T)) for T in tested)])
    if any(claims):
        header.append("the paper says")
        body = [[*row, claim] for row, claim in zip(body, claims, strict=True)]
    return Table(header, body, text=3)


def longest(records: Sequence[Record]) -> Table:
    """How long a sequence was learnt: the error at the longest length trained on, and at twice that."""
    body = []
    for row in rows(records):
        high = row.length[1]
        errors = (_errors(row.errors.get(length)) for length in (high, 2 * high))
        body.append([*_what(row), percent(row.allowed), *_how(row), *errors])
    found = ["solved", "updates", "minutes", "error at the longest", "at twice that"]
    header = ["task", "lengths", "settings", "may be wrong", *found]
    return Table(header, body, text=3)


def cells(records: Sequence[Record]) -> Table:
    """Every cell of a sweep: its result, or why it has none. Columns that no cell fills are left out."""
    tested = sorted({int(length) for record in records for length in record.get("generalisation", {})})
    columns: dict[str, Callable[[Any, Any], str | None]] = {
        "updates": lambda result, _: f"{result['updates']:,}",
        "minutes": lambda result, _: minutes(result["seconds"]),
        "wrong": lambda result, _: percent(result["error"]) if "error" in result else None,
        **{f"at {T}": _error_at(T) for T in tested},
        **{split: _score_of(split) for split in ("train", "valid", "test")},
        "best epoch": lambda result, _: str(result["best_epoch"]) if "best_epoch" in result else None,
        "epochs": lambda result, _: str(result["epochs"]) if "epochs" in result else None,
    }
    filled = [[None if r["result"] is None else make(r["result"], r) for make in columns.values()] for r in records]
    used = [n for n in range(len(columns)) if any(row[n] is not None for row in filled)]
    body = []
    for record, row in zip(records, filled, strict=True):
        body.append([record["id"], _ended(record), *(row[n] or NOTHING for n in used)])
    return Table(["cell", "verdict", *(list(columns)[n] for n in used)], body, text=2)


def _ended(record: Record) -> str:
    result = record["result"]
    if result is None:
        return f"failed: {record['failed']}"
    if "solved" not in result:
        return f"ended by {result['reason']}"
    return "solved" if result["solved"] else f"not solved: {result['reason']}"


def _error_at(length: int) -> Callable[[Any, Any], str | None]:
    def made(result: Any, record: Any) -> str | None:
        beyond = record.get("generalisation", {})
        return percent(beyond[str(length)]) if str(length) in beyond else None

    return made


def _score_of(split: str) -> Callable[[Any, Any], str | None]:
    return lambda result, _: None if result.get(split) is None else f"{result[split]:.3f}"


def common(records: Sequence[Record]) -> str:
    """The settings that all records share, besides what a run has by default.

    >>> common([{"config": {"lr": 0.003, "alpha": 8.0}}, {"config": {"lr": 0.003}}])
    'lr 0.003'
    """
    first, *others = (record["config"] for record in records)
    shared = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    return ", ".join(
        f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}" for key, value in shared.items()
    )


def percent(share: float) -> str:
    """A share of 10,000 sequences, with as many digits as that gives.

    >>> percent(0.0003), percent(0.758), percent(0.0)
    ('0.03 %', '75.8 %', '0 %')
    """
    if share == 0:
        return "0 %"
    return f"{100 * share:.2f} %" if share < 0.1 else f"{100 * share:.1f} %"


def minutes(seconds: float) -> str:
    """Seconds as minutes, to two digits.

    >>> minutes(4), minutes(90), minutes(1234)
    ('0.067', '1.5', '21')
    """
    return f"{seconds / 60:.2g}" if seconds < 600 else f"{seconds / 60:,.0f}"


def median_error(errors: Sequence[float] | None) -> str:
    """The median of some shares, if there are any.

    >>> median_error([0.0, 0.01, 0.2]), median_error(None)
    ('1.00 %', '–')
    """
    return percent(median(errors)) if errors else NOTHING


def span(length: Sequence[int]) -> str:
    """A range of lengths.

    >>> span((50, 200)), span((50, 50))
    ('50–200', '50')
    """
    low, high = length
    return f"{low}" if low == high else f"{low}–{high}"


def _rate(solved: int, seeds: int, low: float, high: float) -> str:
    return f"{solved}/{seeds} ({100 * low:.0f}–{100 * high:.0f} %)" if seeds else NOTHING


def _what(row: Row) -> list[str]:
    return [title(row.problem), span(row.length), row.label]


def _how(row: Row) -> list[str]:
    solved = str(row.success) + (f" ({row.failed} failed)" if row.failed else "")
    if row.updates is None or row.minutes is None:
        return [solved, f"> {row.limit:,}" if row.limit else NOTHING, NOTHING]
    return [solved, f"{row.updates:,.0f}", minutes(60 * row.minutes)]


def _errors(errors: Sequence[float] | None) -> str:
    """The median, and the worst where it is another."""
    middle = median_error(errors)
    return middle if not errors or middle == percent(max(errors)) else f"{middle} (worst {percent(max(errors))})"

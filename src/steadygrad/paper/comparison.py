"""The earlier solutions that section 3.1 discusses, beside clipping and Ω: same problems, seeds and seconds of one core.

    k of n seeds solved it, for each method and problem; updates, minutes until success and the error's horizon are medians

The paper argues about these methods and does not run them. The runs are cells of a sweep (sweep/comparison.py), each method
with the best of eight trials.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steadygrad import plotting
from steadygrad.success import SuccessRate, grouped, until_success
from steadygrad.sweep.comparison import METHODS

TITLE = "The earlier solutions beside clipping and Ω"
CLAIM = (
    "L1 and L2 penalties keep gradients from exploding at the price of a memory that dies out exponentially; clipping does not "
    "help with vanishing gradients; LSTM and Hessian-free with structural damping do (section 3.1); SGD-CR solves temporal "
    "order at lengths of 50 to 200 in all runs (section 4.1)."
)


@dataclass(frozen=True)
class Row:
    """The seeds of one method on one problem."""

    method: str
    problem: str
    length: int
    success: SuccessRate
    updates: float | None  # medians until success; None where no seed succeeded
    minutes: float | None
    error: float  # the median share of wrong answers at the end
    horizon: float  # the median of how many steps back the error came at the last test; 0 where none is sent back


def rows(records: Iterable[Mapping[str, Any]]) -> list[Row]:
    """One for each method and problem, in the order of `METHODS`; cells that failed are left out."""
    ended = (record for record in records if record.get("result") and record["preset"] in METHODS)
    found: dict[tuple[str, str, int], list[Any]] = grouped(
        ended, lambda record: (record["preset"], record["problem"], record["length"][1])
    )
    order, made = list(METHODS), list[Row]()
    for place in sorted(found, key=lambda place: (order.index(place[0]), *_rank(place[1:]))):
        results = [record["result"] for record in found[place]]
        error = statistics.median(result["error"] for result in results)
        horizon = statistics.median(result.get("horizon") or 0 for result in results)
        made.append(Row(*place, *until_success(results), error, horizon))
    return made


def columns(found: Sequence[Row]) -> list[tuple[str, int]]:
    """Problems and lengths, temporal order first."""
    return sorted({(row.problem, row.length) for row in found}, key=_rank)


def _rank(column: tuple[str, int]) -> tuple[bool, str, int]:
    return column[0] != "temporal-order", *column


def draw(found: Sequence[Row]) -> plotting.Figure:
    """The share of seeds that solve it, a line for each method and a column for each problem, with the minutes it took."""
    across = columns(found)
    down = [name for name in METHODS if any(row.method == name for row in found)]
    with plotting.drawing(2.4 + 1.1 * len(across), 0.8 + 0.27 * len(down)) as figure:
        axes = figure.subplots()
        share = np.full((len(down), len(across)), np.nan)
        for row in found:
            line, column = down.index(row.method), across.index((row.problem, row.length))
            share[line, column] = row.success.rate or 0.0
            text = f"{row.success}" + ("" if row.minutes is None else f"  {row.minutes:.2g} min")
            axes.text(column, line, text, ha="center", va="center", fontsize=8, color=plotting.BLACK)
        axes.imshow(share, cmap="Blues", vmin=0, vmax=1.8, aspect="auto")  # so that the text stays legible
        axes.set_xticks(range(len(across)), [f"{problem}\n{length} steps" for problem, length in across])
        axes.set_yticks(range(len(down)), [METHODS[name].label for name in down])
        axes.tick_params(length=0, top=False)
        axes.spines[:].set_visible(False)
    return figure

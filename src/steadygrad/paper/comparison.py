"""The earlier solutions that section 3.1 discusses, beside clipping and Ω: same problems, seeds and seconds of one core.

    k of n seeds solved it, for each method and problem; updates, minutes until success and the error's horizon are medians

The paper argues about these methods and does not run them. The runs are cells of a sweep (sweep/comparison.py), each method
with the best of eight trials.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from steadygrad import plotting
from steadygrad.paper import PRINTED
from steadygrad.paper import rows as table
from steadygrad.paper.rows import Record, Row
from steadygrad.sweep.comparison import METHODS

TITLE, CLAIM = PRINTED["comparison"]["title"], PRINTED["comparison"]["claim"]


def rows(records: Iterable[Record]) -> list[Row]:
    """One for each method and problem, in the order of `METHODS`; cells that failed are left out."""
    order = list(METHODS)
    found = table.rows(record for record in records if record.get("result") and record["preset"] in order)
    return sorted(found, key=lambda row: (order.index(row.preset), *_rank((row.problem, row.length[1]))))


def columns(found: Sequence[Row]) -> list[tuple[str, int]]:
    """Problems and lengths, temporal order first."""
    return sorted({(row.problem, row.length[1]) for row in found}, key=_rank)


def _rank(column: tuple[str, int]) -> tuple[bool, str, int]:
    return column[0] != "temporal-order", *column


def draw(found: Sequence[Row]) -> plotting.Figure:
    """The share of seeds that solve it, a line for each method and a column for each problem, with the minutes it took."""
    across = columns(found)
    down = [name for name in METHODS if any(row.preset == name for row in found)]
    with plotting.drawing(2.4 + 1.1 * len(across), 0.8 + 0.27 * len(down)) as figure:
        axes = figure.subplots()
        share = np.full((len(down), len(across)), np.nan)
        for row in found:
            line, column = down.index(row.preset), across.index((row.problem, row.length[1]))
            share[line, column] = row.success.rate or 0.0
            text = f"{row.success}" + ("" if row.minutes is None else f"  {row.minutes:.2g} min")
            axes.text(column, line, text, ha="center", va="center", fontsize=8, color=plotting.BLACK)
        axes.imshow(share, cmap="Blues", vmin=0, vmax=1.8, aspect="auto")  # so that the text stays legible
        axes.set_xticks(range(len(across)), [f"{problem}\n{length} steps" for problem, length in across])
        axes.set_yticks(range(len(down)), [METHODS[name].label for name in down])
        axes.tick_params(length=0, top=False)
        axes.spines[:].set_visible(False)
    return figure

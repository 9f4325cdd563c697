"""Fig. 7: the rate of success on the temporal order task against the length of the sequences.

    k of n seeds solved it, for each algorithm (SGD, SGD-C, SGD-CR) and length T, a model of its own for each T
    rate = k / n, with Wilson's 95 % interval                    (`steadygrad.success`)

A seed counts as solved when at most 1 % of 10,000 fresh sequences are wrong (Pascanu et al. 2013, supplement).
The final edition has three panels, one for each initialisation. The runs are cells of the grids `fig7` and `panels`
(sweep/named.py); this module turns their records into the figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from steadygrad import plotting
from steadygrad.experiments.config import default
from steadygrad.paper import PRINTED, FigureData
from steadygrad.success import SuccessRate, grouped

TITLE, CLAIM = PRINTED["fig7"]["title"], PRINTED["fig7"]["claim"]
LOOKS = {
    "sgd": ("SGD", plotting.GREY, "s", ":"),
    "sgd-c": ("SGD-C (clipping)", plotting.ORANGE, "D", "--"),
    "sgd-cr": ("SGD-CR (clipping and Ω)", plotting.BLUE, "o", "-"),
}
ALGORITHMS = tuple(LOOKS)
BEYOND = 20  # the length beyond which, the paper says, SGD and SGD-C fail


def panels(records: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The records of each panel, by its name: the settings and, of `proceedings`, the initialisation.

    >>> found = panels([{"preset": "proceedings", "config": {"init": "sigmoid"}}, {"preset": "fig7", "config": {}}])
    >>> list(found)
    ['fig7', 'proceedings, sigmoid']
    """

    def name(record: Mapping[str, Any]) -> str:
        initial = record.get("config", {}).get("init", default("init"))
        return f"proceedings, {initial}" if record["preset"] == "proceedings" else record["preset"]

    return dict(sorted(grouped(records, name).items()))


def data(records: Iterable[Mapping[str, Any]]) -> FigureData:
    """The counts of every algorithm and length, and their intervals.

    Records without a result, of other tasks or of a range of lengths are left out.

    Returns:
        `lengths` [L]; `solved`, `seeds` [3, L] (rows in the order of ALGORITHMS); `rate`, `low`, `high` [3, L], NaN
        where nothing was run.

    >>> one = {"problem": "temporal-order", "length": [50, 50], "algorithm": "sgd-cr", "result": {"solved": True}}
    >>> small = data([one])
    >>> small["lengths"].tolist(), small["solved"].tolist()
    ([50], [[0], [0], [1]])
    """
    ended = (r for r in records if r.get("result") and r["problem"] == "temporal-order" and len({*r["length"]}) == 1)
    found = grouped(ended, lambda record: (record["algorithm"], record["length"][0]))
    lengths = sorted({length for algorithm, length in found if algorithm in ALGORITHMS})
    rates = [
        SuccessRate.of(each["result"]["solved"] for each in found.get((algorithm, length), ()))
        for algorithm in ALGORITHMS
        for length in lengths
    ]
    ends = [rate.interval if rate.seeds else (None, None) for rate in rates]

    def table(entries: Iterable[Any], kind: type = float) -> Any:
        return np.array(list(entries), dtype=kind).reshape(len(ALGORITHMS), len(lengths))  # None becomes NaN

    return {
        "lengths": np.array(lengths, dtype=int),
        "solved": table((rate.solved for rate in rates), int),
        "seeds": table((rate.seeds for rate in rates), int),
        "rate": table(rate.rate for rate in rates),
        **{name: table(end[number] for end in ends) for number, name in enumerate(("low", "high"))},
    }


def draw(data: FigureData) -> plotting.Figure:
    """The rate against the length on a log axis, with its interval; below it, how many seeds of how many."""
    with plotting.drawing(6.8, 4.4) as figure:
        axes, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.0, 0.2))
        _panel(axes, below, data)
        papers, *ours = axes.get_legend_handles_labels()[0]
        axes.legend(handles=[*ours, papers], loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure


def draw_panels(records: Iterable[Mapping[str, Any]]) -> plotting.Figure:
    """The panels of the final edition side by side, as `draw` does each."""
    found = panels(records)
    with plotting.drawing(1.2 + 3.4 * len(found), 3.6) as figure:
        grid = figure.subplots(2, len(found), sharex=True, sharey="row", height_ratios=(1.0, 0.25), squeeze=False)
        for axes, below, (name, mine) in zip(*grid, found.items(), strict=True):
            _panel(axes, below, data(mine))
            axes.set_title(name.partition(", ")[2].replace("_", " ") or name)
            axes.set_ylabel(axes.get_ylabel() if axes is grid[0, 0] else "")
        papers, *ours = grid[0, 0].get_legend_handles_labels()[0]
        figure.legend(handles=[*ours, papers], loc="outside upper center", ncols=4 if len(found) > 1 else 2)
    return figure


def _panel(axes: plotting.Axes, below: plotting.Axes, data: FigureData) -> None:
    lengths = data["lengths"].astype(float)
    claim = f"the paper: beyond {BEYOND} steps SGD-CR alone"
    axes.axvspan(1.12 * BEYOND, 1e9, color="#EFEFEC", zorder=0, linewidth=0, label=claim)
    for row in range(len(ALGORITHMS)):
        one = {key: value[row] for key, value in data.items() if key != "lengths"}
        _series(axes, lengths, one, row)
        _counts(below, lengths, one, row)
    if len(lengths):
        plotting.logarithmic_ticks(axes, lengths)
        axes.set_xlim(lengths.min() / 1.2, lengths.max() * 1.2)
    axes.set(xlabel="sequence length $T$ (log scale)", ylabel="seeds that solve the task")
    plotting.shares(axes, np.linspace(0, 1, 5))
    axes.tick_params(labelbottom=True)
    plotting.horizontal_lines(axes)


def _series(axes: plotting.Axes, lengths: Any, one: Mapping[str, Any], row: int) -> None:
    label, color, marker, line = LOOKS[ALGORITHMS[row]]
    run = one["seeds"] > 0
    # Side by side: at 0 % two algorithms would otherwise hide each other.
    x = (lengths * 1.05 ** (row - 1))[run]
    rate, low, high = (one[key][run] for key in ("rate", "low", "high"))
    reach = np.maximum(np.stack([rate - low, high - rate]), 0.0)
    axes.errorbar(x, rate, reach, fmt="none", ecolor=color, elinewidth=1.3, capsize=3, alpha=0.6, zorder=2)
    axes.plot(x, rate, color=color, marker=marker, linestyle=line, markersize=6, label=label, zorder=3 + row)


def _counts(axes: plotting.Axes, lengths: Any, one: Mapping[str, Any], row: int) -> None:
    label, color, _, _ = LOOKS[ALGORITHMS[row]]
    axes.set_axis_off()
    axes.set_ylim(len(ALGORITHMS) - 0.5, -0.5)
    left = {"transform": axes.get_yaxis_transform(), "ha": "right", "va": "center"}
    axes.text(-0.01, row, label.split(" ")[0], **left, color=color, weight="bold")
    for length, solved, seeds in zip(lengths, one["solved"], one["seeds"], strict=True):
        axes.text(length, row, f"{solved}/{seeds}" if seeds else "–", ha="center", va="center", fontsize=8)

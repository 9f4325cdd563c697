"""Ω for gated cells: the first token recalled after a delay, with Ω, without, and by what people do today for the same purpose.

    k of n seeds solved it, for each network (rnn, gru, lstm), delay and method; rate = k / n

    Ω            α = 1, from torch's own initial weights
    none         the same without Ω
    remember     the forget gate's bias begins at 1                               (Jozefowicz et al. 2015)
    chrono       the gates' biases begin at log U(1, told − 1): told the delay, or a tenth of it   (Tallec & Ollivier 2018)

This is not in the paper, which has Ω for plain networks. The runs are cells of a sweep (`steadygrad sweep recall`).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from steadygrad import plotting
from steadygrad.success import SuccessRate, grouped, until_success

TITLE = "Recall of the first token against the delay"
NETWORKS = {"rnn": "RNN", "gru": "GRU", "lstm": "LSTM"}
METHODS = {
    "omega": "Ω, α = 1",
    "omega-chosen": "Ω, α chosen for it",
    "none": "nothing added",
    "remember": "forget bias 1",
    "chrono": "chrono, told the delay",
    "chrono-tenth": "chrono, told a tenth of it",
    "chrono-tenth-omega": "chrono, told a tenth, and Ω",
}


@dataclass(frozen=True)
class Row:
    """The seeds of one problem, network, delay and method."""

    problem: str
    network: str
    delay: int
    method: str
    success: SuccessRate
    updates: float | None  # the median until success; None where no seed succeeded
    error: float  # the median share of wrong answers at the end


def method(record: Mapping[str, Any]) -> str:
    """Which of METHODS a record was made by.

    >>> method({"length": [200, 200], "algorithm": "sgd-cr", "config": {"init": "chrono", "longest": 20, "alpha": 1}})
    'chrono-tenth-omega'
    >>> method({"length": [200, 200], "algorithm": "sgd-c", "config": {"init": "chrono", "longest": 200}})
    'chrono'
    """
    config, delay = record["config"], record["length"][1]
    parts = [config["init"]] if config.get("init") in ("remember", "chrono") else []
    if parts == ["chrono"] and config["longest"] != delay:
        parts.append("tenth" if 10 * config["longest"] == delay else f"{config['longest']}")
    if record["algorithm"] == "sgd-cr":
        parts += ["omega"] if config.get("alpha", 1.0) == 1.0 else ["omega", "chosen"]
    return "-".join(parts) or "none"


def rows(records: Iterable[Mapping[str, Any]]) -> list[Row]:
    """One for each problem (recall first), network, delay and method, in this order."""
    order = list(METHODS)

    def place(record: Mapping[str, Any]) -> tuple[str, str, int, str]:
        return record["problem"], record["config"].get("network", "rnn"), record["length"][1], method(record)

    def rank(place: tuple[str, str, int, str]) -> tuple[bool, str, int, int, int]:
        problem, network, delay, how = place
        last = order.index(how) if how in order else len(order)
        return problem != "recall", problem, list(NETWORKS).index(network), delay, last

    ended = (record for record in records if record.get("result"))
    found: dict[tuple[str, str, int, str], list[Any]] = grouped(ended, place)
    made = list[Row]()
    for at in sorted(found, key=rank):
        results = [record["result"] for record in found[at]]
        success, updates, _ = until_success(results)
        made.append(Row(*at, success, updates, statistics.median(result["error"] for result in results)))
    return made


def draw(found: Iterable[Row]) -> plotting.Figure:
    """The share of seeds that succeed against the delay, with Ω and without, a panel for each network."""
    found = [row for row in found if row.problem == "recall"]
    names = [name for name in NETWORKS if any(row.network == name for row in found)]
    with plotting.drawing(2.3 * len(names) + 0.6, 2.7) as figure:
        panels = np.atleast_1d(figure.subplots(1, len(names), sharex=True, sharey=True))
        for axes, name in zip(panels, names, strict=True):
            _panel(axes, [row for row in found if row.network == name], sorted({row.delay for row in found}))
            axes.set_title(NETWORKS[name])
        panels[0].set_ylabel("seeds that solve it")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2)
    return figure


def _panel(axes: plotting.Axes, found: list[Row], ticks: list[int]) -> None:
    named: set[tuple[int, float]] = set()  # points that have their numbers already
    for name, label, color, marker, line in (
        ("omega", "with Ω", plotting.BLUE, "o", "-"),
        ("none", "without Ω", plotting.ORANGE, "D", "--"),
    ):
        by_delay = {row.delay: row for row in found if row.method == name}
        by_delay |= {row.delay: row for row in found if row.method == f"{name}-chosen"}
        chosen = [by_delay[delay] for delay in sorted(by_delay)]
        delays = [row.delay for row in chosen]
        rates = [row.success.rate or 0.0 for row in chosen]
        axes.plot(delays, rates, color=color, marker=marker, linestyle=line, label=label, clip_on=False, zorder=3)
        for row in chosen:
            point = row.delay, row.success.rate or 0.0
            above, gap = point[1] < 0.5, 18 if point in named else 6
            named.add(point)
            looks = {"ha": "center", "va": "bottom" if above else "top", "fontsize": 8, "color": color}
            off = {"xytext": (0, gap if above else -gap), "textcoords": "offset points"}
            axes.annotate(str(row.success), point, **off, **looks)
    plotting.logarithmic_ticks(axes, ticks)
    axes.margins(x=0.12)
    axes.set_ylim(0, 1)
    plotting.shares(axes, (0, 0.5, 1))
    axes.set_xlabel("delay in steps")
    axes.grid(axis="y", color="#DADADA", linewidth=0.7)
    axes.set_axisbelow(True)

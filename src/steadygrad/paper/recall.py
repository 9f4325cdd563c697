"""Ω for gated cells: the first token recalled after a delay, with Ω, without, and by what people do today for the same purpose.

    k of n seeds solved it, for each network (rnn, gru, lstm), delay and method; rate = k / n

    Ω            α = 1, from torch's own initial weights
    none         the same without Ω
    remember     the forget gate's bias begins at 1                               (Jozefowicz et al. 2015)
    chrono       the gates' biases begin at log U(1, told − 1): told the delay, or a tenth of it   (Tallec & Ollivier 2018)

This is not in the paper, which has Ω for plain networks. The runs are cells of a sweep (`steadygrad sweep recall`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from steadygrad import plotting
from steadygrad.paper import rows as table
from steadygrad.paper.rows import Record, Row

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


def method(record: Record) -> str:
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


def rows(records: Iterable[Record]) -> list[Row]:
    """One for each problem (recall first), network, delay and method, in this order; `more` are the network and the method."""
    networks, methods = list(NETWORKS), list(METHODS)

    def rank(row: Row) -> tuple[bool, str, int, int, int]:
        network, how = row.more
        last = methods.index(how) if how in methods else len(methods)
        return row.problem != "recall", row.problem, networks.index(network), row.length[1], last

    ended = (record for record in records if record.get("result"))
    return sorted(table.rows(ended, lambda record: (record["config"].get("network", "rnn"), method(record))), key=rank)


def draw(found: Iterable[Row]) -> plotting.Figure:
    """The share of seeds that succeed against the delay, with Ω and without, a panel for each network."""
    found = [row for row in found if row.problem == "recall"]
    delays = sorted({row.length[1] for row in found})
    names = [name for name in NETWORKS if any(row.more[0] == name for row in found)]
    with plotting.drawing(2.3 * len(names) + 0.6, 2.7) as figure:
        panels = np.atleast_1d(figure.subplots(1, len(names), sharex=True, sharey=True))
        for axes, name in zip(panels, names, strict=True):
            _panel(axes, {(how, row.length[1]): row for row in found for network, how in [row.more] if network == name})
            plotting.logarithmic_ticks(axes, delays)
            axes.set(title=NETWORKS[name], xlabel="delay in steps")
            plotting.shares(axes, (0, 0.5, 1))
        panels[0].set_ylabel("seeds that solve it")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2)
    return figure


def _panel(axes: plotting.Axes, found: dict[tuple[str, int], Row]) -> None:
    named: set[tuple[int, float]] = set()  # points that have their numbers already
    for name, label, color, marker, line in (
        ("omega", "with Ω", plotting.BLUE, "o", "-"),
        ("none", "without Ω", plotting.ORANGE, "D", "--"),
    ):
        delays = sorted({delay for how, delay in found if how in (name, f"{name}-chosen")})
        chosen = [found.get((f"{name}-chosen", delay)) or found[name, delay] for delay in delays]
        points = [(delay, row.success.rate or 0.0) for delay, row in zip(delays, chosen, strict=True)]
        rates, looks = [rate for _, rate in points], {"clip_on": False, "zorder": 3}
        axes.plot(delays, rates, color=color, marker=marker, linestyle=line, label=label, **looks)
        for row, point in zip(chosen, points, strict=True):
            above, gap = point[1] < 0.5, 18 if point in named else 6
            named.add(point)
            text = {"ha": "center", "va": "bottom" if above else "top", "fontsize": 8, "color": color}
            off = {"xytext": (0, gap if above else -gap), "textcoords": "offset points"}
            axes.annotate(str(row.success), point, **off, **text)
    axes.margins(x=0.12)
    plotting.horizontal_lines(axes)

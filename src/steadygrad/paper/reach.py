"""How far back the error reaches: its norm against lag at the end of training, with Ω and without.

    relative_l = ‖error of step T − l‖ / ‖error of step T‖          (`steadygrad.snapshots`)

The median over seeds, and the range of all, for temporal order by the paper's own network (the grid `claims`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from steadygrad import plotting
from steadygrad.success import grouped

LINES = {"sgd-cr": ("with Ω", plotting.BLUE, "-"), "sgd-c": ("without Ω", plotting.ORANGE, "--")}
LEAST = 1e-12  # what is smaller is drawn at the lower edge
Curve = tuple[list[int], list[float], list[float], list[float]]


def curves(records: Iterable[Mapping[str, Any]], preset: str) -> dict[str, Curve]:
    """By algorithm: lags, and at each the median, the least and the largest relative norm over seeds.

    >>> run = {"problem": "temporal-order", "length": [50, 200], "preset": "tanh", "algorithm": "sgd-cr"}
    >>> curves([run | {"flow": {"steps": 3, "stride": 1, "norms": [1.0, 0.5, 0.25]}}], "tanh")["sgd-cr"][:2]
    ([0, 1, 2], [1.0, 0.5, 0.25])
    """
    meant = [r for r in records if r["problem"] == "temporal-order" and r["length"][0] < r["length"][1] and "flow" in r]
    made: dict[str, Curve] = {}
    for algorithm, seeds in grouped((r for r in meant if r["preset"] == preset), lambda r: r["algorithm"]).items():
        of_lag: dict[int, list[float]] = {}
        for flow in (record["flow"] for record in seeds):
            for index, norm in enumerate(flow["norms"]):
                of_lag.setdefault(index * flow["stride"], []).append(math.inf if norm is None else norm)
        middle, least, most = ([fold(of_lag[lag]) for lag in sorted(of_lag)] for fold in (median, min, max))
        made[algorithm] = sorted(of_lag), middle, least, most
    return made


def draw(found: Mapping[str, Curve]) -> plotting.Figure:
    """The norms on a logarithmic axis against the steps back from the end, with Ω and without."""
    with plotting.drawing(4.6, 2.9) as figure:
        axes = figure.subplots()
        for algorithm, (label, color, line) in LINES.items():
            if algorithm not in found:
                continue
            lags, middle, least, most = found[algorithm]
            axes.fill_between(lags, [max(each, LEAST) for each in least], most, color=color, alpha=0.18, linewidth=0)
            axes.plot(lags, [max(each, LEAST) for each in middle], color=color, linestyle=line, label=label)
        axes.set(yscale="log", ylim=(LEAST, None), xlabel="steps back from the end of the sequence")
        axes.set_ylabel("norm of the error,\nof that at the last step")
        axes.grid(axis="y", color="#DADADA", linewidth=0.7)
        axes.legend(loc="center right")
    return figure

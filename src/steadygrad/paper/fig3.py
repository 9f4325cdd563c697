"""Fig. 3: the bifurcation diagram of one unit with w = 5.

    x_∞ = w σ(x_∞) + b   ⇔   b(x) = x − w σ(x)

Every fixed point lies on the curve b(x), so the diagram is that curve drawn over the plane (b, x): bold where
w σ'(x) < 1 (an attractor), dashed where w σ'(x) > 1 (the boundary between two basins).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steadygrad import plotting
from steadygrad.dynamics.diagram import bifurcation_diagram
from steadygrad.paper import FigureData

W = 5.0
INITIAL_STATES = (-0.55, 0.0, 0.55)
DASHES = (0, (4, 2))
FIELD = "#A0A0A0"
OPEN: dict[str, Any] = {"s": 46, "facecolor": "white", "edgecolor": plotting.VERMILLION, "linewidth": 1.6}


def data() -> FigureData:
    """The arrays of `bifurcation_diagram`.

    >>> [round(float(data()[key]), 4) for key in ("b1", "b2")]
    [-2.3444, -2.6556]
    """
    return bifurcation_diagram(W, INITIAL_STATES)


def draw(data: FigureData) -> plotting.Figure:
    """The diagram: attractors bold, the boundary dashed, the way states move in grey."""
    x, b, falling = data["x"], data["b"], data["multiplier"] < 1.0
    with plotting.drawing(6.4, 4.4) as figure:
        axes = figure.add_subplot()
        _field(axes, data)
        for branch in (x < data["x1"], x > data["x2"]):
            axes.plot(b[branch & falling], x[branch & falling], color=plotting.BLUE, linewidth=3.2, zorder=5)
        axes.plot(b[~falling], x[~falling], color=plotting.VERMILLION, linestyle=DASHES, linewidth=2.0, zorder=5)
        _basin_crossings(axes, data)
        _bifurcations(axes, data)
        axes.set(xlabel="bias $b$", ylabel=r"state $x$, and where it ends, $x_\infty$")
        axes.set(xlim=(data["field_b"].min() - 0.03, data["field_b"].max() + 0.03), ylim=(-3.9, 3.9))
        axes.plot([], [], color=plotting.BLUE, linewidth=3.2, label="attractor")
        axes.plot([], [], color=plotting.VERMILLION, linestyle=DASHES, linewidth=2.0, label="boundary between basins")
        axes.scatter([], [], s=52, color=plotting.BLACK, label="crossing a bifurcation")
        axes.scatter([], [], **OPEN, label="crossing a basin boundary")
        axes.plot([], [], color=FIELD, marker=r"$\uparrow$", markersize=8, linestyle="none", label="how $x$ moves")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.07), ncols=3, columnspacing=1.6, handlelength=2.4)
    return figure


def _field(axes: plotting.Axes, data: FigureData) -> None:
    # The columns of the crossings' own arrows stay free.
    busy = np.array([*data["crossing_b"], data["b1"], data["b2"]])
    for b, x, step in zip(*(data[f"field_{key}"].ravel() for key in ("b", "x", "step")), strict=True):
        # Half a row at most, so that no arrow reaches the next, and none where the state hardly moves.
        length = np.sign(step) * (0.14 + 0.26 * np.tanh(abs(step)))
        if abs(step) > 0.06 and np.abs(b - busy).min() > 0.022:
            ends = (b, x - 0.5 * length), (b, x + 0.5 * length)
            plotting.arrow(axes, *ends, FIELD, style="->", width=0.8, head=6, order=1)


def _basin_crossings(axes: plotting.Axes, data: FigureData) -> None:
    columns = (data[f"crossing_{key}"] for key in ("b", "x", "low", "high"))
    for b, x, low, high in zip(*columns, strict=True):
        for end in (low, high):
            plotting.arrow(axes, (b, x), (b, end), plotting.VERMILLION, width=0.9, head=8, gap=3, order=4)
        axes.scatter(b, x, **OPEN, zorder=8)


def _bifurcations(axes: plotting.Axes, data: FigureData) -> None:
    at = {name: float(data[f"b{name}"]) for name in ("1", "2")}
    for name, b in at.items():
        x, landing = float(data[f"x{name}"]), float(data[f"landing{name}"])
        axes.axvline(b, color=plotting.BLACK, linewidth=0.6, linestyle=(0, (1, 3)), zorder=1)
        plotting.arrow(axes, (b, x), (b, landing), plotting.BLACK, width=1.4, gap=3, order=6)
        axes.scatter(b, x, s=52, color=plotting.BLACK, zorder=9)
    above = axes.secondary_xaxis("top")
    above.set_xticks(list(at.values()), [f"$b_{name}$ = {plotting.signed(b, 3)}" for name, b in at.items()], fontsize=9)
    above.spines["top"].set_visible(False)

"""Fig. 3: the bifurcation diagram of one unit with w = 5.

    x_∞ = w σ(x_∞) + b   ⇔   b(x) = x − w σ(x)

Every fixed point lies on the curve b(x), so the diagram is that curve drawn over the plane (b, x): bold where
w σ'(x) < 1 (an attractor), dashed where w σ'(x) > 1 (the boundary between two basins).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steadygrad import checks
from steadygrad.dynamics import OneUnit
from steadygrad.paper import FigureData, style

TITLE = "Bifurcation diagram of a single unit"
CLAIM = (
    "With the recurrent weight fixed at 5, two values of b are bifurcations; between them there are two attractors. "
    "A large change of x_t follows from crossing a bifurcation (filled circles) or, for a whole range of b, from "
    "crossing the boundary between basins (open circles) (section 2.2)."
)

W = 5.0
INITIAL_STATES = (-0.55, 0.0, 0.55)
DASHES = (0, (4, 2))
FIELD = "#A0A0A0"
OPEN: dict[str, Any] = {"s": 46, "facecolor": "white", "edgecolor": style.VERMILLION, "linewidth": 1.6}


def data(w: float = W, initial_states: tuple[float, ...] = INITIAL_STATES, points: int = 801) -> FigureData:
    """The fixed points over b, the bifurcations, the vector field and the basin crossings.

    Args:
        w: the recurrent weight, above 4 so that there are two bifurcations.
        initial_states: states between the two folds; each crosses the basin boundary at one b.
        points: of the curve.

    Returns:
        `x` [n], `b` [n], `multiplier` [n]: the curve of fixed points; `b1`, `b2` and `x1`, `x2`: the two bifurcations
        in the paper's order (b falling from ∞ meets b₁ first); `landing1`, `landing2`: the attractor each leads to;
        `crossing_x` [m], `crossing_b` [m], `crossing_low` [m], `crossing_high` [m]: the basin crossings and the two
        attractors they lie between; `field_b`, `field_x`, `field_step` [rows, columns]: F(x) − x.

    >>> [round(float(data()[key]), 4) for key in ("b1", "b2")]
    [-2.3444, -2.6556]
    """
    checks.whole("points", points, low=2)
    folds = OneUnit(w, 0.0).bifurcations()
    if len(folds) != 2 or folds[0].kind != "fold":
        raise ValueError(f"w must be above 4, where a sigmoid unit has two folds, not {w!r}")
    second, first = folds
    x = np.linspace(-4.0, 4.0, points)
    sigma = OneUnit(w, 0.0).sigma
    crossing_x = np.asarray(initial_states, dtype=np.float64)
    if not ((crossing_x > first.x) & (crossing_x < second.x)).all():
        raise ValueError(f"initial_states must lie between the folds at {first.x:.4g} and {second.x:.4g}")
    crossing_b = crossing_x - w * sigma.value(crossing_x)
    ends = [OneUnit(w, float(at)).fixed_points() for at in crossing_b]
    field_b, field_x = np.meshgrid(np.linspace(second.b - 0.45, first.b + 0.45, 20), np.linspace(-3.5, 3.5, 14))
    found = {
        "w": w,
        "x": x,
        "b": x - w * sigma.value(x),
        "multiplier": w * sigma.slope(x),
        "b1": first.b,
        "x1": first.x,
        "landing1": OneUnit(w, first.b).fixed_points()[-1].x,
        "b2": second.b,
        "x2": second.x,
        "landing2": OneUnit(w, second.b).fixed_points()[0].x,
        "crossing_x": crossing_x,
        "crossing_low": [points[0].x for points in ends],
        "crossing_b": crossing_b,
        "crossing_high": [points[-1].x for points in ends],
        "field_b": field_b,
        "field_x": field_x,
        "field_step": w * sigma.value(field_x) + field_b - field_x,
    }
    return {key: np.asarray(value) for key, value in found.items()}


def draw(data: FigureData) -> style.Figure:
    """The diagram: attractors bold, the boundary dashed, the way states move in grey."""
    array = {key: np.asarray(value, dtype=np.float64) for key, value in data.items()}
    x, b, falling = array["x"], array["b"], array["multiplier"] < 1.0
    with style.look():
        figure = style.blank(6.4, 4.4)
        axes = figure.add_subplot()
        _field(axes, array)
        for branch in (x < array["x1"], x > array["x2"]):
            axes.plot(b[branch & falling], x[branch & falling], color=style.BLUE, linewidth=3.2, zorder=5)
        axes.plot(b[~falling], x[~falling], color=style.VERMILLION, linestyle=DASHES, linewidth=2.0, zorder=5)
        _basin_crossings(axes, array)
        _bifurcations(axes, array)
        axes.set(xlabel="bias $b$", ylabel=r"state $x$, and where it ends, $x_\infty$")
        axes.set(xlim=(array["field_b"].min() - 0.03, array["field_b"].max() + 0.03), ylim=(-3.9, 3.9))
        axes.plot([], [], color=style.BLUE, linewidth=3.2, label="attractor")
        axes.plot([], [], color=style.VERMILLION, linestyle=DASHES, linewidth=2.0, label="boundary between basins")
        axes.scatter([], [], s=52, color=style.BLACK, label="crossing a bifurcation")
        axes.scatter([], [], **OPEN, label="crossing a basin boundary")
        axes.plot([], [], color=FIELD, marker=r"$\uparrow$", markersize=8, linestyle="none", label="how $x$ moves")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.07), ncols=3, columnspacing=1.6, handlelength=2.4)
    return figure


def _field(axes: style.Axes, array: dict[str, Any]) -> None:
    # The columns of the crossings' own arrows stay free.
    busy = np.array([*array["crossing_b"], array["b1"], array["b2"]])
    for b, x, step in zip(*(array[f"field_{key}"].ravel() for key in ("b", "x", "step")), strict=True):
        # Half a row at most, so that no arrow reaches the next, and none where the state hardly moves.
        length = np.sign(step) * (0.14 + 0.26 * np.tanh(abs(step)))
        if abs(step) > 0.06 and np.abs(b - busy).min() > 0.022:
            ends = (b, x - 0.5 * length), (b, x + 0.5 * length)
            style.arrow(axes, *ends, FIELD, style="->", width=0.8, head=6, order=1)


def _basin_crossings(axes: style.Axes, array: dict[str, Any]) -> None:
    columns = (array[f"crossing_{key}"] for key in ("b", "x", "low", "high"))
    for b, x, low, high in zip(*columns, strict=True):
        for end in (low, high):
            style.arrow(axes, (b, x), (b, end), style.VERMILLION, width=0.9, head=8, gap=3, order=4)
        axes.scatter(b, x, **OPEN, zorder=8)


def _bifurcations(axes: style.Axes, array: dict[str, Any]) -> None:
    at = {name: float(array[f"b{name}"]) for name in ("1", "2")}
    for name, b in at.items():
        x, landing = float(array[f"x{name}"]), float(array[f"landing{name}"])
        axes.axvline(b, color=style.BLACK, linewidth=0.6, linestyle=(0, (1, 3)), zorder=1)
        style.arrow(axes, (b, x), (b, landing), style.BLACK, width=1.4, gap=3, order=6)
        axes.scatter(b, x, s=52, color=style.BLACK, zorder=9)
    above = axes.secondary_xaxis("top")
    above.set_xticks(list(at.values()), [f"$b_{name}$ = {style.signed(b, 3)}" for name, b in at.items()], fontsize=9)
    above.spines["top"].set_visible(False)

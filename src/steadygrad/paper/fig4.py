"""Fig. 4: two states close together, the same maps, and far apart at the end.

    x_t = F_t(x_{t−1}) = w σ(x_{t−1}) + b + u_t,   Δx_t = x'_t − x_t

The paper's figure is a sketch; this one is computed. The inputs are picked by hand so that the maps first carry both
states along together and then, without any one large input, pull them apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steadygrad import plotting
from steadygrad.dynamics import InputDriven, OneUnit
from steadygrad.paper import PRINTED, FigureData

TITLE, CLAIM = PRINTED["fig4"]["title"], PRINTED["fig4"]["claim"]

W, B = 6.0, -3.0
INPUTS = (-0.10, -0.20, 0.12, -0.15, 0.10, -0.20, 0.15, -0.10)
LEFT, RIGHT = 0.10, 0.26


def data(
    w: float = W, b: float = B, inputs: tuple[float, ...] = INPUTS, left: float = LEFT, right: float = RIGHT
) -> FigureData:
    """Both trajectories: `states` [2, T + 1], `delta` [T + 1], `sensitivity` [2, T + 1] and the parameters.

    `left` and `right` are the initial states; the weight of `inputs` [T] is 1.

    >>> states = data()["states"]
    >>> bool(states[1, -1] - states[0, -1] > 15 * (states[1, 0] - states[0, 0]))
    True
    """
    run = InputDriven(OneUnit(w, b), inputs).compare(left, right)
    found = {"w": w, "b": b, "inputs": inputs, "states": run.states, "delta": run.delta, "sensitivity": run.sensitivity}
    found |= {"delta_first": run.delta[0], "delta_last": run.delta[-1]}
    return {key: np.asarray(value, dtype=np.float64) for key, value in found.items()}


def draw(data: FigureData) -> plotting.Figure:
    """Time runs upwards, the state sideways: two chains of arrows that begin together and end apart."""
    states = np.asarray(data["states"], dtype=np.float64)
    steps = states.shape[1] - 1
    with plotting.drawing(4.8, 4.8) as figure:
        axes = figure.add_subplot()
        for path, color, marker, side in (
            (states[0], plotting.BLUE, "o", -1),
            (states[1], plotting.VERMILLION, "s", 1),
        ):
            for t in range(steps):
                plotting.arrow(axes, (path[t], t), (path[t + 1], t + 1), color, width=1.6, gap=3.5)
                at = 0.5 * (path[t] + path[t + 1]) + side * 0.13, t + 0.5
                axes.text(*at, f"$F_{{{t + 1}}}$", color=color, ha="left" if side > 0 else "right", va="center")
            axes.plot(path, range(steps + 1), linestyle="none", marker=marker, markersize=5.5, color=color, zorder=4)
        _span(axes, states[:, 0], -0.55, r"$\Delta x_0$ = " + f"{states[1, 0] - states[0, 0]:.2f}")
        _span(axes, states[:, -1], steps + 0.55, rf"$\Delta x_{{{steps}}}$ = {states[1, -1] - states[0, -1]:.2f}")
        axes.set(xlabel="state $x_t$", ylabel="step $t$", yticks=range(steps + 1))
        axes.set(xlim=(states.min() - 0.5, states.max() + 0.5), ylim=(-1.2, steps + 1.2))
    return figure


def _span(axes: plotting.Axes, ends: Any, height: float, label: str) -> None:
    left, right = (float(end) for end in ends)
    if right - left > 1.0:
        plotting.arrow(axes, (left, height), (right, height), plotting.BLACK, style="<|-|>", width=1.0)
        axes.text(0.5 * (left + right), height + 0.12, label, ha="center", va="bottom")
        return
    # Too narrow for two heads: they point at it from outside.
    plotting.arrow(axes, (left - 0.35, height), (left, height), plotting.BLACK, width=1.0)
    plotting.arrow(axes, (right + 0.35, height), (right, height), plotting.BLACK, width=1.0)
    axes.text(right + 0.42, height, label, ha="left", va="center")

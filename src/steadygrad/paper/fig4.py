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
from steadygrad.paper import FigureData

W, B = 6.0, -3.0
INPUTS = (-0.10, -0.20, 0.12, -0.15, 0.10, -0.20, 0.15, -0.10)
LEFT, RIGHT = 0.10, 0.26  # the initial states
PATHS = ((plotting.BLUE, "o", "left"), (plotting.VERMILLION, "s", "right"))


def data() -> FigureData:
    """Both trajectories: `states` [2, T + 1], `delta` [T + 1], `sensitivity` [2, T + 1] and the parameters.

    >>> states = data()["states"]
    >>> bool(states[1, -1] - states[0, -1] > 15 * (states[1, 0] - states[0, 0]))
    True
    """
    run = InputDriven(OneUnit(W, B), INPUTS).compare(LEFT, RIGHT)
    found = {"w": W, "b": B, "inputs": INPUTS, "states": run.states, "delta": run.delta, "sensitivity": run.sensitivity}
    found |= {"delta_first": run.delta[0], "delta_last": run.delta[-1]}
    return {key: np.asarray(value, dtype=np.float64) for key, value in found.items()}


def draw(data: FigureData) -> plotting.Figure:
    """Time runs upwards, the state sideways: two chains of arrows that begin together and end apart."""
    states, steps = data["states"], len(data["inputs"])
    with plotting.drawing(4.8, 4.8) as figure:
        axes = figure.add_subplot()
        for path, (color, marker, turn), side in zip(states, PATHS, (-0.13, 0.13), strict=True):
            for t in range(steps):
                plotting.arrow(axes, (path[t], t), (path[t + 1], t + 1), color, width=1.6, gap=3.5)
                at = 0.5 * (path[t] + path[t + 1]) + side, t + 0.5
                axes.text(*at, f"$F_{{{t + 1}}}$", color=color, ha="left" if turn == "right" else "right", va="center")
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

"""Fig. 5: the maps of Fig. 4 taken apart into what the network does and what the input does.

    F_t = U_t ∘ F̃,   F̃(x) = w σ(x) + b,   U_t(x) = x + u_t          (Pascanu et al. 2013, section 2.2)

F̃ has a boundary between two basins and moves a state away from it, whatever the input; only a shift U_t can carry a
state across. The data are Fig. 4's, with the half-way states F̃(x_{t−1}) kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steadygrad import plotting
from steadygrad.dynamics import InputDriven, OneUnit
from steadygrad.paper import FigureData
from steadygrad.paper.fig4 import INPUTS, LEFT, PATHS, RIGHT, B, W

SHIFT = (0, (2.5, 1.5))
FIXED_ENDS_AT = 0.6  # how far into the step from t − 1 to t the drawing puts F̃(x_{t−1})


def data() -> FigureData:
    """Both trajectories, `states` [2, T + 1], with their half-way states, `after_fixed` [2, T]; `boundary` [m] and
    `attractors` [m + 1] of F̃; `crossings` [k, 3]: trajectory, step and direction of each.

    >>> data()["crossings"].tolist()
    [[0, 2, -1]]
    """
    unit = OneUnit(W, B)
    run = InputDriven(unit, INPUTS).compare(LEFT, RIGHT)
    crossings = [(c.trajectory, c.t, c.direction) for c in run.crossings]
    found = {"w": W, "b": B, "inputs": INPUTS, "states": run.states, "after_fixed": run.after_fixed}
    found |= {"boundary": run.boundary, "attractors": [p.x for p in unit.fixed_points() if p.stability == "stable"]}
    numbers = {key: np.asarray(value, dtype=np.float64) for key, value in found.items()}
    return {**numbers, "crossings": np.array(crossings, dtype=np.int64).reshape(-1, 3)}


def draw(data: FigureData) -> plotting.Figure:
    """Each step in two arrows, F̃ solid and U_t dashed; the boundary is a dotted line, F̃'s direction a broad arrow."""
    states, half = data["states"], data["after_fixed"]
    steps = half.shape[1]
    with plotting.drawing(5.6, 5.8) as figure:
        axes = figure.add_subplot()
        for path, middle, (color, marker, _) in zip(states, half, PATHS, strict=True):
            for t in range(steps):
                turn = (float(middle[t]), t + FIXED_ENDS_AT)
                plotting.arrow(axes, (path[t], t), turn, color, width=1.7, gap=1.5, order=4)
                end = (path[t + 1], t + 1)
                plotting.arrow(axes, turn, end, plotting.BLACK, line=SHIFT, width=1.2, gap=1.5, order=4)
            axes.plot(path, range(steps + 1), linestyle="none", marker=marker, markersize=6, color=color, zorder=5)
        _boundary(axes, data["boundary"], steps)
        _crossings(axes, data)
        axes.set(xlabel="state $x_t$", ylabel="step $t$", yticks=range(steps + 1))
        axes.set(xlim=(states.min() - 0.35, states.max() + 0.35), ylim=(-1.5, steps + 0.5))
        for color, marker, side in PATHS:
            axes.plot([], [], color=color, marker=marker, label=rf"$\tilde{{F}}$, {side} trajectory")
        axes.plot([], [], color=plotting.BLACK, linestyle=SHIFT, linewidth=1.2, label="$U_t$, the input's shift")
        axes.plot([], [], color=plotting.BLACK, linestyle=":", label=r"boundary between basins of $\tilde{F}$")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure


def _boundary(axes: plotting.Axes, boundaries: Any, steps: int) -> None:
    for boundary in boundaries:
        axes.plot([boundary] * 2, [-1.5, steps + 0.5], color=plotting.BLACK, linestyle=":", linewidth=1.5, zorder=1)
        for sign, label in ((-1, "left"), (1, "right")):
            start, end = boundary + sign * 0.12, boundary + sign * 0.9
            plotting.arrow(axes, (start, -0.8), (end, -0.8), plotting.GREY, line=(0, (5, 2)), width=2.2, head=14)
            axes.text(0.5 * (start + end), -0.98, rf"$\tilde{{F}}$ drives {label}", ha="center", va="top")


def _crossings(axes: plotting.Axes, data: FigureData) -> None:
    for trajectory, t, direction in data["crossings"]:
        before, after = data["after_fixed"][trajectory, t - 1], data["states"][trajectory, t]
        at = float(data["boundary"][0])
        share = (at - before) / (after - before)
        height = t - 1 + FIXED_ENDS_AT + share * (1 - FIXED_ENDS_AT)
        axes.scatter(at, height, s=60, facecolor="white", edgecolor=plotting.BLACK, linewidth=1.4, zorder=6)
        words, line = f"$U_{{{t}}}$ carries it across", {"arrowstyle": "-", "linewidth": 0.7, "shrinkB": 5}
        beside, turn = (at + direction * 0.55, height + 0.12), "right" if direction < 0 else "left"
        axes.annotate(words, xy=(at, height), xytext=beside, ha=turn, va="center", arrowprops=line)

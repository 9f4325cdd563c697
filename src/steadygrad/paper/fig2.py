"""Fig. 2: the network unrolled in time, and the path its error takes back.

    x_t = F(x_{t−1}, u_t),   ∂E_t/∂θ = Σ_k (∂E_t/∂x_t)(∂x_t/∂x_k)(∂⁺x_k/∂θ)       (Pascanu et al. 2013, eqs. 1, 4, 5)

A drawing without measurements: its data are nodes and arrows, on a grid of steps (columns) by u, x, E (rows).
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from steadygrad import plotting
from steadygrad.paper import FigureData

STEPS = ("t-1", "t", "t+1")
COLUMN, ROW, SIDE, GAP = 2.3, 1.4, 0.13, 19.0
DASHES = (0, (3, 2))


def data() -> FigureData:
    """`labels` [9] and `positions` [9, 2] of the nodes u, x, E of three steps; `forward` [8, 2], `backward` [5, 2]: the
    arrows as (from, to) node numbers; `backward_labels` [5].

    >>> data()["labels"].tolist()[:3]
    ['u_{t-1}', 'u_{t}', 'u_{t+1}']
    """
    columns = np.arange(len(STEPS)) * COLUMN
    labels = [f"{letter}_{{{step}}}" for letter in ("u", "x", "E") for step in STEPS]
    positions = [(column, row * ROW) for row in range(3) for column in columns]
    inputs, states, errors = np.arange(9).reshape(3, 3)
    down = [*zip(errors, states, strict=True)]
    up = [*zip(inputs, states, strict=True), *((state, error) for error, state in down)]
    onward = [*itertools.pairwise(states)]
    backward = [*down, *((late, early) for early, late in onward)]
    factors = [rf"\frac{{\partial {labels[start]}}}{{\partial {labels[end]}}}" for start, end in backward]
    found = {"labels": labels, "positions": positions, "forward": up + onward, "backward": backward}
    return {key: np.array(value) for key, value in {**found, "backward_labels": factors}.items()}


def draw(data: FigureData) -> plotting.Figure:
    """The unrolled network: forward arrows solid, the error's way back dashed and beside them."""
    at = data["positions"]
    with plotting.drawing(6.8, 3.5) as figure:
        axes = figure.add_subplot()
        axes.set_axis_off()
        colors = [plotting.GREEN] * 3 + [plotting.BLUE] * 3 + [plotting.VERMILLION] * 3
        # Sizes in points squared; `GAP` keeps arrowheads off the circles of radius 17.
        axes.scatter(*at.T, s=34.0**2, c="white", edgecolors=colors, linewidths=1.6, zorder=4)
        for label, (x, y) in zip(data["labels"], at, strict=True):
            axes.text(x, y, _script(label), ha="center", va="center", fontsize=11, zorder=5)
        for start, end in at[data["forward"]]:
            onward, to_error = start[1] == end[1], end[1] == 2 * ROW
            # Where an error comes back beside it, the arrow makes room.
            off = np.array([-SIDE * to_error, SIDE * onward])
            plotting.arrow(axes, tuple(start + off), tuple(end + off), plotting.BLACK, gap=GAP)
        for (start, end), label in zip(at[data["backward"]], data["backward_labels"], strict=True):
            _back(axes, start, end, label)
        _beyond(axes, at[3], at[5])
        axes.plot([], [], color=plotting.BLACK, label="forward: state and error")
        axes.plot([], [], color=plotting.VERMILLION, linestyle=DASHES, label="backward: factors of the gradient")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.16), ncols=2)
        axes.set(xlim=(-1.8, 2 * COLUMN + 1.8), ylim=(-0.45, 2 * ROW + 0.45))
    return figure


def _back(axes: plotting.Axes, start: Any, end: Any, label: str) -> None:
    """An arrow of the error's way back, and its factor beside it."""
    down = start[0] == end[0]
    off, beside = (np.array([SIDE, 0.0]), [0.24, 0.0]) if down else (np.array([0.0, -SIDE]), [0.0, -0.22])
    plotting.arrow(axes, tuple(start + off), tuple(end + off), plotting.VERMILLION, line=DASHES, gap=GAP)
    ha, va = ("left", "center") if down else ("center", "top")
    x, y = 0.5 * (start + end) + beside
    axes.text(x, y, _script(label), color=plotting.VERMILLION, fontsize=13, ha=ha, va=va)


def _beyond(axes: plotting.Axes, first: Any, last: Any) -> None:
    """The arrows from and to the steps before the first and after the last one drawn."""
    reach, up = np.array([1.75, 0.0]), np.array([0.0, SIDE])
    for early, late, factor in ((first - reach, first, ("t-1", "t-2")), (last, last + reach, ("t+2", "t+1"))):
        plotting.arrow(axes, tuple(early + up), tuple(late + up), plotting.BLACK, gap=GAP)
        _back(axes, late, early, r"\frac{{\partial x_{{{}}}}}{{\partial x_{{{}}}}}".format(*factor))
    for x in (first[0] - reach[0] + 0.14, last[0] + reach[0] - 0.14):
        axes.text(x, first[1], r"$\cdots$", ha="center", va="center", fontsize=12)


def _script(label: str) -> str:
    return f"${label}$".replace("E_", r"\mathcal{E}_").replace("x_", r"\mathbf{x}_").replace("u_", r"\mathbf{u}_")

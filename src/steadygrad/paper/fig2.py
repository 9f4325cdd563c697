"""Fig. 2: the network unrolled in time, and the path its error takes back.

    x_t = F(x_{t−1}, u_t),   ∂E_t/∂θ = Σ_k (∂E_t/∂x_t)(∂x_t/∂x_k)(∂⁺x_k/∂θ)       (Pascanu et al. 2013, eqs. 1, 4, 5)

A drawing without measurements: its data are nodes and arrows, on a grid of steps (columns) by u, x, E (rows).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from steadygrad.paper import FigureData, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "A recurrent network unrolled in time"
CLAIM = (
    "Unrolling makes a copy of the model for each time step, with state x_t, input u_t and error E_t; the gradient is "
    "a sum of products that carry each error back through ∂x_t/∂x_{t−1} (caption of Fig. 2, eqs. 3 to 5)."
)

STEPS = ("t-1", "t", "t+1")
COLUMN, ROW = 2.3, 1.4


def data() -> FigureData:
    """The nodes and arrows of the drawing.

    Returns:
        `labels` [9] and `positions` [9, 2] of the nodes u, x, E of three steps; `forward` [8, 2], `backward` [5, 2]:
        the arrows as (from, to) node numbers; `backward_labels` [5].

    >>> data()["labels"].tolist()[:3]
    ['u_{t-1}', 'u_{t}', 'u_{t+1}']
    """
    columns = np.arange(len(STEPS)) * COLUMN
    labels = [f"{letter}_{{{step}}}" for letter in ("u", "x", "E") for step in STEPS]
    positions = [(column, row * ROW) for row in range(3) for column in columns]
    inputs, states, errors = np.arange(9).reshape(3, 3)
    upward = [*zip(inputs, states, strict=True), *zip(states, errors, strict=True)]
    onward = [*itertools.pairwise(states)]
    back_down = [*zip(errors, states, strict=True)]
    back_left = [*zip(states[1:], states[:-1], strict=True)]
    names = [rf"\frac{{\partial E_{{{s}}}}}{{\partial x_{{{s}}}}}" for s in STEPS]
    names += [rf"\frac{{\partial x_{{{late}}}}}{{\partial x_{{{early}}}}}" for early, late in itertools.pairwise(STEPS)]
    return {
        "labels": np.array(labels),
        "positions": np.array(positions),
        "forward": np.array(upward + onward),
        "backward": np.array(back_down + back_left),
        "backward_labels": np.array(names),
    }


def draw(data: FigureData) -> Figure:
    """The unrolled network: forward arrows solid, the error's way back dashed and beside them."""
    at = np.asarray(data["positions"], dtype=np.float64)
    with style.look():
        figure = style.blank(6.8, 3.5)
        axes = figure.add_subplot()
        axes.set_axis_off()
        colors = [style.GREEN] * 3 + [style.BLUE] * 3 + [style.VERMILLION] * 3
        # Sizes in points squared; the gap of 19 points below keeps arrowheads off the circles of radius 17.
        axes.scatter(*at.T, s=34.0**2, c="white", edgecolors=colors, linewidths=1.6, zorder=4)
        for label, position in zip(data["labels"], at, strict=True):
            axes.text(
                position[0], position[1], f"${_script(str(label))}$", ha="center", va="center", fontsize=11, zorder=5
            )
        side = 0.13
        for start, end in at[data["forward"]]:
            onward, to_error = start[1] == end[1], end[1] == 2 * ROW
            # Where an error comes back beside it, the arrow makes room.
            off = np.array([-side * to_error, side * onward])
            style.arrow(axes, tuple(start + off), tuple(end + off), style.BLACK, gap=19)
        for (start, end), label in zip(at[data["backward"]], data["backward_labels"], strict=True):
            down = start[0] == end[0]
            off = np.array([side, 0.0]) if down else np.array([0.0, -side])
            style.arrow(axes, tuple(start + off), tuple(end + off), style.VERMILLION, line=(0, (3, 2)), gap=19)
            where = 0.5 * (start + end) + (np.array([0.24, 0.0]) if down else np.array([0.0, -0.22]))
            axes.text(
                where[0],
                where[1],
                f"${_script(str(label))}$",
                color=style.VERMILLION,
                fontsize=13,
                ha="left" if down else "center",
                va="center" if down else "top",
            )
        _beyond(axes, at[3], at[5], side)
        axes.plot([], [], color=style.BLACK, label="forward: state and error")
        axes.plot([], [], color=style.VERMILLION, linestyle=(0, (3, 2)), label="backward: factors of the gradient")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.16), ncols=2)
        axes.set_xlim(-1.8, 2 * COLUMN + 1.8)
        axes.set_ylim(-0.45, 2 * ROW + 0.45)
    return figure


def _beyond(axes: Axes, first: Any, last: Any, side: float) -> None:
    """The arrows from and to the steps before the first and after the last one drawn."""
    reach, height = 1.75, first[1]
    for (x, _), sign in ((first, -1), (last, 1)):
        near, far = x, x + sign * reach
        forward = ((far, height + side), (near, height + side))
        backward = ((near, height - side), (far, height - side))
        if sign > 0:
            forward, backward = forward[::-1], backward[::-1]
        style.arrow(axes, forward[0], forward[1], style.BLACK, gap=19)
        style.arrow(axes, backward[0], backward[1], style.VERMILLION, line=(0, (3, 2)), gap=19)
        axes.text(far - sign * 0.14, height, r"$\cdots$", ha="center", va="center", fontsize=12)
        late, early = ("t-1", "t-2") if sign < 0 else ("t+2", "t+1")
        label = _script(rf"\frac{{\partial x_{{{late}}}}}{{\partial x_{{{early}}}}}")
        axes.text(
            0.5 * (near + far), height - 0.22, f"${label}$", color=style.VERMILLION, fontsize=13, ha="center", va="top"
        )


def _script(label: str) -> str:
    return label.replace("E_", r"\mathcal{E}_").replace("x_", r"\mathbf{x}_").replace("u_", r"\mathbf{u}_")

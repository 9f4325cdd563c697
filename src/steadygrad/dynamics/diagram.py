"""The bifurcation diagram of one sigmoid unit over its bias: b(x) = x − w σ(x), on which every fixed point lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steadygrad import checks
from steadygrad.dynamics.one_unit import OneUnit


def bifurcation_diagram(w: float, initial_states: Sequence[float] = (), points: int = 801) -> dict[str, NDArray[Any]]:
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

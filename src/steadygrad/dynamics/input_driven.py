"""One unit driven by inputs, as a family of maps (Pascanu et al. 2013, section 2.2, Figs. 4 and 5).

    x_t = F_t(x_{t−1}) = w σ(x_{t−1}) + b + w_in u_t          t = 1 … T

    F̃(x)  = w σ(x) + b         the unit without input: the same map at every step
    U_t(x) = x + w_in u_t       the input alone: a shift
    F_t    = U_t ∘ F̃            F̃ acts first, the shift after it

The order matters: U_t ∘ F̃ is the paper's eq. 2, F̃ ∘ U_t would put the input inside σ. For w > 0 a basin of F̃ is
mapped into itself by F̃, so only a shift U_t can carry a state across a boundary. Two states that stand on different
sides are drawn to different attractors, and Δx_t grows however small it was, unless the shifts oppose it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steadygrad import checks
from steadygrad.dynamics.arrays import Array, real_array
from steadygrad.dynamics.one_unit import OneUnit


@dataclass(frozen=True)
class Crossing:
    """A shift U_t that carried a state over a basin boundary of F̃.

    Args:
        trajectory: 0 for the one from x0, 1 for the one from y0.
        t: the step, 1 … T.
        boundary: the position of the boundary (the first one crossed, if several).
        direction: +1 upwards, −1 downwards.
    """

    trajectory: int
    t: int
    boundary: float
    direction: int


@dataclass(frozen=True)
class Divergence:
    """Two states under the same maps F_1 … F_T.

    Args:
        states: [2, T + 1], x_0 … x_T of both.
        after_fixed: [2, T], F̃(x_{t−1}), the state before U_t shifts it.
        delta: [T + 1], Δx_t, the second state less the first.
        sensitivity: [2, T + 1], ∂x_t/∂x_0 = Π w σ'(x_{i−1}) along each (eq. 5).
        boundary: [m], the basin boundaries of F̃.
        basin: [2, T + 1], in which basin of F̃ each state is, counted from below (on a boundary: the lower one).
        crossings: every boundary crossing, in the order of t.
    """

    states: Array
    after_fixed: Array
    delta: Array
    sensitivity: Array
    boundary: Array
    basin: NDArray[np.intp]
    crossings: tuple[Crossing, ...]


class InputDriven:
    r"""The maps F_1 … F_T of one unit under given inputs.

    .. math:: F_t = U_t \circ \tilde F, \quad \tilde F(x) = w\,\sigma(x) + b, \quad U_t(x) = x + w_{in} u_t

    Args:
        unit: F̃.
        inputs: [T], u_1 … u_T.
        w_in: the input weight.

    Example:
        Two states 0.02 apart on either side of the boundary at 0 end more than three apart:

        >>> maps = InputDriven(OneUnit(5.0, -2.5), inputs=[0.0] * 30)
        >>> run = maps.compare(-0.01, 0.01)
        >>> float(run.delta[0]), round(float(run.delta[-1]), 2)
        (0.02, 3.49)

    Reference:
        Pascanu, Mikolov & Bengio 2013, section 2.2.
    """

    def __init__(self, unit: OneUnit, inputs: Sequence[float] | Array, w_in: float = 1.0) -> None:
        if not isinstance(unit, OneUnit):
            raise TypeError(f"unit must be a OneUnit, not {type(unit).__name__}")
        self.unit = unit
        self.inputs = real_array("inputs", inputs, dims=1)
        self.w_in = checks.number("w_in", w_in)

    def fixed(self, x: float | Array) -> Array:
        """F̃(x) = w σ(x) + b."""
        return self.unit(x)

    def shift(self, x: float | Array, t: int) -> Array:
        """U_t(x) = x + w_in u_t."""
        return real_array("x", x) + self.w_in * self._input(t)

    def map(self, x: float | Array, t: int) -> Array:
        """F_t(x) = U_t(F̃(x)).

        >>> float(InputDriven(OneUnit(2.0, 0.0, "identity"), [10.0]).map(1.0, t=1))
        12.0
        """
        return self.shift(self.fixed(x), t)

    def run(self, x0: float) -> Array:
        """x_0 … x_T from x0, as an array of shape [T + 1]."""
        return self.compare(x0, x0).states[0]

    def compare(self, x0: float, y0: float) -> Divergence:
        """Runs both states through F_1 … F_T and says where they part.

        Args:
            x0: the first initial state.
            y0: the second initial state.
        """
        steps = len(self.inputs)
        states, after_fixed = np.empty((2, steps + 1)), np.empty((2, steps))
        states[:, 0] = checks.number("x0", x0), checks.number("y0", y0)
        sensitivity = np.ones((2, steps + 1))
        w, b, sigma = self.unit.w, self.unit.b, self.unit.sigma
        with np.errstate(over="ignore", invalid="ignore"):
            for t in range(1, steps + 1):
                x = states[:, t - 1]
                sensitivity[:, t] = w * sigma.slope(x) * sensitivity[:, t - 1]
                after_fixed[:, t - 1] = w * sigma.value(x) + b
                states[:, t] = after_fixed[:, t - 1] + self.w_in * self.inputs[t - 1]
            delta = states[1] - states[0]
        boundary = np.asarray(self.unit.basin_boundary(), dtype=np.float64)
        return Divergence(
            states,
            after_fixed,
            delta,
            sensitivity,
            boundary,
            np.searchsorted(boundary, states),
            _crossings(boundary, after_fixed, states[:, 1:]),
        )

    def _input(self, t: int) -> float:
        steps = len(self.inputs)
        if not 1 <= checks.whole("t", t) <= steps:
            raise ValueError(f"t must be a step from 1 to {steps}, the number of inputs, not {t}")
        return float(self.inputs[t - 1])


def _crossings(boundary: Array, before: Array, after: Array) -> tuple[Crossing, ...]:
    start, end = np.searchsorted(boundary, before), np.searchsorted(boundary, after)
    found: list[Crossing] = []
    for step, trajectory in zip(*np.nonzero((start != end).T), strict=True):
        low, high = start[trajectory, step], end[trajectory, step]
        up = bool(high > low)
        at = float(boundary[low if up else low - 1])
        found.append(Crossing(int(trajectory), int(step) + 1, at, 1 if up else -1))
    return tuple(found)

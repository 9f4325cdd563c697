"""One recurrent unit without input: the world in which the paper shows why gradients explode.

    x_t = F(x_{t−1}),   F(x) = w σ(x) + b          x, w, b: numbers        (Pascanu et al. 2013, eq. 8)

Where the orbit ends can be said without iterating. For w ≥ 0, F never falls, so an orbit moves one way only and stops
at the first fixed point it meets. For w < 0 a bounded F has one fixed point x*, and the orbit ends there or, if
w σ'(x*) < −1, on a 2-cycle: σ has negative Schwarzian derivative, so there is exactly one such cycle and it is stable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from steadygrad import checks
from steadygrad.dynamics import bifurcation, fixed_points
from steadygrad.dynamics.arrays import Array, real_array
from steadygrad.dynamics.bifurcation import Bifurcation
from steadygrad.dynamics.fixed_points import FixedPoint
from steadygrad.dynamics.nonlinearity import Nonlinearity, nonlinearity_named


@dataclass(frozen=True)
class Hysteresis:
    """The attractor followed while b rises, then while it falls again.

    Args:
        b: [n], the biases in rising order.
        up: [n, 2], the attractor met on the way up: its lower and its upper state, equal unless it is a 2-cycle.
        down: [n, 2], the same on the way down, in the order of `b`.
    """

    b: Array
    up: Array
    down: Array


@dataclass(frozen=True)
class OneUnit:
    r"""The map of a single recurrent unit with fixed parameters.

    .. math:: F(x) = w \, \sigma(x) + b

    Args:
        w: the recurrent weight.
        b: the bias.
        nonlinearity: "sigmoid" (the paper's), "tanh", "relu" or "identity".

    Example:
        The unit of the paper's Fig. 3, between its two bifurcations, has two attractors and a boundary between them:

        >>> unit = OneUnit(w=5.0, b=-2.5)
        >>> [(round(p.x, 4), p.stability) for p in unit.fixed_points()]
        [(-1.776, 'stable'), (0.0, 'unstable'), (1.776, 'stable')]
        >>> [round(at.b, 4) for at in unit.bifurcations()]
        [-2.6556, -2.3444]
        >>> unit.basin_boundary()
        (0.0,)

    Reference:
        Pascanu, Mikolov & Bengio 2013, section 2.2 and eq. 8; Doya 1993.
    """

    w: float
    b: float
    nonlinearity: str = "sigmoid"

    def __post_init__(self) -> None:
        object.__setattr__(self, "w", checks.number("w", self.w))
        object.__setattr__(self, "b", checks.number("b", self.b))
        nonlinearity_named(self.nonlinearity)

    @property
    def sigma(self) -> Nonlinearity:
        """σ with its derivatives."""
        return nonlinearity_named(self.nonlinearity)

    def __call__(self, x: float | Sequence[float] | Array) -> Array:
        """F(x) = w σ(x) + b for an array of states, elementwise.

        >>> OneUnit(2.0, -1.0)([0.0])
        array([0.])
        """
        return self.w * self.sigma.value(real_array("x", x)) + self.b

    def multiplier(self, x: float | Sequence[float] | Array) -> Array:
        """F'(x) = w σ'(x), the one-step factor of ∂x_t/∂x_k (Pascanu et al. 2013, eq. 5), elementwise."""
        return self.w * self.sigma.slope(real_array("x", x))

    def orbit(self, x0: float, n: int) -> Array:
        """x_0, x_1, …, x_n as an array of shape [n + 1].

        >>> OneUnit(0.5, 0.0, "identity").orbit(8.0, 3)
        array([8., 4., 2., 1.])
        """
        x = checks.number("x0", x0)
        states = np.empty(checks.whole("n", n, low=0) + 1)
        states[0] = x
        with np.errstate(over="ignore", invalid="ignore"):
            for t in range(1, len(states)):
                states[t] = self.w * float(self.sigma.value(states[t - 1])) + self.b
        return states

    def fixed_points(self) -> tuple[FixedPoint, ...]:
        """Every x with F(x) = x, in rising order, each with its multiplier w σ'(x) and stability.

        A tangency (a fold bifurcation, to rounding) counts as one marginal point. For w < 0 there is one fixed point;
        where it is unstable the orbit goes to `two_cycle()`. ValueError where a whole line of states is fixed
        (w = 1, b = 0, relu or identity).
        """
        return self._fixed_points

    @cached_property
    def _fixed_points(self) -> tuple[FixedPoint, ...]:
        return fixed_points.find(self.w, self.b, self.sigma)

    def bifurcations(self) -> tuple[Bifurcation, ...]:
        """The values of b at which this w has a bifurcation, in rising order; this unit's own b plays no part.

        Folds for w > 0, flips for w < 0, in closed form; for relu the one at b = 0, where the fixed point meets the
        kink. None for identity: there b only moves the fixed point.
        """
        return bifurcation.find(self.w, self.sigma)

    def basin_boundary(self) -> tuple[float, ...]:
        """The states that part the basins of attraction, in rising order.

        For w > 0 these are the unstable fixed points (and the marginal one of a fold, which attracts from one side
        only); running away to infinity, possible with relu and identity, counts as a basin. For w ≤ 0 there is a
        single basin and the tuple is empty, also where the attractor is a 2-cycle.
        """
        if self.w <= 0.0:
            return ()
        points = self.fixed_points()
        # A marginal point is a fold (relu's kink, or one of two points); standing alone it is a cusp, which attracts.
        fold = self.nonlinearity == "relu" or len(points) > 1
        return tuple(p.x for p in points if p.stability == "unstable" or (fold and p.stability == "marginal"))

    def two_cycle(self) -> tuple[float, float] | None:
        """The attracting 2-cycle (lower state, upper state), or None where there is none. Only w < 0 can have one.

        >>> OneUnit(-3.0, 1.0, "relu").two_cycle()
        (-2.0, 1.0)
        >>> OneUnit(5.0, -2.5).two_cycle() is None
        True
        """
        if self.w >= 0.0 or self.nonlinearity == "identity":
            return None
        if self.nonlinearity == "relu":
            return (self.w * self.b + self.b, self.b) if self.w < -1.0 and self.b > 0.0 else None
        (point,) = self.fixed_points()
        if point.stability != "unstable":
            return None

        def twice(x: float) -> float:
            return float(self(float(self(x)))) - x

        # F² rises; below x* it lies above the diagonal far out and, since F²'(x*) > 1, beneath it next to x*.
        low = fixed_points.bisect(twice, self.w * self.sigma.bounds[1] + self.b - 1.0, point.x, rising=False)
        return low, float(self(low))

    def attractor(self, x0: float) -> tuple[float, ...]:
        """Where the orbit of x0 ends: one state, or the two of a cycle; ±inf where it runs away.

        >>> OneUnit(5.0, -2.5).attractor(0.1) == (OneUnit(5.0, -2.5).fixed_points()[2].x,)
        True
        >>> OneUnit(2.0, 0.0, "identity").attractor(1.0)
        (inf,)
        """
        x = checks.number("x0", x0)
        if self.w == 1.0 and self.b == 0.0 and self.nonlinearity in ("identity", "relu"):
            return (float(self.sigma.value(x)),)
        if self.w >= 0.0:
            return (self._first_fixed_point(x),)
        if self.w == -1.0 and self.nonlinearity in ("identity", "relu"):
            # Every state on the line (for relu, in [0, b], reached within three steps) is on a neutral 2-cycle.
            return tuple(sorted({float(end) for end in self.orbit(x, 4)[-2:]}))
        (point,) = self.fixed_points()
        if x == point.x or point.stability != "unstable":
            return (point.x,)
        return self.two_cycle() or (-math.inf, math.inf)

    def _first_fixed_point(self, x: float) -> float:
        points = [p.x for p in self.fixed_points()]
        if x in points:
            return x
        left = max((p for p in points if p < x), default=-math.inf)
        right = min((p for p in points if p > x), default=math.inf)
        # F(x) − x has one sign between neighbouring fixed points; half-way it is not blurred by rounding.
        if math.isinf(left) and math.isinf(right):
            probe = x
        elif math.isinf(left):
            probe = right - 1.0
        else:
            probe = left + 1.0 if math.isinf(right) else 0.5 * (left + right)
        return right if float(self(probe)) > probe else left

    def hysteresis(self, b_values: Sequence[float] | Array, x0: float = 0.0) -> Hysteresis:
        """Sweeps b up and down, each time from the attractor of the b before: the way a slowly learning unit moves.

        Args:
            b_values: [n], the biases to visit, strictly rising; this unit's own b plays no part.
            x0: the state the upward sweep begins from.

        Returns:
            The attractor at every b, up and down; the two differ where there is hysteresis.

        Example:
            >>> swept = OneUnit(5.0, 0.0).hysteresis([-3.0, -2.5, -2.0])
            >>> swept.up[:, 0].round(2).tolist(), swept.down[:, 0].round(2).tolist()
            ([-2.68, -1.78, 2.68], [-2.68, 1.78, 2.68])
        """
        b = real_array("b_values", b_values, dims=1)
        if len(b) == 0 or (np.diff(b) <= 0.0).any():
            raise ValueError("b_values must be strictly rising and not empty, so that it can be swept up and down")
        state = checks.number("x0", x0)
        swept = np.empty((2 * len(b), 2))
        for i, value in enumerate((*b, *b[::-1])):
            # What has run away stays away: no finite change of b brings an infinite state back.
            ends = replace(self, b=float(value)).attractor(state) if math.isfinite(state) else (state,)
            swept[i] = min(ends), max(ends)
            state = ends[0]
        return Hysteresis(b, swept[: len(b)], swept[len(b) :][::-1].copy())

"""Every fixed point of x ↦ w σ(x) + b, none missed.

    g(x) = w σ(x) + b − x,   g'(x) = w σ'(x) − 1

g can turn only where σ'(x) = 1/w, and those points are known in closed form. They cut the line into pieces on which g
is monotone, so each piece holds at most one root: its ends' signs tell whether there is one, and bisection finds it to
the last bit. A root that is itself a turning point is a double root: the map is tangent to the diagonal there, which
is what happens at a fold bifurcation. relu and identity are solved by hand.

The multiplier w σ'(x*) says what happens to a small distance from x* in one step; its size is also the factor of
∂x_t/∂x_{t−1} there (Pascanu et al. 2013, eq. 5, for one unit).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from steadygrad.dynamics.nonlinearity import Nonlinearity

Stability = Literal["stable", "unstable", "marginal"]
EPS = math.ulp(1.0)


@dataclass(frozen=True)
class FixedPoint:
    """A state the map leaves where it is.

    Args:
        x: the state x* = w σ(x*) + b.
        multiplier: w σ'(x*); at relu's kink the right-hand one, w.
        stability: "stable" where |multiplier| < 1, "unstable" where it is > 1, "marginal" where it is 1 to rounding.
    """

    x: float
    multiplier: float
    stability: Stability


def rounding(*terms: float) -> float:
    """How far from 0 a sum of these terms may be for rounding alone."""
    return 8.0 * EPS * sum(map(abs, terms))


def find(w: float, b: float, sigma: Nonlinearity) -> tuple[FixedPoint, ...]:
    """All fixed points of x ↦ w σ(x) + b in rising order; see `OneUnit.fixed_points`."""
    if sigma.name == "identity":
        return _identity(w, b)
    if sigma.name == "relu":
        return _relu(w, b)
    return _bounded(w, b, sigma)


def bisect(g: Callable[[float], float], low: float, high: float, rising: bool) -> float:
    """The root of a monotone g between `low` and `high`: the end of the last interval no float can split."""
    while True:
        middle = low + 0.5 * (high - low)
        if middle in (low, high):
            return low if abs(g(low)) < abs(g(high)) else high
        value = g(middle)
        if value == 0.0:
            return middle
        if (value > 0.0) == rising:
            high = middle
        else:
            low = middle


def _bounded(w: float, b: float, sigma: Nonlinearity) -> tuple[FixedPoint, ...]:
    def f(x: float) -> float:
        return w * float(sigma.value(x)) + b

    def g(x: float) -> float:
        return f(x) - x

    turns = sigma.points_of_slope(1.0 / w) if w > 0.0 else ()
    # w σ(x) + b never leaves [low, high]; one beyond either end g is at least 1 away from 0, so the signs are sure.
    low, high = sorted(w * bound + b for bound in sigma.bounds)
    low, high = low - 1.0 - rounding(low), high + 1.0 + rounding(high)
    turns = tuple(x for x in turns if low < x < high)
    touching = [x for x in turns if abs(g(x)) <= rounding(f(x) - b, b, x)]
    found: list[FixedPoint] = []
    if touching:
        # Two turning points touch at once only where they have all but met (the cusp): one point to this precision.
        x = sum(touching) / len(touching)
        found.append(FixedPoint(x, w * float(sigma.slope(x)), "marginal"))
    knots = (low, *turns, high)
    for left, right in itertools.pairwise(knots):
        if left in touching or right in touching or (g(left) > 0.0) == (g(right) > 0.0):
            continue
        rising = g(right) > 0.0
        x = bisect(g, left, right, rising)
        multiplier = w * float(sigma.slope(x))
        # On a rising piece w σ' > 1 and on a falling one w σ' < 1, whatever rounding makes of the number itself.
        found.append(FixedPoint(x, multiplier, "unstable" if rising else _below_one(multiplier, x, b)))
    return tuple(sorted(found, key=lambda point: point.x))


def _below_one(multiplier: float, x: float, b: float) -> Stability:
    if abs(multiplier + 1.0) <= rounding(1.0, x, b, x - b):
        return "marginal"
    return "stable" if multiplier > -1.0 else "unstable"


def _label(multiplier: float) -> Stability:
    if abs(multiplier) == 1.0:
        return "marginal"
    return "stable" if abs(multiplier) < 1.0 else "unstable"


def _identity(w: float, b: float) -> tuple[FixedPoint, ...]:
    if w == 1.0:
        if b == 0.0:
            raise ValueError("w = 1 and b = 0 with identity leave every x where it is: no list of fixed points exists")
        return ()
    return _if_finite(b / (1.0 - w), w, _label(w))


def _relu(w: float, b: float) -> tuple[FixedPoint, ...]:
    if w == 1.0 and b == 0.0:
        raise ValueError("w = 1 and b = 0 with relu leave every x ≥ 0 where it is: no list of fixed points exists")
    if b == 0.0:
        # Left of the kink everything falls on 0 in one step; right of it the distance is multiplied by w (and for
        # w < 0 the next state is on the left). Only w > 1 drives states away, and on one side alone.
        return (FixedPoint(0.0, w, "marginal" if w > 1.0 else "stable"),)
    left = (FixedPoint(b, 0.0, "stable"),) if b < 0.0 else ()
    right = _if_finite(b / (1.0 - w), w, _label(w)) if b * (1.0 - w) > 0.0 else ()
    return left + right


def _if_finite(x: float, multiplier: float, stability: Stability) -> tuple[FixedPoint, ...]:
    return (FixedPoint(x, multiplier, stability),) if math.isfinite(x) else ()

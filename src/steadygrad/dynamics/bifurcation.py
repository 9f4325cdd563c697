"""The values of b at which the picture changes, in closed form, for x ↦ w σ(x) + b with w held fixed.

    fold:  w σ'(x) = +1     a stable and an unstable fixed point meet and vanish
    flip:  w σ'(x) = −1     a fixed point loses its stability to a 2-cycle
    both at  b = x − w σ(x),   because x is then a fixed point

For a sigmoid, σ' = σ(1 − σ) and σ = ½(1 ± √(1 − 4/|w|)); for tanh, σ' = 1 − σ² and σ = ±√(1 − 1/|w|). So folds exist
from w = 4 (sigmoid) or w = 1 (tanh) on, that is from w = 1/γ, the bound at which gradients may explode (Pascanu et
al. 2013, section 2.1); b₁ and b₂ of section 2.2 and Fig. 3 are the two folds of w = 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from steadygrad.dynamics.nonlinearity import Nonlinearity


@dataclass(frozen=True)
class Bifurcation:
    """A value of b where fixed points appear, vanish or change their stability.

    Args:
        b: the bias.
        x: the fixed point it happens to.
        kind: "fold", "flip", or "cusp" where |w| is just large enough: two folds (or two flips) coincide, and the
            multiplier touches ±1 without passing through it.
        multiplier: the value of w σ'(x) reached there, +1 or −1.
    """

    b: float
    x: float
    kind: Literal["fold", "flip", "cusp"]
    multiplier: float


def find(w: float, sigma: Nonlinearity) -> tuple[Bifurcation, ...]:
    """All bifurcations of x ↦ w σ(x) + b in b, in rising order of b; see `OneUnit.bifurcations`."""
    if w == 0.0 or sigma.name == "identity":
        return ()
    sign = 1.0 if w > 0.0 else -1.0
    if sigma.name == "relu":
        # relu's slope jumps from 0 to w at x = 0, so the multiplier passes ±1 exactly when the fixed point is there.
        if abs(w) < 1.0:
            return ()
        return (Bifurcation(0.0, 0.0, "fold" if w > 0.0 else "flip", sign),)
    points = sigma.points_of_slope(1.0 / abs(w))
    kind = "cusp" if len(points) == 1 else ("fold" if w > 0.0 else "flip")
    found = [Bifurcation(x - w * float(sigma.value(x)), x, kind, sign) for x in points]
    return tuple(sorted(found, key=lambda bifurcation: bifurcation.b))

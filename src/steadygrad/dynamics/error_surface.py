"""The error surface of one unit that must reach a target after T steps (Pascanu et al. 2013, section 2.3, Fig. 6).

    x_t = w σ(x_{t−1}) + b,   E = (σ(x_T) − d)²           T = 50, x_0 = 0.5, d = 0.7, σ sigmoid in the paper

Its derivatives are carried forward with the state, exactly. With p = ∂x/∂w, q = ∂x/∂b and s, s', s'' for σ, σ', σ''
at x_{t−1}:

    p  ← s + w s' p                       ww ← 2 s' p + w (s'' p² + s' ww)
    q  ← 1 + w s' q                       wb ← s' q   + w (s'' p q + s' wb)
                                          bb ←          w (s'' q² + s' bb)

and then, with e' = dE/dx_T and e'' = d²E/dx_T²: ∇E = e' (p, q), ∇²E = e'' (p, q)⊗(p, q) + e' [[ww, wb], [wb, bb]].

**The wall.** Where x_0 itself is the unstable fixed point, b = x_0 − w σ(x_0) with w σ'(x_0) > 1, the state stands on
the boundary between two basins. Every factor w s' is then the same number above 1, so the gradient across that line
grows like (w σ'(x_0))^T: the wall of Fig. 6 is the boundary crossing of section 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from steadygrad import checks
from steadygrad.dynamics import descent
from steadygrad.dynamics.arrays import Array, real_array
from steadygrad.dynamics.descent import BasinStatistics, Descent
from steadygrad.dynamics.nonlinearity import Nonlinearity, nonlinearity_named


@dataclass(frozen=True)
class FinalState:
    """x_T with its derivatives in θ = (w, b).

    Args:
        x: [...], the final state.
        gradient: [..., 2], (∂x_T/∂w, ∂x_T/∂b).
        curvature: [..., 2, 2], the second derivatives.
    """

    x: Array
    gradient: Array
    curvature: Array


@dataclass(frozen=True)
class ErrorSurface:
    r"""The error after T steps as a function of the unit's two parameters.

    .. math:: E(w, b) = (\sigma(x_T) - d)^2, \quad x_t = w\,\sigma(x_{t-1}) + b

    Args:
        steps: T.
        x0: the initial state.
        target: d, what σ(x_T) should be.
        nonlinearity: "sigmoid" (the paper's), "tanh", "relu" or "identity".

    `loss`, `gradient` and `curvature` take w and b as numbers or arrays that broadcast to a common shape [...].

    Example:
        At w = 6 the wall is the line b = x_0 − 6 σ(x_0), and its gradient is out of all proportion:

        >>> surface = ErrorSurface()
        >>> wall = surface.wall(6.0)
        >>> on, beside = np.linalg.norm(surface.gradient(6.0, [wall, wall + 0.1]), axis=-1)
        >>> f"{on:.0e} {beside:.0e}"
        '3e+06 9e-02'

    Reference:
        Pascanu, Mikolov & Bengio 2013, section 2.3.
    """

    steps: int = 50
    x0: float = 0.5
    target: float = 0.7
    nonlinearity: str = "sigmoid"

    def __post_init__(self) -> None:
        checks.whole("steps", self.steps)
        object.__setattr__(self, "x0", checks.number("x0", self.x0))
        object.__setattr__(self, "target", checks.number("target", self.target))
        nonlinearity_named(self.nonlinearity)

    @property
    def sigma(self) -> Nonlinearity:
        """σ with its derivatives."""
        return nonlinearity_named(self.nonlinearity)

    def mesh(self, w_range: tuple[float, float], b_range: tuple[float, float], grid: int) -> tuple[Array, Array]:
        """w and b [rows, grid] of a mesh whose rows follow the wall, to draw the surface over.

        Over a square grid a step so steep would be a row of teeth. The wall's width is that of the state's whole swing,
        1/(∂x_T/∂b), and a third of the rows lie within it.
        """
        w = np.linspace(*w_range, grid)
        wall = self.wall(w)
        half = np.minimum(0.05, 8.0 / self.final_state(w, wall).gradient[:, 1])
        within = wall + np.linspace(-1.0, 1.0, 2 * (grid // 6))[:, None] * half
        share = np.linspace(0.0, 1.0, grid // 3 + 1)[1:, None] ** 2
        below = b_range[0] + (1.0 - share[::-1]) * (within[0] - b_range[0])
        above = within[-1] + share * (b_range[1] - within[-1])
        b = np.concatenate([below, within, above])
        return np.broadcast_to(w, b.shape).copy(), b

    def wall(self, w: Any) -> Array:
        """The b at which x_0 is a fixed point, b = x_0 − w σ(x_0): a wall wherever w σ'(x_0) > 1. Shape of w."""
        return self.x0 - real_array("w", w) * self.sigma.value(self.x0)

    def loss(self, w: Any, b: Any) -> Array:
        """E(w, b), of shape [...].

        >>> ErrorSurface(steps=1, x0=1.0, target=0.0, nonlinearity="identity").loss(2.0, [0.0, 1.0])
        array([4., 9.])
        """
        w, b = _parameters(w, b)
        with np.errstate(over="ignore", invalid="ignore"):
            x = np.full(w.shape, self.x0)
            for _ in range(self.steps):
                x = w * self.sigma.value(x) + b
            return np.square(self.sigma.value(x) - self.target)

    def gradient(self, w: Any, b: Any) -> Array:
        """(∂E/∂w, ∂E/∂b), of shape [..., 2]."""
        w, b = _parameters(w, b)
        return self._loss_and_gradient(w, b)[1]

    def curvature(self, w: Any, b: Any) -> Array:
        """The Hessian [[∂²E/∂w², ∂²E/∂w∂b], [∂²E/∂b∂w, ∂²E/∂b²]], of shape [..., 2, 2]."""
        end = self.final_state(w, b)
        with np.errstate(over="ignore", invalid="ignore"):
            first, second = self._error_slopes(end.x)
            outer = end.gradient[..., :, None] * end.gradient[..., None, :]
            return second[..., None, None] * outer + first[..., None, None] * end.curvature

    def final_state(self, w: Any, b: Any) -> FinalState:
        """x_T, ∂x_T/∂θ and ∂²x_T/∂θ²: with identity and b = 0, x_0 w^T, T x_0 w^(T−1) and T(T−1) x_0 w^(T−2)."""
        w, b = _parameters(w, b)
        x = np.full(w.shape, self.x0)
        p, q, ww, wb, bb = (np.zeros(w.shape) for _ in range(5))
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(self.steps):
                (s, s1), s2 = self.sigma.value_and_slope(x), self.sigma.bend(x)
                ww = 2.0 * s1 * p + w * (s2 * p * p + s1 * ww)
                wb = s1 * q + w * (s2 * p * q + s1 * wb)
                bb = w * (s2 * q * q + s1 * bb)
                p, q, x = s + w * s1 * p, 1.0 + w * s1 * q, w * s + b
        curvature = np.stack([np.stack([ww, wb], -1), np.stack([wb, bb], -1)], -2)
        return FinalState(x, np.stack([p, q], -1), curvature)

    def descend(
        self, start: Any, lr: float, threshold: float | None = None, *, steps: int = 300, tolerance: float = 1e-3
    ) -> Descent:
        """Gradient descent from `start` = (w, b), clipped where `threshold` is given; see `descent.descend`.

        Example:
            From this start plain descent touches the wall and is thrown off it, clipped descent is not:

            >>> plain, clipped = (ErrorSurface().descend((5.0, -2.2), lr=0.5, threshold=t) for t in (None, 0.2))
            >>> [round(float(np.hypot(*np.diff(run.path, axis=0).T).max()), 1) for run in (plain, clipped)]
            [2.6, 0.1]
            >>> plain.reached, clipped.reached
            (False, True)
        """
        return descent.descend(self._loss_and_gradient, start, lr, threshold, steps=steps, tolerance=tolerance)

    def basin_statistics(
        self, starts: Any, lr: float, threshold: float, *, steps: int = 300, tolerance: float = 1e-3
    ) -> BasinStatistics:
        """Plain and clipped descent from every start of [N, 2]; see `descent.basin_statistics`."""
        return descent.basin_statistics(
            self._loss_and_gradient, starts, lr, threshold, steps=steps, tolerance=tolerance
        )

    def _loss_and_gradient(self, w: Array, b: Array) -> tuple[Array, Array]:
        value_and_slope = self.sigma.value_and_slope
        x, p, q = np.full(w.shape, self.x0), np.zeros(w.shape), np.zeros(w.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(self.steps):
                s, s1 = value_and_slope(x)
                factor = w * s1
                p, q, x = s + factor * p, 1.0 + factor * q, w * s + b
            s, s1 = value_and_slope(x)
            miss = s - self.target
            return np.square(miss), 2.0 * (miss * s1)[..., None] * np.stack([p, q], -1)

    def _error_slopes(self, x: Array) -> tuple[Array, Array]:
        s, s1 = self.sigma.value_and_slope(x)
        miss = s - self.target
        return 2.0 * miss * s1, 2.0 * (s1 * s1 + miss * self.sigma.bend(x))


def _parameters(w: Any, b: Any) -> tuple[Array, Array]:
    w, b = real_array("w", w), real_array("b", b)
    try:
        w, b = np.broadcast_arrays(w, b)
    except ValueError:
        raise ValueError(f"w and b must broadcast to one shape, not be of shapes {w.shape} and {b.shape}") from None
    return w, b

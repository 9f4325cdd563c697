"""Gradient descent on an error surface, plain or with the gradient's norm clipped (Pascanu et al. 2013, Algorithm 1).

    g ← ∇E(θ);   if ‖g‖ ≥ threshold: g ← threshold/‖g‖ · g;   θ ← θ − lr g          θ = (w, b)

Many starts are followed at once: a row of θ: [N, 2] is a run of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steadygrad import checks
from steadygrad.dynamics.arrays import Array, real_array

LossAndGradient = Callable[[Array, Array], tuple[Array, Array]]
"""(w: [N], b: [N]) ↦ (E: [N], ∇E: [N, 2])."""


@dataclass(frozen=True)
class Descent:
    """One run: what descent saw at each point of its path.

    Args:
        path: [n + 1, 2], the points (w, b), the start first.
        losses: [n + 1], E at each.
        norms: [n + 1], ‖∇E‖ at each, before clipping.
        clipped: [n], whether the step from that point was clipped.
        reached: whether the last loss is below the tolerance.
        diverged: whether a gradient or a point stopped being finite; the path then ends at the last finite point.
    """

    path: Array
    losses: Array
    norms: Array
    clipped: NDArray[np.bool_]
    reached: bool
    diverged: bool


@dataclass(frozen=True)
class BasinStatistics:
    """Where plain and clipped descent end, from the same starts.

    Args:
        starts: [N, 2].
        plain_end, clipped_end: [N, 2], the last finite point of each run.
        plain_loss, clipped_loss: [N], E there.
        plain_jump, clipped_jump: [N], the longest single step of each run.
        plain_reached, clipped_reached: [N], whether that loss is below the tolerance: the run ended in the valley.
    """

    starts: Array
    plain_end: Array
    clipped_end: Array
    plain_loss: Array
    clipped_loss: Array
    plain_jump: Array
    clipped_jump: Array
    plain_reached: NDArray[np.bool_]
    clipped_reached: NDArray[np.bool_]

    def fractions(self) -> dict[str, float]:
        """The fractions of starts that reach the valley: plain, clipped, clipped only, plain only."""
        plain, clipped = self.plain_reached, self.clipped_reached
        return {
            "plain": float(plain.mean()),
            "clipped": float(clipped.mean()),
            "clipped_only": float((clipped & ~plain).mean()),
            "plain_only": float((plain & ~clipped).mean()),
        }


def descend(
    surface: LossAndGradient, start: Any, lr: float, threshold: float | None = None, *, steps: int, tolerance: float
) -> Descent:
    """Follows gradient descent from one start.

    Args:
        surface: the loss and its gradient.
        start: (w, b).
        lr: the learning rate.
        threshold: the norm above which a gradient is scaled back; None leaves all as they are.
        steps: how many updates.
        tolerance: the loss below which the valley counts as reached.

    Example:
        >>> from steadygrad.dynamics import ErrorSurface
        >>> line = ErrorSurface(steps=1, x0=0.0, target=0.0, nonlinearity="identity")   # E = b²
        >>> line.descend((1.0, 4.0), lr=0.5, threshold=2.0, steps=2).path.tolist()
        [[1.0, 4.0], [1.0, 3.0], [1.0, 2.0]]

    Reference:
        Pascanu, Mikolov & Bengio 2013, Algorithm 1.
    """
    theta = real_array("start", start)
    if theta.shape != (2,):
        raise ValueError(f"start must be one point (w, b), not an array of shape {theta.shape}")
    _check(lr, threshold, steps, tolerance)
    limit = np.array([np.inf if threshold is None else threshold])
    path, losses, norms, clipped = [theta], [], [], []
    loss, gradient = surface(theta[:1], theta[1:])
    for _ in range(steps):
        update, norm, cut = _step(gradient, lr, limit)
        point = path[-1] - update[0]
        following, next_gradient = surface(point[:1], point[1:])
        if not (np.isfinite(point).all() and np.isfinite(next_gradient).all() and np.isfinite(following).all()):
            break
        losses.append(loss[0])
        norms.append(norm[0])
        clipped.append(cut[0])
        path.append(point)
        loss, gradient = following, next_gradient
    losses.append(loss[0])
    norms.append(_norm(gradient)[0])
    diverged = len(path) <= steps
    return Descent(
        np.array(path),
        np.array(losses),
        np.array(norms),
        np.array(clipped, dtype=np.bool_),
        reached=bool(losses[-1] < tolerance) and not diverged,
        diverged=diverged,
    )


def basin_statistics(
    surface: LossAndGradient, starts: Any, lr: float, threshold: float, *, steps: int, tolerance: float
) -> BasinStatistics:
    """Runs plain and clipped descent from every start and counts how often each ends in the valley.

    Args:
        surface: the loss and its gradient.
        starts: [N, 2], the points (w, b) to begin from.
        lr: the learning rate of both.
        threshold: the clipping threshold of the clipped runs.
        steps: how many updates.
        tolerance: the loss below which a run counts as in the valley.

    Example:
        >>> from steadygrad.dynamics import ErrorSurface
        >>> line = ErrorSurface(steps=1, x0=0.0, target=0.0, nonlinearity="identity")   # E = b²
        >>> line.basin_statistics([[1.0, 4.0], [1.0, 40.0]], lr=0.5, threshold=2.0, steps=5).fractions()
        {'plain': 1.0, 'clipped': 0.5, 'clipped_only': 0.0, 'plain_only': 0.5}
    """
    theta = real_array("starts", starts, dims=2)
    if theta.shape[1] != 2 or len(theta) == 0:
        raise ValueError(f"starts must be points (w, b) in an array of shape [N, 2], not {list(theta.shape)}")
    _check(lr, threshold, steps, tolerance)
    if threshold is None:
        raise ValueError("threshold must be a finite number above 0, not None: the clipped runs need one")
    # Both kinds of run side by side: rows never meet, and a threshold of ∞ clips nothing.
    limits = np.repeat([np.inf, threshold], len(theta))
    end, loss, jump = _follow(surface, np.concatenate([theta, theta]), lr, limits, steps)
    (plain_end, clipped_end), (plain_loss, clipped_loss) = np.split(end, 2), np.split(loss, 2)
    plain_jump, clipped_jump = np.split(jump, 2)
    return BasinStatistics(
        theta,
        plain_end,
        clipped_end,
        plain_loss,
        clipped_loss,
        plain_jump,
        clipped_jump,
        plain_loss < tolerance,
        clipped_loss < tolerance,
    )


def _follow(
    surface: LossAndGradient, theta: Array, lr: float, threshold: Array, steps: int
) -> tuple[Array, Array, Array]:
    jump = np.zeros(len(theta))
    loss, gradient = surface(theta[:, 0], theta[:, 1])
    alive = np.isfinite(gradient).all(-1) & np.isfinite(loss)
    for _ in range(steps):
        update, _, _ = _step(gradient, lr, threshold)
        point = np.where(alive[:, None], theta - update, theta)
        following, next_gradient = surface(point[:, 0], point[:, 1])
        alive &= np.isfinite(point).all(-1) & np.isfinite(next_gradient).all(-1) & np.isfinite(following)
        jump = np.where(alive, np.maximum(jump, _norm(point - theta)), jump)
        theta = np.where(alive[:, None], point, theta)
        loss, gradient = np.where(alive, following, loss), np.where(alive[:, None], next_gradient, gradient)
    # A run that left the finite numbers has not come to rest anywhere, whatever its last loss was.
    return theta, np.where(alive, loss, np.inf), jump


def _step(gradient: Array, lr: float, threshold: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    norm = _norm(gradient)
    cut = norm >= threshold
    with np.errstate(over="ignore", invalid="ignore"):
        unit = gradient / np.where(cut, norm, 1.0)[:, None]
        return lr * np.where(cut[:, None], threshold[:, None] * unit, gradient), norm, cut


def _norm(vectors: Array) -> Array:
    # hypot, because the squares of a gradient of 1e200 overflow while its norm does not.
    return np.hypot(vectors[..., 0], vectors[..., 1])


def _check(lr: float, threshold: float | None, steps: int, tolerance: float) -> None:
    checks.number("lr", lr, low=0.0, open_low=True)
    if threshold is not None:
        checks.number("threshold", threshold, low=0.0, open_low=True)
    checks.whole("steps", steps)
    checks.number("tolerance", tolerance, low=0.0, open_low=True)

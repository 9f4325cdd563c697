"""Preconditioned conjugate gradients, stopped where the quadratic no longer falls (Martens 2010).

    φ(x) = ½ xᵀA x − bᵀx = −½ xᵀ(r + b),   r = b − A x          A symmetric, positive definite
    y = M⁻¹ r,   α = rᵀy / pᵀA p,   x ← x + α p,   r ← r − α A p,   p ← y' + (r'ᵀy' / rᵀy) p        M diagonal

    relative progress: stop after iteration i if  i > k,  φ(x_i) < 0  and  (φ(x_i) − φ(x_{i−k})) / φ(x_i) < k ε,
                       k = max(10, i/10), rounded up

A is needed only through its products with vectors. For a search that goes back along the way to the solution, the iterates of
iterations 1, 2, 3, 4, 6, 8, 11, … (each about `spacing` times the one before) are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]
Reason = Literal["progress", "residual", "curvature", "limit"]


@dataclass(frozen=True)
class Solution:
    """What conjugate gradients found.

    Attributes:
        iterates: pairs (iteration, x), oldest first; the last is the solution.
        values: φ(x_0), φ(x_1), … of every iteration.
        stopped: why: "progress" (see above), "residual" (r is 0 up to rounding), "curvature" (pᵀA p is not positive, so A is
            not positive definite up to rounding) or "limit" (`max_iterations`).
    """

    iterates: tuple[tuple[int, Tensor], ...]
    values: tuple[float, ...]
    stopped: Reason

    @property
    def x(self) -> Tensor:
        """The solution."""
        return self.iterates[-1][1]

    @property
    def iterations(self) -> int:
        """How many were made."""
        return len(self.values) - 1


def conjugate_gradients(
    product: Product,
    b: Tensor,
    start: Tensor | None = None,
    preconditioner: Tensor | None = None,
    *,
    max_iterations: int = 250,
    tolerance: float = 5e-4,
    spacing: float = 1.3,
) -> Solution:
    """Minimise φ, that is, solve A x = b.

    Args:
        product: A v of a vector v.
        b: the right-hand side, [n].
        start: x_0, [n]; zeros if None.
        preconditioner: the diagonal of M, [n], positive; ones if None.
        max_iterations: the most products, but for the one at `start`.
        tolerance: ε of the relative progress; 0 never stops by it.
        spacing: how far apart kept iterates are, as a factor.

    Example:
        >>> a = torch.tensor([[4.0, 1.0], [1.0, 3.0]])
        >>> found = conjugate_gradients(lambda v: a @ v, torch.tensor([1.0, 2.0]))
        >>> found.x, found.iterations
        (tensor([0.0909, 0.6364]), 2)

    Reference: Martens 2010, "Deep learning via Hessian-free optimization", sections 4.4, 4.6 and 4.7.
    """
    x = torch.zeros_like(b) if start is None else start.clone()
    r = b.clone() if start is None else b - product(x)
    M = torch.ones_like(b) if preconditioner is None else preconditioner
    y = r / M
    p, r_y = y, _dot(r, y)
    small = torch.finfo(b.dtype).eps * max(_dot(b, b), _dot(r, r)) ** 0.5
    values, kept, next_kept = [-0.5 * _dot(x, r + b)], [], 1
    stopped: Reason = "residual"
    i = 0
    while _dot(r, r) ** 0.5 > small:
        if i == max_iterations:
            stopped = "limit"
            break
        A_p = product(p)
        p_A_p = _dot(p, A_p)
        if not p_A_p > 0:  # so that NaN ends it too
            stopped = "curvature"
            break
        i += 1
        alpha = r_y / p_A_p
        x = x + alpha * p
        r = r - alpha * A_p
        y = r / M
        r_y, before = _dot(r, y), r_y
        p = y + (r_y / before) * p
        values.append(-0.5 * _dot(x, r + b))
        if i >= next_kept:
            kept.append((i, x))
            next_kept = math.ceil(next_kept * spacing)
        if makes_no_progress(values, tolerance):
            stopped = "progress"
            break
    if not kept or kept[-1][0] != i:
        kept.append((i, x))
    return Solution(tuple(kept), tuple(values), stopped)


def makes_no_progress(values: Sequence[float], tolerance: float) -> bool:
    """Whether the relative progress over the last k iterations is below k ε.

    Args:
        values: φ(x_0) … φ(x_i).
        tolerance: ε.
    """
    i = len(values) - 1
    k = max(10, math.ceil(0.1 * i))
    if i <= k or values[i] >= 0:
        return False
    return (values[i] - values[i - k]) / values[i] < k * tolerance


def _dot(a: Tensor, b: Tensor) -> float:
    return float(torch.dot(a, b))

"""What becomes of an error as a product of Jacobians grows by one step after another.

    P_l = J_t J_{t-1} ⋯ J_{t-l+1}         each J a product of diagonals [n] and matrices [n, n], left factor first (layer.py)

P_{l+1}^T = J^T P_l^T and P_{l+1}^{-1} = J^{-1} P_l^{-1} both grow from the left, so one kind of product (products.py) serves
for the largest singular value (of P_l^T) and for the smallest (one over the largest of P_l^{-1}).

Each class holds one quantity: `logs` for the lags 0 … l, and `step_back` from lag l to l + 1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .layer import Layer, inverse
from .plain import PlainLayer
from .products import ScaledProduct


class Largest:
    """log ‖P_l‖."""

    def __init__(self, size: int) -> None:
        self.product, self.logs = ScaledProduct(size), [0.0]

    def step_back(self, factors: list[Tensor]) -> None:
        # Factoring right after a diagonal keeps the rows of dead units exactly zero.
        has_diagonal = any(factor.dim() == 1 for factor in factors)
        for factor in factors:
            if factor.dim() == 1:
                self.product.scale_rows(factor)
            else:
                self.product.multiply(factor.T)
            if factor.dim() == 1 or not has_diagonal:
                self.product.refactor()
        self.logs.append(self.product.log_norm())


class Smallest:
    """−log ‖P_l⁻¹‖; −inf from the first singular factor on: a product never regains rank."""

    def __init__(self, size: int) -> None:
        self.product, self.logs = ScaledProduct(size), [0.0]
        self.is_singular = False
        self._last: tuple[Tensor | None, Tensor | None] = (None, None)

    def step_back(self, factors: list[Tensor]) -> None:
        for factor in factors:
            if self.is_singular:
                break
            if factor.dim() == 1:
                self._divide(factor)
            else:
                self._solve(factor)
        if not self.is_singular:
            self.product.refactor()
        self.logs.append(-math.inf if self.is_singular else -self.product.log_norm())

    def _divide(self, scales: Tensor) -> None:
        self.is_singular = not scales.all()
        if not self.is_singular:
            least = scales.min()
            self.product.scale_rows(least / scales, -math.log(least))

    def _solve(self, matrix: Tensor) -> None:
        if self._last[0] is not matrix:  # W_rec is the same at every step
            self._last = (matrix, inverse(matrix))
        inverted = self._last[1]
        self.is_singular = inverted is None
        if inverted is not None:
            self.product.multiply(inverted)


class Bound:
    """l · log(bound on one Jacobian's norm) of a plain layer; of others the sum of the logarithms of those norms."""

    def __init__(self, layer: Layer) -> None:
        self.per_step = layer.log_bound() if isinstance(layer, PlainLayer) else None
        self.logs = [0.0]

    def step_back(self, factors: list[Tensor]) -> None:
        if self.per_step is not None:
            self.logs.append(len(self.logs) * self.per_step)
            return
        matrices = [torch.diag(factor) if factor.dim() == 1 else factor for factor in factors]
        jacobian = matrices[0]
        for matrix in matrices[1:]:
            jacobian = jacobian @ matrix
        norm = torch.linalg.matrix_norm(jacobian, 2).item()
        self.logs.append(self.logs[-1] + (math.log(norm) if norm > 0 else -math.inf))


class Along:
    """log(‖δ P_l‖ / ‖δ‖)."""

    def __init__(self, delta: Tensor) -> None:
        self.delta, self.logs = unit(delta)[0], [0.0]

    def step_back(self, factors: list[Tensor]) -> None:
        for factor in factors:
            self.delta = factor * self.delta if factor.dim() == 1 else factor.T @ self.delta
        self.delta, log_norm = unit(self.delta)
        self.logs.append(self.logs[-1] + log_norm)


def unit(vector: Tensor) -> tuple[Tensor, float]:
    """The vector at length 1 and the log of its length (squares of entries below 1e-154 would underflow unscaled)."""
    top = vector.abs().max()
    if top == 0:
        return vector, -math.inf
    vector = vector / top
    norm = vector.norm()
    return vector / norm, (top.log() + norm.log()).item()

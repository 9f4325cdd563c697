"""The plain layer and its Jacobians.

    a_t = W_rec h_{t-1} + W_in u_t + b                  [B, H]     the paper's x_t (Pascanu et al. 2013, eq. 2)
    h_t = leak · h_{t-1} + (1 − leak) · σ(a_t)          [B, H]     leak = 0: h_t = σ(x_t)

A plain layer has two equivalent states, x_t and h_t; a leaky one only h_t, since a_t does not determine h_t. Their
Jacobians, in the column convention (the paper writes the transposes):

    ∂x_t/∂x_{t-1} = W_rec diag(σ'(x_{t-1}))
    ∂h_t/∂h_{t-1} = leak · I + (1 − leak) · diag(σ'(a_t)) W_rec
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .layer import Components, Layer
from .sigma import largest_slope, sigma, slope


@dataclass(frozen=True)
class PlainLayer(Layer):
    """The numbers of one layer: W_rec [H, H], W_in [H, D], b [H] (both of torch's biases added)."""

    weight_hh: Tensor
    weight_ih: Tensor
    bias: Tensor
    nonlinearity: str
    leak: float

    name = "an RNN"
    states = ("x", "h")

    @property
    def size(self) -> int:
        return self.weight_hh.shape[0]

    @property
    def hidden(self) -> int:
        return self.weight_hh.shape[0]

    def drive(self, u: Tensor) -> Tensor:
        return u @ self.weight_ih.T + self.bias

    def before(self, h: Tensor, drive: Tensor) -> Tensor:
        """a_t, the state before the nonlinearity."""
        return h @ self.weight_hh.T + drive

    def next(self, s: Tensor, drive: Tensor) -> Tensor:
        return self.leak * s + (1 - self.leak) * sigma(self.before(s, drive), self.nonlinearity)

    def slopes(self, h: Tensor, drive: Tensor) -> Tensor:
        """σ'(a_t)."""
        return slope(self.before(h, drive), self.nonlinearity)

    def jacobian(self, slopes: Tensor) -> Tensor:
        """∂h_t/∂h_{t-1} [..., H, H] where the slopes σ'(a_t) are [..., H]."""
        jacobian = (1 - self.leak) * slopes.unsqueeze(-1) * self.weight_hh
        if self.leak:
            jacobian = jacobian + self.leak * torch.eye(self.weight_hh.shape[0], dtype=jacobian.dtype)
        return jacobian

    def jacobian_at(self, s: Tensor, drive: Tensor) -> Tensor:
        return self.jacobian(self.slopes(s, drive))

    def factors(self, s: Tensor, drive: Tensor) -> list[Tensor]:
        slopes = self.slopes(s, drive)[0]
        return [self.jacobian(slopes)] if self.leak else [slopes, self.weight_hh]

    def rank(self, s: Tensor, drive: Tensor, J: Tensor) -> Tensor:
        if self.leak:
            return torch.full((len(s),), self.size)
        return self.slopes(s, drive).ne(0).sum(-1).clamp(max=self._weight_rank)

    @cached_property
    def _weight_rank(self) -> int:
        return int(torch.linalg.matrix_rank(self.weight_hh))

    def log_bound(self) -> float:
        """log of the bound on every Jacobian's norm: leak + (1 − leak) γ σ_max(W_rec); −inf for W_rec = 0."""
        sigma_max = torch.linalg.matrix_norm(self.weight_hh, 2).item()
        bound = self.leak + (1 - self.leak) * largest_slope(self.nonlinearity) * sigma_max
        return math.log(bound) if bound > 0 else -math.inf

    def parameters(self) -> Components:
        return {"weight_hh": self.weight_hh, "weight_ih": self.weight_ih, "bias": self.bias}

    def pull_back(self, e: Tensor, s: Tensor, drive: Tensor, u: Tensor) -> tuple[Components, Tensor]:
        delta = (1 - self.leak) * self.slopes(s, drive) * e
        components = {"weight_hh": delta.T @ s, "weight_ih": delta.T @ u, "bias": delta.sum(0)}
        return components, self.leak * e + delta @ self.weight_hh

    def gap(self, s: Tensor, drive: Tensor) -> Tensor:
        # The same points for every leak < 1; F(h) − h itself would shrink as the leak nears 1.
        return sigma(self.before(s, drive), self.nonlinearity) - s

    def gap_jacobian(self, s: Tensor, drive: Tensor) -> Tensor:
        return self.slopes(s, drive).unsqueeze(2) * self.weight_hh - torch.eye(self.size, dtype=s.dtype)

    def spread(self, draw: Tensor, drive: Tensor) -> Tensor:
        if self.nonlinearity in ("tanh", "identity"):
            draw = 2 * draw - 1
        if self.nonlinearity in ("relu", "identity"):
            # No range is given: the drive sets the scale.
            draw = 2 * draw * (1 + drive.abs().max())
        return draw

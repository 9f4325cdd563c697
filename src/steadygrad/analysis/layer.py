"""What every recurrent layer is to the analysis: a map of its state, with a Jacobian.

    s_t = F(s_{t-1}, d_t)          s [B, n] the state as one vector,  d_t = drive(u_t) what the input contributes
    J_t = ∂s_t/∂s_{t-1}            [B, n, n]

| layer                      | state s            | n      | Jacobian     | file        |
|----------------------------|--------------------|--------|--------------|-------------|
| RNN, RNNCell, leaky or not | h                  | H      | closed form  | plain.py    |
| GRU, GRUCell               | h                  | H      | closed form  | gated.py    |
| LSTM, LSTMCell             | [h, c], one vector | 2H     | closed form  | gated.py    |
| Recurrent(cell), any cell  | all parts, flat    | varies | torch.func   | own_cell.py |

The first `hidden` entries of s are what the layer puts out.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod

import torch
from torch import Tensor

Components = dict[str, Tensor]


class Layer(ABC):
    """One layer, copied from a model: float64, on the CPU."""

    name: str
    """As messages call it: "an RNN", "a GRU", …"""
    states: tuple[str, ...] = ("h",)
    """What `jacobian_norms` may call its state."""
    state_is: str = "H"
    """The length of the state as messages call it."""

    @property
    @abstractmethod
    def size(self) -> int:
        """n, the length of the state."""

    @property
    @abstractmethod
    def hidden(self) -> int:
        """How many entries of the state are put out."""

    @abstractmethod
    def drive(self, u: Tensor) -> Tensor:
        """What the inputs u [..., D] contribute to their steps, computed for all of them at once."""

    @abstractmethod
    def next(self, s: Tensor, drive: Tensor) -> Tensor:
        """F: the next state [B, n]."""

    @abstractmethod
    def jacobian_at(self, s: Tensor, drive: Tensor) -> Tensor:
        """∂F/∂s at s [B, n]: [B, n, n]."""

    @abstractmethod
    def parameters(self) -> Components:
        """θ, by the names under which `temporal_components` reports them."""

    @abstractmethod
    def pull_back(self, e: Tensor, s: Tensor, drive: Tensor, u: Tensor) -> tuple[Components, Tensor]:
        """From e = ∂E/∂s_t [B, n]: e · ∂⁺s_t/∂θ, summed over the batch, and e · J_t."""

    def factors(self, s: Tensor, drive: Tensor) -> list[Tensor]:
        """J of one sequence (s [1, n]) as a product: diagonals as vectors [n] and matrices [n, n].

        Rows of very different size stand apart from what decides whether J is singular.
        """
        return rows_apart(self.jacobian_at(s, drive)[0])

    def rank(self, s: Tensor, drive: Tensor, J: Tensor) -> Tensor:
        """The rank of J = ∂F/∂s at s [B, n], to working precision: [B]."""
        return rank_of(J)

    def gap(self, s: Tensor, drive: Tensor) -> Tensor:
        """G(s) [B, n], zero exactly at the fixed points of F."""
        return self.next(s, drive) - s

    def gap_jacobian(self, s: Tensor, drive: Tensor) -> Tensor:
        """∂G/∂s [B, n, n]."""
        return self.jacobian_at(s, drive) - torch.eye(self.size, dtype=s.dtype)

    def spread(self, draw: Tensor, drive: Tensor) -> Tensor:
        """Numbers from [0, 1], [N, n], over the range in which states lie: starts of the search for fixed points."""
        return 2 * draw - 1


def rows_apart(matrix: Tensor) -> list[Tensor]:
    """diag(largest entry of each row) · the rest."""
    largest = matrix.abs().amax(1)
    return [largest, matrix / torch.where(largest > 0, largest, 1.0).unsqueeze(1)]


def rank_of(matrices: Tensor) -> Tensor:
    """The rank of each of [B, n, n], whatever the size of their rows: [B]."""
    largest = matrices.abs().amax(-1, keepdim=True)
    return torch.linalg.matrix_rank(matrices / torch.where(largest > 0, largest, 1.0))


def inverse(matrix: Tensor) -> Tensor | None:
    """The inverse, or None where the matrix is singular to working precision."""
    values = torch.linalg.svdvals(matrix)
    if values[-1] <= values[0] * matrix.shape[0] * sys.float_info.epsilon:
        return None
    return torch.linalg.inv(matrix)

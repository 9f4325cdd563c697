"""E and ∂E/∂y of every step of a chunk, by hand (experiments/network.py has the equations).

    ∂E/∂y_k = w_b (softmax(y_k) − onehot(d_k)),   w_b (sigmoid(y_k) − d_k)                    classes, keys

Rows of a chunk that have no step left are taken out; B counts those that have.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .batches import Chunk


class Rows:
    """The rows of a chunk that have steps, and what each begins from."""

    def __init__(self, chunk: Chunk, state: Tensor | None) -> None:
        self.inputs, self.targets, self.lengths, carry = chunk
        self.predictions = int(self.lengths.sum())
        self.batch = len(self.lengths)
        self.kept: Tensor | None = None
        if int(self.lengths.min()) == 0:
            self.kept = kept = self.lengths.nonzero().squeeze(1)
            self.inputs, self.targets = self.inputs[:, kept], self.targets[:, kept]
            self.lengths, carry = self.lengths[kept], carry[kept]
            state = None if state is None else state[kept]
        self.state: Tensor | None = None
        if state is not None and bool(carry.any()):
            # not a product with 0: a state that is no longer finite must not outlive its sequence
            self.state = state if bool(carry.all()) else torch.where(carry.unsqueeze(1), state, 0.0)
        T = len(self.inputs)
        self.mask: Tensor | None = None
        """[T B] bool: the steps that count; None where all do."""
        if int(self.lengths.min()) < T:
            self.mask = (torch.arange(T).unsqueeze(1) < self.lengths).flatten()

    def weights(self, cost: str, dtype: torch.dtype) -> Tensor | float:
        """w_b of every step [T B, 1], 0 where padded; or the one number they all are."""
        B, T = len(self.lengths), len(self.inputs)
        if self.mask is None:
            return 1 / B if cost == "sum" else 1 / (B * T)
        w = torch.full((B,), 1 / B, dtype=dtype) if cost == "sum" else 1 / (B * self.lengths.to(dtype))
        return (w.expand(T, B).flatten() * self.mask).unsqueeze(1)

    def back(self, last: Tensor) -> Tensor:
        """The states [B', H] of the rows that were kept, among all [B, H]."""
        if self.kept is None:
            return last
        return last.new_zeros(self.batch, last.shape[-1]).index_copy_(0, self.kept, last)


def _classes(y: Tensor, rows: Rows, weights: Tensor | float | None) -> tuple[float, Tensor]:
    """Σ ℓ, and ∂E/∂y where there are weights, for y [T B, O] and classes [T, B]."""
    d = rows.targets.reshape(-1, 1)
    if rows.mask is not None:
        d = d.clamp(min=0)  # a padded step has no class
    log_p = torch.log_softmax(y, 1)
    l = log_p.gather(1, d).squeeze(1)
    nats = -_sum(l, rows)
    if weights is None:
        return nats, log_p
    dy = log_p.exp_()
    return nats, dy.scatter_add_(1, d, dy.new_full((len(dy), 1), -1.0)).mul_(weights)


def _keys(y: Tensor, rows: Rows, weights: Tensor | float | None) -> tuple[float, Tensor]:
    """Σ ℓ, and ∂E/∂y where there are weights, for y [T B, O] and keys [T, B, O]."""
    d = rows.targets.flatten(0, 1).to(y.dtype)
    l = nn.functional.binary_cross_entropy_with_logits(y, d, reduction="none").sum(1)
    nats = _sum(l, rows)
    return (nats, y) if weights is None else (nats, y.sigmoid_().sub_(d).mul_(weights))


OF_CHUNKS = {"classes": _classes, "keys": _keys}


def _sum(l: Tensor, rows: Rows) -> float:
    if rows.mask is not None:
        l = l[rows.mask]
    return l.sum(dtype=torch.float64).item()

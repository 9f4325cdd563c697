"""A frozen random reservoir: how it is drawn, and its states over long or many sequences, a piece at a time.

    W      [H, H]  round((1 − sparsity) H) entries of each row from N(0, 1), the others 0; then W ← ρ W / ρ(W)
    W_in   [H, I]  input_scaling · U(−1, 1)
    b      [H]     bias_scaling · U(−1, 1)
    h_t = (1 − a) h_{t−1} + a tanh(W h_{t−1} + W_in u_t + b)         a in (0, 1];  h_0 = 0      (Jaeger et al. 2007)

The recurrence is that of `sg.RNN(leak=1 − a)`, computed by the same backends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..eigen import spectral_radius
from ..recurrence import run as recurrence
from ..recurrence.options import Given, Options

IN_MEMORY = 2**22
"""How many numbers the states of one piece may be: 32 MB in float64."""


class Weights(NamedTuple):
    """W [H, H], W_in [H, I] and b [H]."""

    weight_hh: Tensor
    weight_ih: Tensor
    bias: Tensor


class Piece(NamedTuple):
    """Some sequences over some steps: which sequences, the first step, states [t, b, H] and inputs [t, b, …]."""

    which: slice
    begin: int
    states: Tensor
    inputs: Tensor


def draw(
    hidden_size: int,
    input_size: int,
    *,
    radius: float,
    sparsity: float,
    input_scaling: float | Sequence[float],
    bias_scaling: float,
    seed: int,
) -> Weights:
    """A new reservoir in float64; the same seed draws the same one on every machine."""
    H, generator = hidden_size, torch.Generator().manual_seed(seed)
    scaling = torch.as_tensor(input_scaling, dtype=torch.float64)
    if scaling.dim() and len(scaling) != input_size:
        raise ValueError(f"input_scaling must be one number or {input_size}, one a channel, not {len(scaling)} of them")
    kept = max(1, round((1 - sparsity) * H))
    W = torch.randn(H, H, generator=generator, dtype=torch.float64)
    order = torch.rand(H, H, generator=generator, dtype=torch.float64).argsort(1)
    W.scatter_(1, order[:, kept:], 0.0)
    ρ = spectral_radius(W)
    if ρ == 0:
        raise ValueError(f"sparsity must leave a loop among the {H} units: with {sparsity} the spectral radius is 0")
    W_in = scaling * (2 * torch.rand(H, input_size, generator=generator, dtype=torch.float64) - 1)
    b = bias_scaling * (2 * torch.rand(H, generator=generator, dtype=torch.float64) - 1)
    return Weights(radius / ρ * W, W_in, b)


def pieces(weights: Weights, leak: float, sequence: Tensor, stop: int) -> Iterator[Piece]:
    """The states of steps 0 … stop − 1, in pieces of at most `IN_MEMORY` numbers.

    Args:
        weights: the reservoir.
        leak: a, the share of what is new.
        sequence: [T, B, I], or tokens [T, B].
        stop: where to end, at most T.
    """
    W, W_in, b = weights
    options, units, batch = Options(leak=1.0 - leak), len(W), sequence.shape[1]
    width = max(1, IN_MEMORY // units)
    for left in range(0, batch, width):
        which = slice(left, min(left + width, batch))
        length = max(1, IN_MEMORY // (units * (which.stop - left)))
        h = None
        for begin in range(0, stop, length):
            u = sequence[begin : min(begin + length, stop), which].contiguous()
            states, last = recurrence.run(Given(u, h, W_in, W, b, torch.zeros_like(b), None), options)
            h = last[0][0]
            yield Piece(which, begin, states, u)

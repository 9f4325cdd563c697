"""Noise before the nonlinearity of a plain layer, in training: it makes a memory that drifts cost something."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .rnn import RNN


class Noisy:
    """A plain layer with noise before the nonlinearity of every unit, at every step.

        h_k = σ(W_rec h_{k−1} + [W_in, s I] [u_k, ε_k] + b),   ε ~ N(0, 1) [T, B, H]

    It computes with the weights of `rnn`, which get its gradient. Ω is that of the states it goes through.
    """

    def __init__(self, rnn: Any, size: float) -> None:
        self.rnn, self.units, self.tokens = rnn, rnn.hidden_size, rnn.input_size
        names = ("nonlinearity", "leak", "omega", "clip_error", "backend", "bias")
        options = {name: getattr(rnn, name) for name in names}
        dtype = rnn.weight_hh_l0.dtype
        chance: Any = torch.random  # which has no complete types
        with chance.fork_rng(devices=[]):  # what the constructor draws must not disturb the run's numbers
            self.layer: Any = RNN(self.tokens + self.units, self.units, **options, dtype=dtype)
        self.layer.record = False
        self.scale(size)

    def scale(self, size: float) -> None:
        """Take another standard deviation of the noise."""
        self.weight_of_noise = size * torch.eye(self.units, dtype=self.rnn.weight_hh_l0.dtype)

    def inputs(self, given: Tensor, generator: torch.Generator) -> Tensor:
        """Inputs [T, B, I + H]: what is given, tokens as vectors, and the noise."""
        if not given.is_floating_point():
            given = nn.functional.one_hot(given, self.tokens)
        T, B, _ = given.shape
        noise = torch.randn(T, B, self.units, generator=generator, dtype=self.weight_of_noise.dtype)
        return torch.cat([given.to(noise.dtype), noise], -1)

    def __call__(self, inputs: Tensor, state: Any) -> Any:
        self.layer.alpha = self.rnn.alpha
        weights = dict(self.rnn.named_parameters())
        weights["weight_ih_l0"] = torch.cat([weights["weight_ih_l0"], self.weight_of_noise], 1)
        return torch.func.functional_call(self.layer, weights, (inputs, state))

"""A small recurrent network with its Hessian-free optimizer, for tests of whole steps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import steadygrad as sg
from steadygrad.baselines import HessianFree


def draw(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


class Recaller:
    """A small recurrent network that answers with what it saw first; made anew from a seed."""

    def __init__(self, loss: Any = "squared-error", seed: int = 1, **settings: Any) -> None:
        torch.manual_seed(seed)
        self.rnn, self.readout = sg.RNN(2, 6, dtype=torch.float64), torch.nn.Linear(6, 2, dtype=torch.float64)
        self.net = torch.nn.ModuleList([self.rnn, self.readout])
        self.optimizer = HessianFree(self.net.parameters(), loss, **settings)
        self.called: list[str] = []
        self.batches = {"gradient": draw(7, 20, 2), "curvature": draw(7, 8, 2, seed=2)}

    def forward(self, batch: str) -> tuple[Tensor, Tensor, Tensor]:
        self.called.append(batch)
        inputs = self.batches[batch]
        hidden, _ = self.rnn(inputs)
        return self.readout(hidden[-1]), inputs[0], hidden

    def step(self) -> float:
        return self.optimizer.step(self.forward)

    def weights(self) -> list[Tensor]:
        return [each.detach().clone() for each in self.net.parameters()]

"""Networks to analyse, and a second, independent way to their Jacobians: autograd through one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from steadygrad.layers.rnn import RNN

SIGMA: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x,
}


@pytest.fixture
def build() -> Callable[..., nn.Module]:
    """build("tanh", hidden=5, scale=0.6, …): torch.nn.RNN where it can, steadygrad.RNN otherwise, in float64."""

    def build(
        nonlinearity: str,
        *,
        inputs: int = 3,
        hidden: int = 5,
        layers: int = 1,
        leak: float = 0.0,
        scale: float = 0.6,
        seed: int = 0,
        **options: object,
    ) -> nn.Module:
        torch.manual_seed(seed)
        options |= {"nonlinearity": nonlinearity, "num_layers": layers, "dtype": torch.float64}
        if leak or nonlinearity in ("sigmoid", "identity"):
            rnn: nn.Module = RNN(inputs, hidden, leak=leak, backend="reference", **options)  # type: ignore[arg-type]
        else:
            rnn = nn.RNN(inputs, hidden, **options)  # type: ignore[arg-type]
        for name, parameter in rnn.named_parameters():
            if name.startswith("weight_hh"):
                nn.init.normal_(parameter, std=scale)
        return rnn

    return build


@pytest.fixture
def set_weights() -> Callable[..., nn.Module]:
    """set_weights(rnn, weight_hh_l0=[[…]], …): those given, all others zero."""

    def set_weights(rnn: nn.Module, **values: object) -> nn.Module:
        with torch.no_grad():
            for name, parameter in rnn.named_parameters():
                value = values.get(name, 0.0)
                tensor = value if isinstance(value, Tensor) else torch.tensor(value, dtype=parameter.dtype)
                parameter.copy_(tensor.expand_as(parameter))
        return rnn

    return set_weights


@pytest.fixture
def jacobians_by_autograd() -> Callable[..., list[Tensor]]:
    """J_t, J_{t-1}, … of the first layer for one sequence [T, D], in state "x" or "h"."""

    def jacobians(rnn: Any, inputs: Tensor, state: str) -> list[Tensor]:
        W, W_in = rnn.weight_hh_l0.detach(), rnn.weight_ih_l0.detach()
        b = (rnn.bias_ih_l0 + rnn.bias_hh_l0).detach()
        sigma, leak = SIGMA[rnn.nonlinearity], getattr(rnn, "leak", 0.0)

        def h_step(h: Tensor, u: Tensor) -> Tensor:
            return leak * h + (1 - leak) * sigma(W @ h + W_in @ u + b)

        def x_step(x: Tensor, u: Tensor) -> Tensor:
            return W @ sigma(x) + W_in @ u + b

        current = torch.zeros(len(W), dtype=W.dtype)
        if state == "x":
            current, inputs = W_in @ inputs[0] + b, inputs[1:]
        step = x_step if state == "x" else h_step
        found = []
        for u in inputs:
            found.append(torch.autograd.functional.jacobian(lambda s, u=u: step(s, u), current))
            current = step(current, u)
        return found[::-1]

    return jacobians

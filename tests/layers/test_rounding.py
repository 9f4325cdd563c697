"""The kernel's float32 is about as exact as torch's, also where sums are long."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import steadygrad as sg
from steadygrad.recurrence import native

STEPS, INPUTS = 6, 50


def computed(layer: Any, x: Tensor, of_output: Tensor) -> dict[str, Tensor]:
    layer = layer.to(x.dtype)
    output, _ = layer(x)
    gradients = torch.autograd.grad((output * of_output).sum(), list(layer.parameters()))
    names = [name for name, _ in layer.named_parameters()]
    return {"output": output.detach().double()} | {
        name: gradient.double() for name, gradient in zip(names, gradients, strict=True)
    }


@pytest.mark.skipif(native.library() is None, reason="the C++ kernel is not built")
@pytest.mark.parametrize("batch", [1, 4, 32])
@pytest.mark.parametrize("hidden", [1000, 2000])
def test_native_float32_rounds_off_at_most_twice_what_torch_does(hidden: int, batch: int) -> None:
    torch.manual_seed(0)
    x, of_output = torch.randn(STEPS, batch, INPUTS), torch.randn(STEPS, batch, hidden)
    torchs, ours = torch.nn.RNN(INPUTS, hidden), sg.RNN(INPUTS, hidden, backend="native")
    ours.load_state_dict(torchs.state_dict())
    found, usual = computed(ours, x, of_output), computed(torchs, x, of_output)
    exact = computed(torchs, x.double(), of_output.double())
    for name, value in exact.items():
        error, torchs_error = (float((each[name] - value).norm() / value.norm()) for each in (found, usual))
        assert error <= 2 * torchs_error, f"{name}: {error:.2g}, torch's {torchs_error:.2g}"

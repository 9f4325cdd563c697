"""`steadygrad.Recurrent` is analysed as the layer it runs: its own output and gradients are the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from analysed_networks import D, H, Minimal, Paired
from torch import Tensor, nn

import steadygrad as sg
from steadygrad.analysis import fixed_points, jacobian_norms, lyapunov_spectrum, temporal_components

Recurrent: Any = sg.Recurrent
CELLS: dict[str, Callable[[], nn.Module]] = {
    "RNNCell": lambda: nn.RNNCell(D, H),
    "GRUCell": lambda: nn.GRUCell(D, H),
    "LSTMCell": lambda: nn.LSTMCell(D, H),
    "own": Minimal,
    "two parts": lambda: Paired().eval(),
}


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("name", CELLS)
def test_the_components_add_up_to_the_gradients_of_the_layer(name: str, batch_first: bool):
    torch.manual_seed(0)
    layer = Recurrent(CELLS[name]().double(), batch_first=batch_first)
    # Paired's initial state is float32; it is given here as the layer takes it.
    state = tuple(part.double() for part in layer.cell.initial_state(2)) if name == "two parts" else None
    u = torch.randn(2, 6, D, dtype=torch.float64)
    u = u if batch_first else u.transpose(0, 1)
    output, _ = layer(u, state)
    last = output[:, -1] if batch_first else output[-1]
    last.pow(2).sum().backward()
    found = temporal_components(layer, u, lambda h: h.pow(2).sum(), h0=state)
    for key, parameter in layer.cell.named_parameters():
        mine = found.sum["bias" if name == "RNNCell" and key.startswith("bias") else key]
        torch.testing.assert_close(mine, parameter.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CELLS)
def test_every_analysis_takes_it(name: str):
    torch.manual_seed(0)
    layer = Recurrent(CELLS[name](), alpha=1.0)
    u: Tensor = torch.randn(6, 2, D)
    assert jacobian_norms(layer, u).log_largest.isfinite().all()
    assert lyapunov_spectrum(layer, u).exponents[0].isfinite()
    assert fixed_points(layer, starts=5)

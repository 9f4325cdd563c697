"""ρ-scaled initialisation: the spectral radius is what was asked for, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import steadygrad as sg
from steadygrad import init


def radius(weight: Tensor) -> float:
    return float(np.abs(np.linalg.eigvals(weight.detach().double().numpy())).max())


@pytest.mark.parametrize("wanted", [0.5, 0.95, 1.3, 20.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layer", [nn.RNN, sg.RNN], ids=["torch", "ours"])
def test_every_matrix_has_the_radius_and_only_the_scale_changes(
    layer: Callable[..., Any], dtype: torch.dtype, wanted: float
) -> None:
    torch.manual_seed(0)
    made = nn.ModuleDict({"rnn": layer(3, 40, num_layers=2, bidirectional=True), "readout": nn.Linear(40, 2)}).to(dtype)
    before = {name: parameter.detach().clone() for name, parameter in made.named_parameters()}
    assert init.spectral_(made, wanted) is made
    for name, parameter in made.named_parameters():
        assert parameter.requires_grad
        if "weight_hh" in name:
            # rounding the entries to float32 moves an eigenvalue by some 1e-7 of ρ
            assert radius(parameter) == pytest.approx(wanted, rel=1e-12 if dtype is torch.float64 else 1e-6)
            factor = parameter[0, 0] / before[name][0, 0]
            torch.testing.assert_close(parameter.detach(), before[name] * factor.detach())
        else:
            assert torch.equal(parameter, before[name])


def test_a_matrix_that_can_not_be_scaled_is_refused_before_anything_is_written() -> None:
    layer = nn.RNN(2, 4, num_layers=2)
    with torch.no_grad():
        layer.get_parameter("weight_hh_l1").zero_()
    before = layer.get_parameter("weight_hh_l0").detach().clone()
    with pytest.raises(ValueError, match=r"module must have recurrent matrices of a spectral radius above 0"):
        init.spectral_(layer, 0.9)
    assert torch.equal(layer.get_parameter("weight_hh_l0"), before)
    with torch.no_grad():
        layer.get_parameter("weight_hh_l1").fill_(torch.nan)
    with pytest.raises(ValueError, match="module must have finite recurrent weights"):
        init.spectral_(layer, 0.9)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: init.spectral_(nn.RNN(1, 2), 0.0), r"radius must be a finite number above 0, not 0\.0"),
        (lambda: init.spectral_(nn.RNN(1, 2), -1.0), r"radius must be a finite number above 0, not -1\.0"),
        (lambda: init.spectral_(nn.GRU(1, 2), 0.9), r"spectral_ is for layers without gates .* GRU"),
        (lambda: init.spectral_(nn.Linear(1, 2), 0.9), r"module must hold a recurrent layer .* Linear has none"),
    ],
)
def test_bad_argument_is_named(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()

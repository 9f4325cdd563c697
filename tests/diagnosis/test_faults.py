"""Where a value was first not finite: layer, step and gate."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import steadygrad as sg
from steadygrad.diagnosis import CellLook, Look

T, B, I, H = 20, 3, 2, 4


def cells_after(layer: Any, x: Tensor, loss: Any = lambda output: output.sum()) -> dict[str, CellLook]:
    with sg.watch(layer, every=1) as watch:
        loss(layer(x)[0]).backward()
    Look.from_json(watch.looks[0].to_json())  # infinite and undefined numbers can be written
    return {cell.name: cell for cell in watch.looks[0].cells}


def test_an_input() -> None:
    x = torch.randn(T, B, I)
    x[7, 1, 0] = math.nan
    cell = cells_after(nn.GRU(I, H), x)["l0"]
    assert str(cell.fault) == "input of step 7"
    assert (cell.horizon, cell.growth) == (0, math.inf)


def test_a_parameter() -> None:
    layer = nn.LSTM(I, H)
    with torch.no_grad():
        layer.weight_ih_l0[3, 0] = math.inf
    assert str(cells_after(layer, torch.randn(T, B, I))["l0"].fault) == "parameter weight_ih_l0"


def test_a_gate() -> None:
    layer = nn.GRU(1, H)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.zero_()
        layer.bias_ih_l0[:H] = 50.0  # r = 1 …
        layer.weight_ih_l0[:H] = -1e30  # … and 0 where the input is 1
        layer.bias_ih_l0[H : 2 * H] = -1e30  # z = 0
        layer.bias_ih_l0[2 * H :] = 50.0  # n = 1, so h = 1 from the first step on
        layer.weight_hh_l0[2 * H :] = 3e38  # W_hn h overflows: n = tanh ∞ = 1, but 0 · ∞ is not a number
    x = torch.zeros(T, B, 1)
    x[9] = 1.0
    assert str(cells_after(layer, x)["l0"].fault) == "gate n of step 9"


def test_a_state() -> None:
    layer = nn.RNN(I, H, nonlinearity="relu")
    with torch.no_grad():
        layer.weight_hh_l0.copy_(1e4 * torch.eye(H))
        layer.bias_ih_l0.fill_(1.0)
    cell = cells_after(layer, torch.zeros(T, B, I))["l0"]
    assert cell.fault is not None
    assert cell.fault.what == "state"
    assert 8 <= (cell.fault.step or 0) <= 10  # 1e4 ^ 9.6 leaves float32


def test_an_error_is_found_on_the_way_back() -> None:
    layer = nn.RNN(I, H, nonlinearity="relu", bias=False)
    with torch.no_grad():
        layer.weight_hh_l0.copy_(1e4 * torch.eye(H))
        layer.weight_ih_l0.fill_(1e-30)
    x = torch.zeros(T, B, I)
    x[-4:] = 1.0  # units are on for the last steps, small enough to stay finite
    cell = cells_after(layer, x, lambda output: 1e29 * output[-1].sum())["l0"]
    assert str(cell.fault) == "error of step 16"  # 1e29 · 1e4³ leaves float32


@pytest.mark.parametrize("reverse", [False, True])
def test_the_order_is_that_of_computing(reverse: bool) -> None:
    x = torch.randn(T, B, I)
    x[3, 0, 0] = x[15, 1, 1] = math.inf
    layer = nn.GRU(I, H, bidirectional=True)
    cell = cells_after(layer, x)["l0_reverse" if reverse else "l0"]
    assert str(cell.fault) == f"input of step {15 if reverse else 3}"


def test_a_sound_pass_has_none() -> None:
    assert all(cell.fault is None for cell in cells_after(nn.LSTM(I, H, 2), torch.randn(T, B, I)).values())

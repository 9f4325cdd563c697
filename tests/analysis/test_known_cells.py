"""Gated and own cells whose fixed points, exponents and products are known in closed form."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from analysed_networks import OverTime
from torch import Tensor, nn

from steadygrad.analysis import fixed_points, jacobian_norms, lyapunov_spectrum

F64 = torch.float64


@pytest.mark.parametrize("cell", ["GRU", "LSTM"])
def test_a_latch_has_two_attractors_and_a_threshold_between_them(cell: str):
    """One unit that feeds itself: h = ±, and 0 in between, by symmetry (no biases)."""
    rnn: Any = getattr(nn, cell)(1, 1, bias=False, dtype=F64)
    with torch.no_grad():
        rnn.weight_hh_l0.zero_()
        rnn.weight_hh_l0[2] = 8.0  # n of the GRU, g of the LSTM
    points = fixed_points(rnn)
    assert sorted(point.kind for point in points) in (
        ["attractor", "attractor", "saddle"],
        ["attractor", "attractor", "repeller"],
    )
    low, middle, high = sorted(point.h.item() for point in points)
    assert low == pytest.approx(-high, abs=1e-12)
    assert middle == pytest.approx(0.0, abs=1e-12)
    if cell == "GRU":  # r = ½: h = tanh(4h)
        assert high == pytest.approx(math.tanh(4 * high), abs=1e-12)
    else:  # i = f = o = ½: c = tanh(8h), h = ½ tanh(c)
        assert high == pytest.approx(0.5 * math.tanh(math.tanh(8 * high)), abs=1e-12)


def test_a_gru_whose_update_gate_is_nearly_closed_has_no_false_fixed_points():
    """z = 1 − 1e-12 makes F(h) − h smaller than any tolerance; the points are still those of n = h."""
    rnn: Any = nn.GRU(1, 1, dtype=F64)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.zero_()
        rnn.weight_hh_l0[2], rnn.bias_ih_l0[1] = 1.0, 27.6
    (point,) = fixed_points(rnn)  # h = tanh(h / 2)
    assert abs(point.h.item()) < 1e-9


class Linear(nn.Module):
    """s' = A s + B u."""

    hidden_size, input_size = 4, 2

    def __init__(self) -> None:
        super().__init__()
        self.A, self.B = nn.Parameter(0.5 * torch.randn(4, 4)), nn.Parameter(torch.randn(4, 2))

    def forward(self, input: Tensor, state: Tensor) -> Tensor:
        return state @ self.A.T + input @ self.B.T


def test_a_linear_cell_has_the_exponents_and_the_fixed_point_of_its_matrix():
    torch.manual_seed(2)
    made: Any = OverTime(Linear()).double()
    A, B_in = made.cell.A.detach(), made.cell.B.detach()
    moduli = torch.linalg.eigvals(A).abs().sort(descending=True).values
    found = lyapunov_spectrum(made, torch.zeros(1500, 1, 2), burn_in=300)
    # The alignment at the start adds O(1/steps).
    torch.testing.assert_close(found.exponents, moduli.log(), rtol=0, atol=5e-3)
    u = torch.tensor([1.0, -2.0], dtype=F64)
    (point,) = fixed_points(made, u)
    torch.testing.assert_close(point.h, torch.linalg.solve(torch.eye(4, dtype=F64) - A, B_in @ u), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(point.eigenvalues.abs(), moduli, rtol=1e-9, atol=1e-12)


class Switched(nn.Module):
    """s' = (A − u a bᵀ) s; with u = 1 the matrix loses one direction, along no axis."""

    hidden_size, input_size = 4, 1

    def __init__(self) -> None:
        super().__init__()
        self.A = nn.Parameter(torch.randn(4, 4, dtype=F64))
        U, values, Vh = torch.linalg.svd(self.A.detach())
        self.register_buffer("lost", values[-1] * torch.outer(U[:, -1], Vh[-1]))

    def forward(self, input: Tensor, state: Tensor) -> Tensor:
        return state @ self.A.T - input * (state @ self.get_buffer("lost").T)


def test_a_direction_lost_in_a_single_step_is_lost_for_good():
    """Rounding leaves 1e-16 of it, which a sum of logarithms would report as a finite exponent."""
    torch.manual_seed(0)
    inputs = torch.zeros(40, 2, 1, dtype=F64)
    inputs[20, 1] = 1.0
    found = lyapunov_spectrum(OverTime(Switched()), inputs)
    assert found.per_sequence.isfinite().tolist() == [[True] * 4, [True] * 3 + [False]]
    smallest = jacobian_norms(OverTime(Switched()), inputs, sample=1).log_smallest
    assert smallest.isfinite().tolist() == [True] * 20 + [False] * 21


def test_an_lstm_with_constant_gates_has_known_exponents():
    """No recurrent weights: c fades by the forget gate alone, and h is forgotten at once."""
    rnn: Any = nn.LSTM(1, 2, dtype=F64)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.zero_()
        rnn.bias_ih_l0[2:4] = torch.tensor([2.0, -1.0])  # f
    found = lyapunov_spectrum(rnn, torch.zeros(200, 1, 1), burn_in=50)
    forget = torch.tensor([2.0, -1.0], dtype=F64).sigmoid().log()
    torch.testing.assert_close(found.exponents[:2], forget, rtol=0, atol=1e-12)
    assert found.exponents[2:].tolist() == [-math.inf, -math.inf]
    norms = jacobian_norms(rnn, torch.zeros(400, 1, 1), error=torch.tensor([0.0, 0.0, 1.0, 0.0]))
    assert norms.log_error is not None
    torch.testing.assert_close(norms.log_error, norms.lags.double() * forget[0], rtol=1e-12, atol=1e-12)
    assert norms.log_smallest[1:].tolist() == [-math.inf] * 400


@pytest.mark.parametrize("cell", ["GRU", "LSTM"])
def test_products_beyond_the_range_of_floating_point_keep_their_logarithm(cell: str):
    rnn: Any = getattr(nn, cell)(1, 3, dtype=F64)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.zero_()
        rnn.bias_ih_l0[3:6] = -3.0  # z of the GRU, f of the LSTM: nothing else hands the error on
    norms = jacobian_norms(rnn, torch.zeros(1000, 1, 1))
    per_step = math.log(torch.tensor(-3.0, dtype=F64).sigmoid())
    # The LSTM's last step also turns the error of h into one of c: a factor of at most √2, the same at every lag.
    offset = norms.log_largest[1].item() - per_step
    torch.testing.assert_close(
        norms.log_largest[1:], norms.lags[1:].double() * per_step + offset, rtol=1e-12, atol=1e-12
    )
    assert norms.log_largest[-1] < -3000
    assert 0 <= offset <= 0.35

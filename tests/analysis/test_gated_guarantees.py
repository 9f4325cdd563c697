"""What the weights of GRU and LSTM guarantee: the bound holds for every input it speaks of, and the verdict says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import steadygrad as sg
from steadygrad.analysis import Conditions, GatedConditions, conditions, jacobian_norms, lyapunov_spectrum
from steadygrad.analysis.gated_guarantees import gru_bound, lstm_blocks
from steadygrad.analysis.reading import read_layer, understand

F64 = torch.float64


def gated(cell: str, scale: float, seed: int = 0, hidden: int = 4) -> Any:
    torch.manual_seed(seed)
    rnn = getattr(nn, cell)(2, hidden, dtype=F64)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter *= scale
    return rnn


def found(rnn: nn.Module, **options: Any) -> GatedConditions:
    result = conditions(rnn, **options)
    assert isinstance(result, GatedConditions)
    return result


def jacobians(rnn: nn.Module, inputs: Tensor) -> Tensor:
    """Of every step of a run from zero, [T, B, n, n]."""
    layer = read_layer(understand(rnn), 0)
    s, result = torch.zeros(inputs.shape[1], layer.size, dtype=F64), []
    for drive in layer.drive(inputs):
        result.append(layer.jacobian_at(s, drive))
        s = layer.next(s, drive)
    return torch.stack(result)


@pytest.mark.parametrize("bound", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("scale", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_no_row_of_a_grus_jacobian_exceeds_the_bound(bound: float, scale: float, seed: int):
    rnn = gated("GRU", scale, seed)
    inputs = bound * (2 * torch.rand(40, 50, 2, dtype=F64) - 1)
    inputs[:, ::2] = bound * inputs[:, ::2].sign()  # at the corners too
    rows = jacobians(rnn, inputs).abs().sum(-1).max().item()
    assert rows <= found(rnn, input_bound=bound).jacobian_bound
    assert found(rnn, input_bound=bound).jacobian_bound <= found(rnn).jacobian_bound + 1e-12


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_the_grus_bound_takes_the_worst_update_gate_of_its_interval(seed: int, scale: float):
    """Against a fine grid over z in place of the top of a parabola."""
    rnn = gated("GRU", scale, seed)
    layer: Any = read_layer(understand(rnn), 0)
    w = rnn.weight_hh_l0.detach().abs().sum(1).chunk(3)
    reach = (
        rnn.weight_hh_l0.abs() @ torch.ones(4, dtype=F64) + rnn.weight_ih_l0.abs() @ torch.full((2,), 0.7, dtype=F64)
    ).detach()
    bias = (rnn.bias_ih_l0 + rnn.bias_hh_l0).detach()
    low, high = (bias - reach).sigmoid().chunk(3), (bias + reach).sigmoid().chunk(3)
    k = high[0] * w[2] + (w[2] + rnn.bias_hh_l0.detach()[8:].abs()) * w[0] / 4
    grid = torch.linspace(0, 1, 20001, dtype=F64).unsqueeze(1)
    z = low[1] + grid * (high[1] - low[1])
    expected = (z + (1 - z) * (k + 2 * z * w[1])).max().item()
    assert gru_bound(layer, 0.7) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("bound", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("scale", [0.1, 0.4, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_no_product_of_an_lstms_jacobians_grows_faster_than_the_bound(bound: float, scale: float, seed: int):
    rnn = gated("LSTM", scale, seed)
    inputs = bound * (2 * torch.rand(60, 30, 2, dtype=F64) - 1)
    inputs[:, ::2] = bound * inputs[:, ::2].sign()
    layer: Any = read_layer(understand(rnn), 0)
    A = lstm_blocks(layer, bound)
    assert found(rnn, input_bound=bound).jacobian_bound == pytest.approx(np.abs(np.linalg.eigvals(A.numpy())).max())
    product, allowed = torch.eye(8, dtype=F64).expand(30, 8, 8), torch.eye(2, dtype=F64)
    for J in jacobians(rnn, inputs):
        product, allowed = J @ product, A @ allowed
        assert (blocks(J) <= A + 1e-15).all()
        assert (blocks(product) <= allowed * (1 + 1e-12) + 1e-300).all()


def blocks(matrices: Tensor) -> Tensor:
    """The row-sum norms of the four blocks of [B, 8, 8]: [B, 2, 2]."""
    rows = torch.stack([half.abs().sum(-1) for half in matrices.chunk(2, -1)], -1)
    return torch.stack([half.amax(-2) for half in rows.chunk(2, -2)], -2)


def test_the_lstms_bound_is_reached_by_a_unit_with_open_gates():
    """One unit, large biases: i = f = o = 1 nearly, and c small: ∂c'/∂c = f is the bound's own entry."""
    rnn = gated("LSTM", 0.0, hidden=1)
    with torch.no_grad():
        rnn.bias_ih_l0[:] = torch.tensor([-4.0, 2.0, 0.0, 3.0])
    layer: Any = read_layer(understand(rnn), 0)
    A = lstm_blocks(layer, 1.0)
    J = jacobians(rnn, torch.zeros(1, 1, 2, dtype=F64))[0]
    # c = 0 at the start, where tanh' = 1.
    torch.testing.assert_close(J[0].abs(), A, rtol=1e-12, atol=1e-12)


def test_the_lstms_bound_counts_the_way_through_the_output_gate():
    """One unit whose output gate alone hears h: ∂h'/∂h = tanh(c') σ'(a_o) w_ho, at most w_ho / 4."""
    rnn = gated("LSTM", 0.0, hidden=1)
    with torch.no_grad():
        rnn.weight_hh_l0[3] = 2.0
        rnn.bias_ih_l0[:] = torch.tensor([9.0, 2.0, 9.0, -1.0])  # c grows to 8; a_o = 2 h − 1, near 0
    layer: Any = read_layer(understand(rnn), 0)
    steepest = jacobians(rnn, torch.zeros(30, 1, 2, dtype=F64))[:, 0, 0, 0].max().item()
    assert 0.9 * 0.5 < steepest <= lstm_blocks(layer, 0.0)[0, 0].item() == pytest.approx(0.5)


@pytest.mark.parametrize(("cell", "scale"), [("GRU", 0.05), ("LSTM", 0.05)])
def test_where_vanishing_is_guaranteed_errors_vanish_and_larger_weights_lose_the_guarantee(cell: str, scale: float):
    rnn = gated(cell, scale)
    result = found(rnn, input_bound=1.0)
    assert (result.vanishing_guaranteed, result.explosion_possible) == (True, False)
    assert "Vanishing is guaranteed for inputs within ±1" in result.verdict
    norms = jacobian_norms(rnn, torch.ones(200, 1, 2, dtype=F64))
    assert norms.log_largest[-1] < 200 * np.log(result.jacobian_bound) + 5
    assert lyapunov_spectrum(rnn, torch.ones(100, 1, 2)).exponents[0] < np.log(result.jacobian_bound)
    larger = found(gated(cell, 5.0), input_bound=1.0)
    assert (larger.vanishing_guaranteed, larger.explosion_possible) == (False, True)


@pytest.mark.parametrize("cell", ["GRU", "LSTM"])
def test_no_guarantee_holds_for_every_input_and_an_input_shows_why(cell: str):
    """The gate is driven to 1 by a large input: the error keeps its norm for 200 steps although the weights are small."""
    rnn = gated(cell, 0.05)
    result = found(rnn)
    assert not result.vanishing_guaranteed
    assert result.input_bound is None
    gate = slice(4, 8)
    with torch.no_grad():
        rnn.weight_ih_l0[gate] = rnn.weight_ih_l0[gate].abs()
    kept = jacobian_norms(rnn, torch.full((200, 1, 2), 1000.0))
    # An LSTM's c grows by i g at every step and is then fed into no gate: its error is carried by f alone.
    assert kept.log_largest[-1] > -0.1
    assert "can't guarantee vanishing for every input" in result.verdict
    assert "jacobian_norms" in result.verdict


def test_small_weights_rule_explosion_out_for_a_gru_whatever_the_input():
    result = found(gated("GRU", 0.05))
    assert result.jacobian_bound == pytest.approx(1.0, abs=1e-12)
    assert (result.vanishing_guaranteed, result.explosion_possible) == (False, False)
    assert result.verdict.startswith("Explosion is ruled out for any input")
    unbounded = found(gated("LSTM", 0.05))
    assert unbounded.jacobian_bound == float("inf")
    assert unbounded.verdict.startswith("Explosion is not ruled out for any input")


def test_a_layer_without_recurrent_weights_cannot_explode():
    for cell in ("GRU", "LSTM"):
        rnn = gated(cell, 1.0)
        nn.init.zeros_(rnn.weight_hh_l0)
        assert found(rnn).jacobian_bound == pytest.approx(1.0, abs=1e-9)
        assert not found(rnn).explosion_possible


def test_each_gates_weights_are_measured():
    rnn = gated("LSTM", 1.0, hidden=5)
    result = found(rnn)
    assert list(result.gates) == ["i", "f", "g", "o"]
    for k, size in enumerate(result.gates.values()):
        block = rnn.weight_hh_l0.detach().numpy()[5 * k : 5 * (k + 1)]
        assert size.rho == pytest.approx(np.abs(np.linalg.eigvals(block)).max(), rel=1e-10)
        assert size.sigma_max == pytest.approx(np.linalg.svd(block, compute_uv=False)[0], rel=1e-10)
    assert list(found(gated("GRU", 1.0)).gates) == ["r", "z", "n"]


def test_layers_cells_and_both_libraries_give_the_same():
    torch.manual_seed(0)
    rnn = nn.GRU(2, 4, num_layers=2)
    ours = sg.GRU(2, 4, num_layers=2)
    ours.load_state_dict(rnn.state_dict())
    cell = nn.GRUCell(2, 4)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in rnn.state_dict().items() if "_l0" in name})
    assert conditions(rnn) == conditions(ours) == conditions(rnn, layer=1)
    assert conditions(rnn, layer=0) == conditions(cell)
    assert conditions(rnn, layer=0) != conditions(rnn, layer=1)
    assert found(rnn).input_bound == 1.0  # what the first layer puts out
    assert found(rnn, input_bound=0.5).input_bound == 0.5


def test_a_plain_layer_gives_what_its_weights_give():
    rnn = sg.RNN(2, 4, nonlinearity="sigmoid", leak=0.3)
    result = conditions(rnn)
    assert isinstance(result, Conditions)
    assert result == conditions(rnn.weight_hh_l0, "sigmoid", 0.3)
    cell = nn.RNNCell(2, 4, nonlinearity="relu")
    assert conditions(cell) == conditions(cell.weight_hh, "relu")

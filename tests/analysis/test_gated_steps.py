"""The closed forms of GRU and LSTM: values, Jacobians and the derivatives in the parameters, against torch.func."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from steadygrad.analysis.layer import Layer
from steadygrad.analysis.reading import read_layer, understand

F64 = torch.float64
GRID = [
    (cell, hidden, bias, scale)
    for cell in ("GRU", "LSTM")
    for hidden in (1, 2, 5)
    for bias in (True, False)
    for scale in (0.3, 2.0, 10.0)
]


def case(cell: str, hidden: int, bias: bool, scale: float) -> tuple[Layer, Tensor, Tensor, Tensor]:
    """The layer, states [B, n], inputs [B, D] and drives."""
    torch.manual_seed(hidden)
    rnn = getattr(nn, cell)(3, hidden, bias=bias, dtype=F64)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter *= scale
    layer = read_layer(understand(rnn), 0)
    s, u = torch.randn(6, layer.size, dtype=F64), torch.randn(6, 3, dtype=F64)
    return layer, s, u, layer.drive(u)


def by_func(layer: Layer, s: Tensor, drive: Tensor) -> Tensor:
    return torch.func.vmap(torch.func.jacrev(lambda a, d: layer.next(a.unsqueeze(0), d.unsqueeze(0))[0]))(s, drive)


@pytest.mark.parametrize(("cell", "hidden", "bias", "scale"), GRID)
def test_the_jacobian_equals_torch_funcs(cell, hidden, bias, scale):
    layer, s, _, drive = case(cell, hidden, bias, scale)
    found = layer.jacobian_at(s, drive)
    assert found.shape == (6, layer.size, layer.size)
    torch.testing.assert_close(found, by_func(layer, s, drive), rtol=1e-12, atol=1e-14 * max(scale, 1.0))


@pytest.mark.parametrize(("cell", "hidden", "bias", "scale"), GRID)
def test_the_factors_multiply_to_the_jacobian(cell, hidden, bias, scale):
    layer, s, _, drive = case(cell, hidden, bias, scale)
    for b in range(len(s)):
        product = torch.eye(layer.size, dtype=F64)
        for factor in layer.factors(s[b : b + 1], drive[b : b + 1]):
            product = product @ (torch.diag(factor) if factor.dim() == 1 else factor)
        torch.testing.assert_close(product, layer.jacobian_at(s, drive)[b], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("cell", "hidden", "bias", "scale"), GRID)
def test_the_gaps_jacobian_equals_torch_funcs_and_its_zeros_are_fixed_points(cell, hidden, bias, scale):
    layer, s, _, drive = case(cell, hidden, bias, scale)
    expected = torch.func.vmap(torch.func.jacrev(lambda a, d: layer.gap(a.unsqueeze(0), d.unsqueeze(0))[0]))(s, drive)
    torch.testing.assert_close(layer.gap_jacobian(s, drive), expected, rtol=1e-12, atol=1e-14 * max(scale, 1.0))
    # F(s) − s is the gap times a factor of at most 1: no larger, entry by entry, and of the same sign.
    moved, gap = layer.next(s, drive) - s, layer.gap(s, drive)
    assert (moved.abs() <= gap.abs() + 1e-14).all()
    assert (moved * gap >= -1e-14).all()


@pytest.mark.parametrize(("cell", "hidden", "bias", "scale"), GRID)
def test_pulling_an_error_back_equals_autograd(cell, hidden, bias, scale):
    layer, s, u, drive = case(cell, hidden, bias, scale)
    e = torch.randn_like(s)
    components, before = layer.pull_back(e, s, drive, u)
    parameters = {name: value.clone().requires_grad_() for name, value in layer.parameters().items()}
    assert set(parameters) == {"weight_hh", "weight_ih"} | ({"bias_ih", "bias_hh"} if bias else set())
    biases = [parameters.get(name) for name in ("bias_ih", "bias_hh")]
    copy = type(layer)(parameters["weight_hh"], parameters["weight_ih"], *biases)
    start = s.clone().requires_grad_()
    expected = torch.autograd.grad(copy.next(start, copy.drive(u)), [*parameters.values(), start], e)
    for name, gradient in zip(parameters, expected[:-1], strict=True):
        torch.testing.assert_close(components[name], gradient, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(before, expected[-1], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("cell", ["GRU", "LSTM"])
def test_saturated_gates_keep_their_slopes(cell):
    """Pre-activations of 40: σ (1 − σ) computed from σ is 0 or 1e-16, the slope is e^-40; mpmath has it right."""
    mpmath = pytest.importorskip("mpmath")
    rnn = getattr(nn, cell)(1, 1, bias=False, dtype=F64)
    gates = rnn.weight_hh_l0.shape[0]
    with torch.no_grad():
        rnn.weight_hh_l0.copy_(torch.linspace(0.5, 1.0, gates).view(-1, 1))
        rnn.weight_ih_l0.fill_(40.0)
    layer = read_layer(understand(rnn), 0)
    s = torch.full((1, layer.size), 0.3, dtype=F64)
    found = layer.jacobian_at(s, layer.drive(torch.ones(1, 1, dtype=F64)))[0]
    with mpmath.workdps(60):

        def sigm(x):
            return 1 / (1 + mpmath.exp(-x))

        w = [mpmath.mpf(x) for x in rnn.weight_hh_l0.flatten().tolist()]

        def gru(h):
            r, z = sigm(40 + w[0] * h), sigm(40 + w[1] * h)
            return (1 - z) * mpmath.tanh(40 + r * w[2] * h) + z * h

        def lstm(h, c):
            i, f, o = (sigm(40 + w[k] * h) for k in (0, 1, 3))
            after = f * c + i * mpmath.tanh(40 + w[2] * h)
            return o * mpmath.tanh(after), after

        x, y = mpmath.mpf(s[0, 0].item()), mpmath.mpf(s[0, -1].item())
        if cell == "GRU":
            expected = [[mpmath.diff(gru, x)]]
        else:
            expected = [
                [mpmath.diff(lambda h, k=k: lstm(h, y)[k], x), mpmath.diff(lambda c, k=k: lstm(x, c)[k], y)]
                for k in (0, 1)
            ]
    # Entry by entry to relative precision: ∂c'/∂h of the LSTM is some 1e-17.
    torch.testing.assert_close(
        found, torch.tensor([[float(v) for v in row] for row in expected], dtype=F64), rtol=1e-12, atol=0
    )


def test_the_lstms_jacobian_is_singular_exactly_where_its_output_gate_hears_nothing():
    torch.manual_seed(0)
    rnn = nn.LSTM(3, 4, dtype=F64)
    layer = read_layer(understand(rnn), 0)
    s, drive = torch.randn(2, 8, dtype=F64), layer.drive(torch.randn(2, 3, dtype=F64))
    assert layer.rank(s, drive, layer.jacobian_at(s, drive)).tolist() == [8, 8]
    with torch.no_grad():
        rnn.weight_hh_l0[12:14] = 0.0  # two rows of W_ho
    layer = read_layer(understand(rnn), 0)
    assert layer.rank(s, drive, layer.jacobian_at(s, drive)).tolist() == [6, 6]

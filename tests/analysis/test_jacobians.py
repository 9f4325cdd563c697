"""Singular values of ∂x_t/∂x_k against brute force, in and out of floating point's range."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from steadygrad.analysis import jacobian_norms
from steadygrad.analysis.sigma import slope
from steadygrad.layers.rnn import RNN

CASES = [
    ("tanh", "x", 0.0),
    ("tanh", "h", 0.0),
    ("sigmoid", "x", 0.0),
    ("sigmoid", "h", 0.0),
    ("identity", "x", 0.0),
    ("relu", "x", 0.0),
    ("relu", "h", 0.0),
    ("tanh", "h", 0.5),
    ("relu", "h", 0.5),
    ("identity", "h", 0.9),
]


@pytest.mark.parametrize("scale", [0.2, 0.6, 1.2], ids=["contracting", "middling", "expanding"])
@pytest.mark.parametrize(("nonlinearity", "state", "leak"), CASES)
def test_singular_values_equal_brute_force_over_autograd_jacobians(
    build, jacobians_by_autograd, nonlinearity, state, leak, scale
):
    rnn = build(nonlinearity, leak=leak, scale=scale, seed=3)
    inputs = torch.randn(8, 1, 3, dtype=torch.float64)
    norms = jacobian_norms(rnn, inputs, state=state)
    product = torch.eye(5, dtype=torch.float64)
    assert norms.lags.tolist() == list(range(8 if state == "x" else 9))
    for lag, J in enumerate(jacobians_by_autograd(rnn, inputs[:, 0], state), 1):
        product = product @ J
        values = torch.linalg.svdvals(product)
        if values[0] == 0:  # relu units may all be dead at once
            assert norms.log_largest[lag] == -math.inf
            continue
        assert norms.log_largest[lag].item() == pytest.approx(math.log(values[0]), abs=1e-11)
        # The brute-force product carries the smallest value only to eps · (largest / smallest).
        blur = 1e-14 * (values[0] / values[-1]).item() if values[-1] > 0 else math.inf
        if blur < 1e-3:
            assert norms.log_smallest[lag].item() == pytest.approx(math.log(values[-1]), abs=1e-10 + blur)
        else:
            assert norms.log_smallest[lag] < math.log(values[0]) - 20
    assert (norms.log_largest <= norms.log_bound + 1e-12).all()
    assert (norms.log_smallest <= norms.log_largest).all()


@pytest.mark.parametrize("state", ["x", "h"])
@pytest.mark.parametrize("scale", [0.3, 1.5])
def test_singular_values_far_apart_equal_mpmaths(build, jacobians_by_autograd, state, scale):
    """Saturated units: the smallest value falls to e^-80 of the largest, far below float64's rounding."""
    mpmath = pytest.importorskip("mpmath")
    rnn = build("tanh", hidden=3, scale=scale, seed=1)
    inputs = 3 * torch.randn(14, 1, 3, dtype=torch.float64)
    norms = jacobian_norms(rnn, inputs, state=state)
    with mpmath.workdps(80):
        product = mpmath.eye(3)
        for J in jacobians_by_autograd(rnn, inputs[:, 0], state):
            product = product * mpmath.matrix(J.tolist())
        values = mpmath.svd_r(product, compute_uv=False)
        largest, smallest = float(mpmath.log(values[0])), float(mpmath.log(values[2]))
    assert largest - smallest > 36  # beyond 1 / eps
    # autograd's slopes come from 1 − h², which near saturation is off by eps / (1 − h²): the only limit here.
    worst = max(1e-15 / (1 - rnn(inputs)[0] ** 2).min().item() * len(inputs), 1e-11)
    assert norms.log_largest[-1].item() == pytest.approx(largest, abs=1e-11)
    assert norms.log_smallest[-1].item() == pytest.approx(smallest, abs=worst)


@pytest.mark.parametrize("gain", [1.0, 8.0, 0.1], ids=["orthogonal", "expanding", "contracting"])
@pytest.mark.parametrize("state", ["x", "h"])
def test_a_scaled_rotation_has_the_same_singular_values_at_every_lag(build, gain, state):
    rnn = build("identity", hidden=6)
    nn.init.orthogonal_(rnn.weight_hh_l0)
    rnn.weight_hh_l0.data.mul_(gain)
    for bias in (rnn.bias_ih_l0, rnn.bias_hh_l0):
        nn.init.zeros_(bias)
    norms = jacobian_norms(rnn, torch.zeros(351, 1, 3), state=state, max_lag=350, error=torch.ones(6))
    expected = norms.lags.double() * math.log(gain)  # 8^350 and 0.1^350 are outside float64
    for found in (norms.log_largest, norms.log_smallest, norms.log_error, norms.log_bound):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)  # 350 steps of eps-sized drift


def test_a_leaky_diagonal_network_has_known_singular_values(build, set_weights):
    rnn = set_weights(build("identity", hidden=2, leak=0.5), weight_hh_l0=[[0.6, 0.0], [0.0, -0.8]])
    norms = jacobian_norms(rnn, torch.zeros(400, 1, 3))
    # leak + (1 − leak) w: 0.8 and 0.1
    torch.testing.assert_close(norms.log_largest, norms.lags.double() * math.log(0.8), rtol=1e-12, atol=0)
    torch.testing.assert_close(norms.log_smallest, norms.lags.double() * math.log(0.1), rtol=1e-12, atol=0)


def test_a_dead_relu_unit_makes_the_product_singular_from_there_on(build, set_weights):
    """Unit 2 is off at step 4 of 6: in state h the Jacobian of step 4 loses it, in state x the one of step 5."""
    rnn = set_weights(build("relu", inputs=2, hidden=2), weight_hh_l0=torch.eye(2) / 2, weight_ih_l0=torch.eye(2))
    inputs = torch.ones(6, 1, 2, dtype=torch.float64)
    inputs[3, 0, 1] = -9.0
    by_h, by_x = jacobian_norms(rnn, inputs, state="h"), jacobian_norms(rnn, inputs, state="x")
    assert by_h.log_smallest.isfinite().tolist() == [True, True, True, False, False, False, False]
    assert by_x.log_smallest.isfinite().tolist() == [True, True, False, False, False, False]
    # The other unit is halved at every step.
    torch.testing.assert_close(by_h.log_largest, by_h.lags.double() * math.log(0.5), rtol=1e-13, atol=0)
    torch.testing.assert_close(by_x.log_largest, by_x.lags.double() * math.log(0.5), rtol=1e-13, atol=0)


def test_all_units_dead_at_once_is_a_product_of_zero(build, set_weights):
    rnn = set_weights(build("relu", inputs=2, hidden=2), weight_hh_l0=[[1.0, 0.3], [0.2, 1.0]], bias_ih_l0=-1.0)
    norms = jacobian_norms(rnn, torch.zeros(5, 1, 2), error=torch.tensor([1.0, 2.0]))
    assert norms.log_largest.tolist() == [0.0] + [-math.inf] * 4
    assert norms.log_error is not None
    assert norms.log_error.tolist() == [0.0] + [-math.inf] * 4


def test_a_singular_weight_matrix_has_no_smallest_singular_value(build, set_weights):
    rnn = set_weights(build("tanh", hidden=3), weight_hh_l0=torch.ones(3, 3))
    norms = jacobian_norms(rnn, torch.zeros(4, 1, 3))
    assert norms.log_smallest.tolist() == [0.0] + [-math.inf] * 3
    # At the origin every slope is 1, and a matrix of ones has the one singular value 3.
    torch.testing.assert_close(norms.log_largest, norms.lags.double() * math.log(3.0), rtol=0, atol=1e-12)


def test_a_zero_matrix_transports_nothing(build, set_weights):
    norms = jacobian_norms(set_weights(build("tanh")), torch.zeros(4, 1, 3))
    assert norms.log_largest.tolist() == norms.log_bound.tolist() == [0.0] + [-math.inf] * 3


def test_saturated_units_keep_a_finite_smallest_singular_value(build, set_weights):
    """At x = 30, 1 − tanh² is rounded to 0; the slope is 4 e^-60."""
    rnn = set_weights(build("tanh", hidden=2), weight_hh_l0=torch.eye(2), bias_ih_l0=torch.tensor([30.0, 0.0]))
    norms = jacobian_norms(rnn, torch.zeros(2, 1, 3))
    assert norms.log_smallest[1].item() == pytest.approx(math.log(4) - 60, abs=1e-12)


@pytest.mark.parametrize(("nonlinearity", "state", "leak"), CASES)
def test_the_error_is_transported_as_autograd_transports_it(build, jacobians_by_autograd, nonlinearity, state, leak):
    rnn = build(nonlinearity, leak=leak, seed=5)
    inputs = torch.randn(6, 1, 3, dtype=torch.float64)
    error = torch.randn(5, dtype=torch.float64)
    norms = jacobian_norms(rnn, inputs, state=state, error=error)
    row, expected = error, [0.0]
    for J in jacobians_by_autograd(rnn, inputs[:, 0], state):
        row = row @ J
        expected.append(math.log(row.norm() / error.norm()) if row.norm() > 0 else -math.inf)
    assert norms.log_error is not None
    torch.testing.assert_close(norms.log_error, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-11)
    assert (norms.log_error <= norms.log_largest + 1e-11).all()
    assert (norms.log_error >= norms.log_smallest - 1e-11).all()


def test_a_sample_of_a_batch_equals_that_sequence_alone(build):
    rnn = build("tanh", layers=2)
    inputs, h0 = torch.randn(7, 3, 3, dtype=torch.float64), torch.randn(2, 3, 5, dtype=torch.float64)
    error = torch.randn(3, 5, dtype=torch.float64)
    among = jacobian_norms(rnn, inputs, h0, error=error, sample=2)
    alone = jacobian_norms(rnn, inputs[:, 2], h0[:, 2], error=error[2])
    # Batched and single products may be summed in another order.
    torch.testing.assert_close(among.log_largest, alone.log_largest, rtol=0, atol=1e-12)
    torch.testing.assert_close(among.log_smallest, alone.log_smallest, rtol=0, atol=1e-12)
    torch.testing.assert_close(among.log_error, alone.log_error, rtol=0, atol=1e-12)
    other = jacobian_norms(rnn, inputs, h0, sample=1)
    assert (other.log_largest - among.log_largest).abs().max() > 1e-3


def test_a_layer_is_driven_by_the_output_of_those_below(build):
    rnn = build("tanh", layers=2, seed=4)
    inputs = torch.randn(9, 1, 3, dtype=torch.float64)
    below = nn.RNN(3, 5, dtype=torch.float64)
    above = nn.RNN(5, 5, dtype=torch.float64)
    for name, parameter in below.named_parameters():
        parameter.data.copy_(getattr(rnn, name))
    for name, parameter in above.named_parameters():
        parameter.data.copy_(getattr(rnn, name.replace("l0", "l1")))
    with torch.no_grad():
        hidden = below(inputs)[0]
    first, last = jacobian_norms(rnn, inputs, layer=0), jacobian_norms(rnn, inputs)
    torch.testing.assert_close(first.log_largest, jacobian_norms(below, inputs).log_largest, rtol=0, atol=1e-12)
    torch.testing.assert_close(last.log_largest, jacobian_norms(above, hidden).log_largest, rtol=0, atol=1e-12)
    assert (first.log_largest - last.log_largest).abs().max() > 1e-3


def test_batch_first_and_tokens_and_float32_are_read_as_the_layer_reads_them():
    torch.manual_seed(0)
    rnn = RNN(6, 4, batch_first=True)
    tokens = torch.randint(6, (3, 8))
    one_hot = nn.functional.one_hot(tokens, 6).float()
    by_token, by_vector = jacobian_norms(rnn, tokens, sample=1), jacobian_norms(rnn, one_hot, sample=1)
    assert len(by_token.lags) == 8
    assert torch.equal(by_token.log_largest, by_vector.log_largest)
    time_first = RNN(6, 4)
    time_first.load_state_dict(rnn.state_dict())
    assert torch.equal(jacobian_norms(time_first, tokens.T, sample=1).log_largest, by_token.log_largest)
    assert torch.equal(jacobian_norms(time_first, tokens[1]).log_largest, by_token.log_largest)
    assert by_token.log_largest.dtype == torch.float64


def test_max_lag_cuts_and_changes_nothing_else(build):
    rnn, inputs = build("tanh"), torch.randn(9, 1, 3, dtype=torch.float64)
    short, full = jacobian_norms(rnn, inputs, max_lag=4), jacobian_norms(rnn, inputs)
    assert len(short.lags) == 5
    assert torch.equal(short.log_largest, full.log_largest[:5])
    assert torch.equal(short.log_smallest, full.log_smallest[:5])
    assert jacobian_norms(rnn, inputs[:1]).log_largest.tolist() == [0.0]


def test_the_model_its_gradients_and_the_random_state_are_left_alone(build):
    rnn = build("tanh")
    rnn(torch.randn(4, 1, 3, dtype=torch.float64))[0].sum().backward()
    before = [(p.detach().clone(), p.grad.clone(), p._version) for p in rnn.parameters()]
    state = torch.get_rng_state()
    norms = jacobian_norms(rnn, torch.randn(4, 1, 3, dtype=torch.float64, generator=torch.Generator()))
    assert torch.equal(torch.get_rng_state(), state)
    assert not norms.log_largest.requires_grad
    for parameter, (value, gradient, version) in zip(rnn.parameters(), before, strict=True):
        assert torch.equal(parameter, value)
        assert torch.equal(parameter.grad, gradient)
        assert parameter._version == version
        assert parameter.requires_grad


@pytest.mark.parametrize("nonlinearity", ["tanh", "sigmoid", "relu", "identity"])
def test_the_slope_equals_autograds(nonlinearity):
    x = torch.linspace(-5, 5, 101, dtype=torch.float64).requires_grad_()
    value = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu, "identity": torch.clone}[nonlinearity](x)
    (expected,) = torch.autograd.grad(value.sum(), x)
    # 1 − tanh² at |x| = 5 has lost four digits to cancellation; relu at 0 is included and agrees exactly.
    torch.testing.assert_close(slope(x.detach(), nonlinearity), expected, rtol=1e-11, atol=0)

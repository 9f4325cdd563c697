"""The sum of products: every temporal component against autograd, and their sum against its gradient."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from steadygrad.analysis import temporal_components

SIGMA = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid, "identity": lambda x: x}
CASES = [("tanh", 0.0), ("relu", 0.0), ("sigmoid", 0.0), ("identity", 0.0), ("tanh", 0.6), ("sigmoid", 0.3)]


def quadratic(h: Tensor) -> Tensor:
    weights = torch.linspace(-1, 2, h.numel(), dtype=h.dtype).reshape(h.shape)
    return (h * weights).sum() ** 2 + h.pow(3).sum()


def components_by_autograd(rnn: Any, inputs: Tensor, t: int) -> dict[str, tuple[Tensor, ...]]:
    """One copy of θ for each step: the gradient of copy k is the temporal component k, by definition."""
    W, W_in, b = rnn.weight_hh_l0, rnn.weight_ih_l0, rnn.bias_ih_l0 + rnn.bias_hh_l0
    leak, sigma = getattr(rnn, "leak", 0.0), SIGMA[rnn.nonlinearity]
    copies = [[p.detach().clone().requires_grad_() for p in (W, W_in, b)] for _ in range(t)]
    h = torch.zeros(inputs.shape[1], W.shape[0], dtype=W.dtype)
    for u, (W_k, W_in_k, b_k) in zip(inputs[:t], copies, strict=True):
        h = leak * h + (1 - leak) * sigma(h @ W_k.T + u @ W_in_k.T + b_k)
    gradients = torch.autograd.grad(quadratic(h), [p for copy in copies for p in copy])
    return {"weight_hh": gradients[0::3], "weight_ih": gradients[1::3], "bias": gradients[2::3]}


@pytest.mark.parametrize("t", [1, 6, 9])
@pytest.mark.parametrize(("nonlinearity", "leak"), CASES)
def test_each_component_equals_autograds_for_a_copy_of_the_weights_at_that_step(build, nonlinearity, leak, t):
    rnn = build(nonlinearity, leak=leak)
    inputs = torch.randn(9, 4, 3, dtype=torch.float64)
    found = temporal_components(rnn, inputs, quadratic, t=t)
    expected = components_by_autograd(rnn, inputs, t)
    assert found.t == t
    for name, gradients in expected.items():
        norms = torch.stack([gradient.norm() for gradient in gradients])
        torch.testing.assert_close(found.norms[name], norms, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("t", [None, 1, 7])
@pytest.mark.parametrize(("nonlinearity", "leak"), CASES)
def test_the_sum_equals_autograds_gradient(build, nonlinearity, leak, t, layers, batch):
    rnn = build(nonlinearity, leak=leak, layers=layers, seed=1)
    inputs = torch.randn(10, batch, 3, dtype=torch.float64)
    h0 = torch.rand(layers, batch, 5, dtype=torch.float64)
    output, _ = rnn(inputs, h0)
    quadratic(output[(t or 10) - 1]).backward()
    found = temporal_components(rnn, inputs, quadratic, t=t, h0=h0)
    top = layers - 1
    # Both are sums of the same ten terms in float64; 1e-10 relative leaves room for cancellation between them.
    scale = max(
        getattr(rnn, f"{name}_l{top}").grad.abs().max().item() for name in ("weight_hh", "weight_ih", "bias_hh")
    )
    for name, key in (
        ("weight_hh", "weight_hh"),
        ("weight_ih", "weight_ih"),
        ("bias_hh", "bias"),
        ("bias_ih", "bias"),
    ):
        expected = getattr(rnn, f"{name}_l{top}").grad
        torch.testing.assert_close(found.sum[key], expected, rtol=1e-10, atol=1e-10 * scale)


def test_a_lower_layer_is_measured_at_its_own_state(build):
    rnn = build("tanh", layers=2)
    inputs = torch.randn(6, 2, 3, dtype=torch.float64)
    below = nn.RNN(3, 5, dtype=torch.float64)
    below.load_state_dict({name: getattr(rnn, name) for name in below.state_dict()})
    found, expected = (
        temporal_components(rnn, inputs, quadratic, layer=0),
        temporal_components(below, inputs, quadratic),
    )
    assert torch.equal(found.log_norms["weight_hh"], expected.log_norms["weight_hh"])


def test_shares_split_the_norms_at_the_lag(build):
    found = temporal_components(build("tanh"), torch.randn(12, 2, 3, dtype=torch.float64), quadratic)
    norms = found.norms["weight_ih"]
    share = found.share(long_term=4, parameter="weight_ih")
    # t − k ≥ 4 with t = 12: steps k = 1 … 8
    assert share.long_term == pytest.approx((norms[:8].sum() / norms.sum()).item(), rel=1e-12)
    assert share.short_term + share.long_term == pytest.approx(1.0)
    assert found.share(long_term=12) == (1.0, 0.0)
    assert found.share(long_term=99) == (1.0, 0.0)


def test_a_contracting_network_has_no_long_term_share_and_a_rotating_one_has(build, set_weights):
    inputs = torch.randn(60, 1, 2, dtype=torch.float64)
    rotation = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)
    shares = []
    for gain in (0.5, 1.0):
        rnn = build("identity", inputs=2, hidden=2)
        set_weights(rnn, weight_hh_l0=gain * rotation, weight_ih_l0=torch.eye(2))
        shares.append(temporal_components(rnn, inputs, lambda h: h.sum()).share(30, "bias").long_term)
    # The rotation keeps ‖δ‖, so each of the 60 steps has the same share: those with t − k ≥ 30 are half of them.
    assert shares[0] < 1e-8
    assert shares[1] == pytest.approx(0.5)


def test_no_error_means_no_share(build, set_weights):
    rnn = set_weights(build("tanh"))
    found = temporal_components(rnn, torch.zeros(4, 1, 3), lambda h: 0.0 * h.sum())
    assert found.share(long_term=2) == (0.0, 0.0)
    assert all(not value.any() for value in found.sum.values())


def test_exploding_components_are_measured_beyond_the_range_of_floating_point(build, set_weights):
    rnn = set_weights(build("identity", hidden=2), weight_hh_l0=2 * torch.eye(2))
    found = temporal_components(rnn, torch.zeros(1500, 1, 3), lambda h: h[:, 0].sum())
    expected = torch.arange(1499, -1, -1, dtype=torch.float64) * math.log(2)  # e_k = 2^(t − k)
    torch.testing.assert_close(found.log_norms["bias"], expected, rtol=1e-12, atol=1e-12)
    assert found.share(long_term=1, parameter="bias").long_term == pytest.approx(1.0)
    assert found.sum["bias"].tolist() == [math.inf, 0.0]


def test_vanishing_components_keep_their_logarithm(build, set_weights):
    rnn = set_weights(build("identity", hidden=2), weight_hh_l0=[[0.1, 0.0], [0.0, 0.1]])
    found = temporal_components(rnn, torch.zeros(1000, 1, 3), lambda h: h[:, 0].sum())
    assert found.log_norms["bias"][0].item() == pytest.approx(999 * math.log(0.1), rel=1e-12)
    assert found.norms["bias"][0] == 0.0


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_no_parameter_receives_a_gradient_in_any_mode(build, mode):
    rnn, readout = build("tanh"), nn.Linear(5, 1, dtype=torch.float64)
    inputs = torch.randn(5, 2, 3, dtype=torch.float64)
    with mode():
        found = temporal_components(rnn, inputs, lambda h: readout(h).pow(2).sum())
    assert found.norms["weight_hh"][-1] > 0
    assert all(parameter.grad is None for parameter in [*rnn.parameters(), *readout.parameters()])


def test_a_float32_model_meets_its_loss_in_float32_and_is_measured_in_float64():
    torch.manual_seed(0)
    rnn, readout, seen = nn.RNN(3, 5), nn.Linear(5, 1), []
    inputs = torch.randn(6, 2, 3)

    def loss(h: Tensor) -> Tensor:
        seen.append(h.dtype)
        return readout(h).pow(2).sum()

    found = temporal_components(rnn, inputs, loss)
    loss(rnn(inputs)[0][-1]).backward()
    assert seen[0] == torch.float32
    assert found.sum["weight_hh"].dtype == torch.float64
    # float32 gradients of order 1 over six steps.
    torch.testing.assert_close(found.sum["weight_hh"].float(), rnn.weight_hh_l0.grad, rtol=1e-4, atol=1e-6)


def test_a_parametrized_weight_is_read_as_the_layer_uses_it(build):
    rnn = build("tanh")
    nn.utils.parametrizations.orthogonal(rnn, "weight_hh_l0")
    inputs = torch.randn(8, 2, 3, dtype=torch.float64)
    plain = build("tanh")
    with torch.no_grad():
        for name in ("weight_hh_l0", "weight_ih_l0", "bias_ih_l0", "bias_hh_l0"):
            getattr(plain, name).copy_(getattr(rnn, name))
    found, expected = (temporal_components(network, inputs, quadratic) for network in (rnn, plain))
    torch.testing.assert_close(found.log_norms["weight_hh"], expected.log_norms["weight_hh"], rtol=0, atol=1e-12)

"""Lyapunov exponents against published values, known networks and the volume they must add up to."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from steadygrad.analysis import jacobian_norms, lyapunov_from_jacobians, lyapunov_spectrum
from steadygrad.analysis.trajectory import run
from steadygrad.layers.rnn import RNN

F64 = torch.float64


def test_the_henon_maps_exponents_meet_the_published_values():
    """a = 1.4, b = 0.3: 0.41922 and −1.62319 (Sprott 2003, Chaos and Time-Series Analysis, appendix A)."""

    def step(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([1 - 1.4 * x[:, 0] ** 2 + x[:, 1], 0.3 * x[:, 0]], 1)

    def jacobian(x: torch.Tensor) -> torch.Tensor:
        J = torch.tensor([[0.0, 1.0], [0.3, 0.0]], dtype=F64).repeat(len(x), 1, 1)
        J[:, 0, 0] = -2.8 * x[:, 0]
        return J

    x0 = 0.2 * torch.rand(100, 2, generator=torch.Generator().manual_seed(0), dtype=F64)
    found = lyapunov_from_jacobians(jacobian, x0, step, 1000, burn_in=100)
    mean, spread = found.mean(0), found.std(0)
    # 100 starts of 1,000 steps: the mean is known to a tenth of what they differ by, and that is a third of 1 %.
    assert 3 * spread[0].item() / math.sqrt(100) < 0.01 * 0.41922
    assert mean[0].item() == pytest.approx(0.41922, rel=0.01)
    assert mean[1].item() == pytest.approx(-1.62319, rel=0.01)
    # The map contracts areas by exactly 0.3 at every step, along every orbit.
    torch.testing.assert_close(found.sum(1), torch.full((100,), math.log(0.3), dtype=F64), rtol=0, atol=1e-10)


def test_linear_networks_have_the_logarithms_of_their_eigenvalues(build):
    rnn = build("identity", hidden=4, scale=0.5, seed=2)
    # |λ| here: 1.04 (a complex pair shares it), 0.76, 0.53; the alignment at the start adds O(1/steps).
    expected = torch.linalg.eigvals(rnn.weight_hh_l0.detach()).abs().log().sort(descending=True).values
    found = lyapunov_spectrum(rnn, torch.zeros(1500, 1, 3), burn_in=300)
    torch.testing.assert_close(found.exponents, expected, rtol=0, atol=5e-3)
    assert found.steps == 1200


@pytest.mark.parametrize(("nonlinearity", "leak"), [("tanh", 0.0), ("sigmoid", 0.0), ("tanh", 0.6)])
def test_the_exponents_add_up_to_the_mean_log_determinant(build, nonlinearity, leak):
    rnn = build(nonlinearity, leak=leak, scale=1.0)
    inputs = torch.randn(50, 3, 3, dtype=F64)
    found = lyapunov_spectrum(rnn, inputs, burn_in=10)
    trajectory = run(rnn, inputs, None, None)
    jacobians = trajectory.layer.jacobian(trajectory.slopes()[10:])
    expected = torch.linalg.slogdet(jacobians).logabsdet.mean(0)
    # |det R| = |det J| at every step, whatever Q is: rounding alone.
    torch.testing.assert_close(found.per_sequence.sum(1), expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(found.exponents, found.per_sequence.mean(0))
    assert (found.per_sequence.diff(dim=1) <= 0).all()


def test_the_largest_exponent_is_the_limit_of_the_jacobian_norms(build):
    rnn = build("tanh", hidden=6, scale=0.6, seed=4)
    inputs = torch.randn(600, 1, 3, dtype=F64)
    rate = (jacobian_norms(rnn, inputs).log_largest[-1] / 599).item()
    # They differ by a constant of a few units, spread over 600 steps.
    assert lyapunov_spectrum(rnn, inputs).exponents[0].item() == pytest.approx(rate, abs=1e-2)


def test_a_triangular_network_has_its_exponents_in_order(build, set_weights):
    """From the axes, Q would stay put and the slow direction would stand first for ever."""
    rnn = set_weights(build("tanh", hidden=2), weight_hh_l0=[[0.3, 0.0], [0.0, 0.9]])
    found = lyapunov_spectrum(rnn, torch.zeros(200, 1, 3), burn_in=100)
    torch.testing.assert_close(found.exponents, torch.tensor([0.9, 0.3], dtype=F64).log(), rtol=0, atol=1e-10)


def test_directions_lost_for_good_have_an_exponent_of_minus_infinity(build, set_weights):
    rnn = set_weights(build("relu", inputs=3, hidden=3), weight_hh_l0=0.5 * torch.eye(3), weight_ih_l0=torch.eye(3))
    inputs = torch.ones(100, 2, 3, dtype=F64)
    inputs[20, 1, 0] = -9.0  # unit 1 of the second sequence is off once
    found = lyapunov_spectrum(rnn, inputs)
    torch.testing.assert_close(found.per_sequence[0], torch.full((3,), math.log(0.5), dtype=F64), rtol=0, atol=1e-12)
    assert found.per_sequence[1].isfinite().tolist() == [True, True, False]
    assert found.exponents[2] == -math.inf
    singular = set_weights(build("tanh", hidden=3), weight_hh_l0=torch.ones(3, 3) / 3)
    assert lyapunov_spectrum(singular, torch.zeros(30, 1, 3)).exponents.isfinite().tolist() == [True, False, False]


def test_a_burn_in_drops_the_transient(build, set_weights):
    """A unit pushed into saturation at first and then left alone at 0, where its slope is 0.8."""
    rnn = set_weights(build("tanh", inputs=1, hidden=1), weight_hh_l0=0.8, weight_ih_l0=1.0)
    inputs = torch.zeros(400, 1, 1, dtype=F64)
    inputs[:20] = 8.0
    assert lyapunov_spectrum(rnn, inputs).exponents.item() < 2 * math.log(0.8)
    assert lyapunov_spectrum(rnn, inputs, burn_in=150).exponents.item() == pytest.approx(math.log(0.8), abs=1e-10)


def test_tokens_and_layers_are_understood():
    torch.manual_seed(0)
    rnn = RNN(5, 4, num_layers=2)
    tokens = torch.randint(5, (30, 2))
    by_vector = lyapunov_spectrum(rnn, nn.functional.one_hot(tokens, 5).float())
    assert torch.equal(lyapunov_spectrum(rnn, tokens).exponents, by_vector.exponents)
    assert not torch.allclose(lyapunov_spectrum(rnn, tokens, layer=0).exponents, by_vector.exponents, atol=1e-3)

"""σ, σ' and σ'' against autograd, and the inverse of the slope against the slope."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from steadygrad.dynamics.nonlinearity import NONLINEARITIES

TORCH = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu, "identity": lambda x: 1.0 * x}


@pytest.mark.parametrize("name", NONLINEARITIES)
def test_value_slope_and_bend_equal_autograd(name: str) -> None:
    x = torch.linspace(-6.0, 6.0, 101, dtype=torch.float64, requires_grad=True)
    value = TORCH[name](x)
    (slope,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    bend = torch.zeros_like(x)
    if slope.requires_grad:
        (bend,) = torch.autograd.grad(slope.sum(), x, materialize_grads=True)
    sigma, points = NONLINEARITIES[name], x.detach().numpy()
    # Autograd's 1 − tanh² cancels: its own error is an absolute one of a few eps.
    np.testing.assert_allclose(sigma.value(points), value.detach().numpy(), rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(sigma.slope(points), slope.detach().numpy(), rtol=0, atol=2e-15)
    np.testing.assert_allclose(sigma.bend(points), bend.detach().numpy(), rtol=0, atol=4e-15)


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_slope_keeps_its_relative_precision_where_it_saturates(name: str) -> None:
    x = 50.0
    expected = 4.0 * np.exp(-2 * x) if name == "tanh" else np.exp(-x)  # the tail; the next term is e^-50 times smaller
    assert float(NONLINEARITIES[name].slope(x)) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("name", "steepest"), [("tanh", 1.0), ("sigmoid", 0.25)])
@pytest.mark.parametrize("share", [1.0, 0.9999, 0.8, 0.3, 1e-3, 1e-12])
def test_slope_at_points_of_slope_is_that_slope(name: str, steepest: float, share: float) -> None:
    sigma, m = NONLINEARITIES[name], share * steepest
    points = sigma.points_of_slope(m)
    assert len(points) == (1 if share == 1.0 else 2)
    for x in points:
        assert float(sigma.slope(x)) == pytest.approx(m, rel=1e-13)


@pytest.mark.parametrize(("name", "steepest"), [("tanh", 1.0), ("sigmoid", 0.25)])
def test_no_point_is_steeper_than_gamma(name: str, steepest: float) -> None:
    assert NONLINEARITIES[name].points_of_slope(np.nextafter(steepest, 2.0)) == ()

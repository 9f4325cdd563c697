"""ρ, σ_max and 1/γ: what each guarantees, and what ρ does not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from steadygrad.analysis import conditions, counterexample, jacobian_norms, lyapunov_spectrum

GAMMA = {"tanh": 1.0, "relu": 1.0, "sigmoid": 0.25, "identity": 1.0}


def test_rho_and_sigma_max_equal_numpys():
    W = torch.randn(7, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = conditions(W, "tanh")
    # Two LAPACK calls on the same well-conditioned matrix: they differ in rounding alone.
    assert found.rho == pytest.approx(np.abs(np.linalg.eigvals(W.numpy())).max(), rel=1e-12)
    assert found.sigma_max == pytest.approx(np.linalg.svd(W.numpy(), compute_uv=False)[0], rel=1e-12)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_weights_of_low_rank_are_measured(rank: int):
    """Two dozen eigenvalues of exactly 0: torch.linalg.eigvals gives up on such matrices."""
    for seed in range(20):
        patterns = torch.randint(2, (rank, 30), generator=torch.Generator().manual_seed(seed)).double() * 2 - 1
        W = patterns.T @ patterns / 30
        # Symmetric and positive: ρ = σ_max.
        assert conditions(W, "tanh").rho == pytest.approx(torch.linalg.matrix_norm(W, 2).item(), rel=1e-12)


@pytest.mark.parametrize("nonlinearity", GAMMA)
def test_gamma_is_the_steepest_slope_that_autograd_finds(nonlinearity: str):
    x = torch.linspace(-6, 6, 1201, dtype=torch.float64, requires_grad=True)
    value = {"tanh": x.tanh(), "relu": x.relu(), "sigmoid": x.sigmoid(), "identity": x * 1.0}[nonlinearity]
    (slopes,) = torch.autograd.grad(value.sum(), x)
    found = conditions(torch.eye(2), nonlinearity)
    assert found.gamma == pytest.approx(slopes.abs().max().item(), rel=1e-12)
    assert found.threshold == 1 / found.gamma


@pytest.mark.parametrize("nonlinearity", GAMMA)
@pytest.mark.parametrize("leak", [0.0, 0.7])
def test_vanishing_is_guaranteed_below_the_threshold_and_explosion_possible_above_it(nonlinearity: str, leak: float):
    threshold = 1 / GAMMA[nonlinearity]
    below = conditions(0.999 * threshold * torch.eye(4), nonlinearity, leak)
    above = conditions(1.001 * threshold * torch.eye(4), nonlinearity, leak)
    assert (below.vanishing_guaranteed, below.explosion_possible) == (True, False)
    assert (above.vanishing_guaranteed, above.explosion_possible) == (False, True)


@pytest.mark.parametrize("nonlinearity", GAMMA)
def test_an_orthogonal_matrix_at_the_threshold_is_neither_despite_rounding(nonlinearity: str):
    for seed in range(20):
        Q, _ = torch.linalg.qr(torch.randn(30, 30, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
        found = conditions(Q / GAMMA[nonlinearity], nonlinearity)
        assert (found.vanishing_guaranteed, found.explosion_possible) == (False, False)


def test_a_small_eigenvalue_guarantees_vanishing_for_linear_units_only():
    W = torch.tensor([[0.5, 3.0], [0.0, 0.5]])
    assert conditions(W, "identity").vanishing_guaranteed
    assert not conditions(W, "tanh").vanishing_guaranteed
    assert conditions(W, "tanh").explosion_possible


def test_leaky_linear_units_are_judged_by_their_jacobian():
    W = torch.tensor([[-1.2]])  # 0.5 · 1 + 0.5 · (−1.2) = −0.1: ρ(W) > 1, and yet it vanishes
    found = conditions(W, "identity", leak=0.5)
    assert found.rho > 1
    assert found.jacobian_rho == pytest.approx(0.1)
    assert found.vanishing_guaranteed


@pytest.mark.parametrize("leak", [0.0, 0.3])
def test_no_jacobian_exceeds_the_bound(leak: float):
    generator = torch.Generator().manual_seed(2)
    W = torch.randn(6, 6, generator=generator, dtype=torch.float64)
    bound = conditions(W, "sigmoid", leak).jacobian_bound
    for _ in range(200):
        slopes = 0.25 * torch.rand(6, generator=generator, dtype=torch.float64)
        J = leak * torch.eye(6, dtype=torch.float64) + (1 - leak) * slopes.unsqueeze(1) * W
        assert torch.linalg.matrix_norm(J, 2) <= bound
    steepest = leak * torch.eye(6, dtype=torch.float64) + (1 - leak) * 0.25 * W
    assert torch.linalg.matrix_norm(steepest, 2) > 0.8 * bound  # and the bound is not an idle one


@pytest.mark.parametrize(
    ("W", "nonlinearity", "says"),
    [
        (0.5 * torch.eye(2), "tanh", ["Vanishing is guaranteed", "σ_max = 0.5 < 1/γ = 1", "eq. 6 and 7"]),
        (2.0 * torch.eye(2), "tanh", ["Explosion is possible", "not sufficient", "ρ = 2 is not below"]),
        (torch.tensor([[0.5, 3.0], [0.0, 0.5]]), "tanh", ["ρ = 0.5", "eigenvalue", "singular value", "counterexample"]),
        (torch.eye(2), "relu", ["Neither", "can't explode"]),
        (0.5 * torch.eye(2), "identity", ["Vanishing is guaranteed", "linear", "supplement"]),
        (torch.tensor([[0.5, 3.0], [0.0, 0.5]]), "identity", ["Vanishing is guaranteed", "grow at first"]),
        (2.0 * torch.eye(2), "identity", ["Explosion is possible", "eigenvector", "supplement"]),
        (torch.eye(2), "identity", ["Neither", "polynomially"]),
    ],
)
def test_the_verdict_names_its_theorem(W: torch.Tensor, nonlinearity: str, says: list[str]):
    verdict = conditions(W, nonlinearity).verdict
    assert "Pascanu et al. 2013" in verdict
    for words in says:
        assert words in verdict


def example(steps: int = 200) -> tuple[Any, torch.Tensor]:
    return counterexample(steps)


def test_the_counterexample_explodes_although_its_spectral_radius_is_zero():
    rnn, inputs = example(steps=400)
    W = rnn.weight_hh_l0.detach()
    assert torch.equal(W @ W, torch.zeros(2, 2, dtype=W.dtype))  # nilpotent: every eigenvalue is 0
    found = conditions(W, rnn.nonlinearity)
    assert found.rho < 1e-6 < found.threshold
    assert not found.vanishing_guaranteed
    norms = jacobian_norms(rnn, inputs)
    lags = norms.lags.double()
    # Growth by e^0.5 per step: at lag 399 some e^200; a third of that rate at every lag from 50 on is far from chance.
    assert (norms.log_largest[50:] > 0.33 * lags[50:]).all()
    assert norms.log_largest[-1] > 150


def test_the_counterexamples_product_equals_brute_force():
    rnn, inputs = example(steps=40)
    x, h = [], torch.zeros(2, dtype=torch.float64)
    for u in inputs[:, 0]:
        x.append(rnn.weight_hh_l0 @ h + rnn.weight_ih_l0 @ u)
        h = x[-1].tanh()
    product = torch.eye(2, dtype=torch.float64)
    for x_k in x[:-1]:
        product = rnn.weight_hh_l0 @ torch.diag(1 - x_k.tanh() ** 2) @ product
    # Forty chaotic steps amplify a rounding difference of the states by some e^20 ≈ 5e8: seven digits remain.
    expected = torch.linalg.matrix_norm(product.detach(), 2).log().item()
    assert jacobian_norms(rnn, inputs).log_largest[-1].item() == pytest.approx(expected, rel=1e-6)


def test_the_counterexample_does_not_depend_on_start_or_exact_weights():
    rnn, inputs = example(steps=1000)
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        perturbed, _ = example()
        with torch.no_grad():
            for parameter in perturbed.parameters():
                parameter += 1e-3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        start = 2 * torch.rand(1, 2, generator=generator, dtype=torch.float64) - 1
        assert conditions(perturbed.weight_hh_l0, "tanh").rho < 0.1
        assert lyapunov_spectrum(perturbed, inputs, start, burn_in=100).exponents[0] > 0.3
    assert lyapunov_spectrum(rnn, inputs, burn_in=100).exponents[0] > 0.3


def test_a_saturated_unit_alone_undoes_the_nilpotence():
    # The argument of the docstring: W diag(1, 0) has the eigenvalue 3 although W has none but 0.
    rnn, _ = example()
    J = rnn.weight_hh_l0.detach() @ torch.diag(torch.tensor([1.0, 0.0], dtype=torch.float64))
    assert torch.linalg.eigvals(J).abs().max().item() == pytest.approx(3.0)


def test_a_normal_matrix_of_the_same_spectral_radius_vanishes():
    rnn: Any = nn.RNN(1, 2, bias=False, dtype=torch.float64)
    with torch.no_grad():
        rnn.weight_hh_l0.copy_(torch.tensor([[0.0, 0.9], [-0.9, 0.0]]))
    norms = jacobian_norms(rnn, torch.ones(200, 1, 1, dtype=torch.float64))
    assert norms.log_largest[-1] <= 199 * math.log(0.9) + 1e-9


def test_the_counterexample_leaves_the_random_state_alone():
    before = torch.get_rng_state()
    counterexample()
    assert torch.equal(torch.get_rng_state(), before)

"""Products that leave floating point's range, or its precision."""

from __future__ import annotations

import math

import pytest
import torch

from steadygrad.analysis.products import ScaledProduct


def random_matrix(condition: float, generator: torch.Generator, size: int = 6) -> torch.Tensor:
    U, _ = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))
    V, _ = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))
    return U @ torch.diag(torch.logspace(0, -math.log10(condition), size, dtype=torch.float64)) @ V


def test_directions_of_very_different_growth_do_not_drown_each_other():
    """Two units take turns to fade. A product that is merely rescaled forgets the second while the first is ahead."""
    first = torch.diag(torch.tensor([1.0, 0.01], dtype=torch.float64))
    second = torch.diag(torch.tensor([0.01, 1.0], dtype=torch.float64))
    product, rescaled, log_scale = ScaledProduct(2), torch.eye(2, dtype=torch.float64), 0.0
    for factor in [first] * 300 + [second] * 500:
        product.multiply(factor)
        product.refactor()
        rescaled = factor @ rescaled
        log_scale += math.log(rescaled.max())
        rescaled = rescaled / rescaled.max()
    assert product.log_norm() == pytest.approx(300 * math.log(0.01), rel=1e-13)
    assert log_scale == pytest.approx(500 * math.log(0.01))  # the test would notice


def test_the_norm_equals_brute_force_where_brute_force_can_be_trusted():
    generator = torch.Generator().manual_seed(1)
    product, plain = ScaledProduct(5), torch.eye(5, dtype=torch.float64)
    for _ in range(30):
        factor = torch.randn(5, 5, generator=generator, dtype=torch.float64)
        product.multiply(factor)
        # In general position the norm of a product is well-conditioned: rounding alone, refactored or not.
        plain = factor @ plain
        assert product.log_norm() == pytest.approx(math.log(torch.linalg.matrix_norm(plain, 2)), abs=1e-11)
        product.refactor()
        assert product.log_norm() == pytest.approx(math.log(torch.linalg.matrix_norm(plain, 2)), abs=1e-11)


def test_factors_keep_orthonormal_columns_and_reproduce_the_product():
    generator = torch.Generator().manual_seed(2)
    product, plain = ScaledProduct(4), torch.eye(4, dtype=torch.float64)
    for _ in range(3):
        factor = random_matrix(10.0, generator, 4)
        product.multiply(factor)
        product.refactor()
        plain = factor @ plain
    torch.testing.assert_close(product.N.T @ product.N, torch.eye(4, dtype=torch.float64), rtol=0, atol=1e-14)
    torch.testing.assert_close(product.N @ torch.diag(product.d.exp()) @ product.T, plain, rtol=0, atol=1e-14)


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_the_range_of_floating_point_is_no_limit(factor: float):
    product = ScaledProduct(3)
    for _ in range(50):
        product.multiply(factor * torch.eye(3, dtype=torch.float64))
        product.refactor()
    assert product.log_norm() == pytest.approx(50 * math.log(factor), rel=1e-13)


def test_scale_rows_multiplies_by_a_diagonal_and_a_scale():
    product = ScaledProduct(2)
    product.scale_rows(torch.tensor([1.0, 0.5], dtype=torch.float64), log_scale=-1000.0)
    assert product.log_norm() == pytest.approx(-1000.0)


@pytest.mark.parametrize("seed", range(6))
def test_a_direction_lost_exactly_does_not_come_back_through_rounding(seed: int):
    """Two units survive and are damped; the dead ones would grow. Rounding dust, once amplified, would win by far."""
    generator = torch.Generator().manual_seed(seed)
    Q, _ = torch.linalg.qr(torch.randn(6, 6, generator=generator, dtype=torch.float64))
    alive = torch.randperm(6, generator=generator) < 2
    product = ScaledProduct(6)
    product.multiply(Q)
    product.scale_rows(alive.double())
    product.refactor()
    for _ in range(40):
        product.scale_rows(torch.tensor([5.0, 0.1], dtype=torch.float64)[alive.long()])
        product.refactor()
    assert product.log_norm() == pytest.approx(40 * math.log(0.1), abs=1e-10)


def test_coupled_units_that_take_turns_equal_mpmath():
    """As above with a coupling: the small scale is 1e-600 of the large one, and yet it decides in the end."""
    mpmath = pytest.importorskip("mpmath")
    generator = torch.Generator().manual_seed(0)
    product = ScaledProduct(2)
    with mpmath.workdps(40):
        exact = mpmath.eye(2)  # of entries that are not negative: nothing cancels
        for fading in [1] * 300 + [0] * 400:
            factor = torch.eye(2, dtype=torch.float64)
            factor[fading, fading] = 0.01
            factor[0, 1] = 0.5 + torch.rand((), generator=generator)
            product.multiply(factor)
            product.refactor()
            exact = mpmath.matrix(factor.tolist()) * exact
        expected = float(mpmath.log(mpmath.svd_r(exact, compute_uv=False)[0]))
    assert expected < -1000
    assert product.log_norm() == pytest.approx(expected, rel=1e-13)


def test_a_product_of_disjoint_projections_is_exactly_zero():
    product = ScaledProduct(2)
    product.scale_rows(torch.tensor([1.0, 0.0], dtype=torch.float64))
    product.refactor()
    product.scale_rows(torch.tensor([0.0, 1.0], dtype=torch.float64))
    product.refactor()
    assert product.log_norm() == -math.inf
    product.multiply(torch.ones(2, 2, dtype=torch.float64))
    product.refactor()
    assert product.log_norm() == -math.inf

"""The supplement's power iteration, with what it leaves to the Jordan form, against brute-force powers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from steadygrad.analysis import linear_growth

F64 = torch.float64


def log_norm_by_powers(W: Tensor, error: Tensor, lag: int) -> float:
    """log ‖δ W^lag‖, multiplied out step by step and rescaled."""
    row, log_scale = error.double(), 0.0
    for _ in range(lag):
        row = row @ W.double()
        log_scale += math.log(row.norm())
        row = row / row.norm()
    return log_scale + math.log(row.norm())


def with_blocks(*blocks: Tensor, seed: int = 0) -> Tensor:
    """W = S · blockdiag(blocks) · S⁻¹ for a random S."""
    J = torch.block_diag(*blocks).to(F64)
    S = torch.randn(J.shape, generator=torch.Generator().manual_seed(seed), dtype=F64)
    return S @ J @ torch.linalg.inv(S)


def jordan(eigenvalue: float, size: int) -> Tensor:
    return eigenvalue * torch.eye(size, dtype=F64) + torch.diag(torch.ones(size - 1, dtype=F64), 1)


def rotation(angle: float, gain: float) -> Tensor:
    c, s = gain * math.cos(angle), gain * math.sin(angle)
    return torch.tensor([[c, -s], [s, c]], dtype=F64)


def draw(size: int, seed: int = 7) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=F64)


SMALLER = torch.diag(torch.tensor([0.5, -0.3], dtype=F64))
MATRICES = {
    "real": (with_blocks(torch.tensor([[1.1]], dtype=F64), SMALLER), 1.1, 0, 1),
    "negative": (with_blocks(torch.tensor([[-1.1]], dtype=F64), SMALLER), 1.1, 0, 1),
    "complex pair": (with_blocks(rotation(0.7, 1.05), SMALLER), 1.05, 0, 2),
    "equal and opposite": (with_blocks(torch.diag(torch.tensor([0.8, -0.8], dtype=F64)), SMALLER), 0.8, 0, 2),
    "repeated, not defective": (with_blocks(0.9 * torch.eye(2, dtype=F64), SMALLER), 0.9, 0, 1),
    "Jordan 2": (with_blocks(jordan(0.9, 2), SMALLER), 0.9, 1, 1),
    "Jordan 3": (with_blocks(jordan(1.2, 3), SMALLER), 1.2, 2, 1),
    "Jordan 4": (with_blocks(jordan(0.9, 4), SMALLER), 0.9, 3, 1),
    "exact Jordan 3": (torch.block_diag(jordan(0.9, 3), SMALLER), 0.9, 2, 1),
    "two Jordan 2": (with_blocks(jordan(0.9, 2), jordan(0.9, 2), SMALLER), 0.9, 1, 1),
    "complex Jordan 2": (
        with_blocks(
            torch.cat(
                [
                    torch.cat([rotation(0.7, 1.05), torch.eye(2, dtype=F64)], 1),
                    torch.cat([torch.zeros(2, 2, dtype=F64), rotation(0.7, 1.05)], 1),
                ]
            ),
            SMALLER,
        ),
        1.05,
        1,
        2,
    ),
}


@pytest.mark.parametrize("name", MATRICES)
def test_rate_degree_and_directions_are_those_the_matrix_was_built_with(name: str):
    W, rate, degree, directions = MATRICES[name]
    growth = linear_growth(W, draw(len(W)))
    # A block's mean eigenvalue is known to eps · κ; 1e-8 leaves κ = 1e7.
    assert growth.rate == pytest.approx(rate, rel=1e-8)
    assert growth.degree == degree
    assert growth.directions.shape == (len(W), directions)
    assert int(growth.multiplicities.sum()) == len(W)


@pytest.mark.parametrize("name", MATRICES)
def test_predicted_norms_equal_brute_force_powers(name: str):
    W, *_ = MATRICES[name]
    error = draw(len(W))
    growth = linear_growth(W, error)
    for lag in (40, 41, 42, 43, 44, 75, 110):
        # What is left out falls as gap^lag; the constant before it is the spread of the random basis.
        allowed = 1e4 * growth.gap**lag + 1e-6
        assert growth.log_predict(lag) == pytest.approx(log_norm_by_powers(W, error, lag), abs=allowed)
        assert growth.predict(lag) == pytest.approx(math.exp(growth.log_predict(lag)))


@pytest.mark.parametrize("name", MATRICES)
def test_the_transported_error_ends_in_the_reported_directions(name: str):
    W, *_ = MATRICES[name]
    row = draw(len(W))
    growth = linear_growth(W, row)
    for _ in range(3000):
        row = row @ W
        row = row / row.norm()
    outside = row - growth.directions @ (growth.directions.T @ row)
    # A Jordan chain turns into its eigenvector only as 1/l: at l = 3000 within some thousandths.
    assert outside.norm() < (0.02 if growth.degree else 1e-6)


def test_coefficients_reassemble_a_symmetric_matrixs_error():
    """Orthonormal eigenvectors: |c_i| is the length of the projection, and left and right eigenvectors agree."""
    S = draw(16).reshape(4, 4)
    W, error = S + S.T, draw(4, seed=1)
    growth = linear_growth(W, error)
    values, vectors = torch.linalg.eigh(W)
    order = values.abs().argsort(descending=True)
    torch.testing.assert_close(growth.eigenvalues.real, values[order], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(growth.coefficients, (vectors.T @ error).abs()[order], rtol=1e-10, atol=1e-12)


def test_the_error_is_a_row_vector_and_meets_left_eigenvectors():
    """W = [[2, 1], [0, 0.5]]: (0, 1) W = 0.5 (0, 1). As a column it would pick up the eigenvalue 2."""
    W = torch.tensor([[2.0, 1.0], [0.0, 0.5]])
    growth = linear_growth(W, torch.tensor([0.0, 1.0]))
    assert growth.rate == pytest.approx(0.5)
    assert growth.dominating == 1
    assert growth.predict(10) == pytest.approx(0.5**10)
    assert linear_growth(W.T, torch.tensor([0.0, 1.0])).rate == pytest.approx(2.0)


def test_an_error_without_a_dominating_part_takes_the_next_eigenvalue():
    W = torch.diag(torch.tensor([2.0, 0.5, 0.3]))
    growth = linear_growth(W, torch.tensor([0.0, 3.0, 4.0]))
    assert (growth.dominating, growth.rate) == (1, pytest.approx(0.5))
    assert growth.gap == pytest.approx(0.6)
    torch.testing.assert_close(growth.directions.abs(), torch.tensor([[0.0], [1.0], [0.0]], dtype=F64))
    torch.testing.assert_close(growth.coefficients, torch.tensor([0.0, 3.0, 4.0], dtype=F64))


@pytest.mark.parametrize("size", [2, 3])
def test_a_nilpotent_matrix_transports_nothing_after_its_index(size: int):
    W, error = with_blocks(jordan(0.0, size), torch.zeros(2, 2)), draw(size + 2)
    growth = linear_growth(W, error)
    assert (growth.rate, growth.degree) == (0.0, size - 1)
    for lag in range(size):
        expected = (error @ torch.linalg.matrix_power(W, lag)).norm().item()
        assert growth.predict(lag) == pytest.approx(expected, rel=1e-9)
    assert growth.predict(size) == 0.0
    assert growth.log_predict(size) == -math.inf


def test_an_error_of_zeros_has_no_dominating_index():
    growth = linear_growth(torch.eye(3), torch.zeros(3))
    assert growth.dominating is None
    assert growth.predict(5) == 0.0
    assert growth.directions.shape == (3, 0)


def test_a_prediction_beyond_the_range_of_floating_point_keeps_its_logarithm():
    growth = linear_growth(torch.diag(torch.tensor([3.0, 1.0])), torch.tensor([1.0, 1.0]))
    assert growth.log_predict(5000) == pytest.approx(5000 * math.log(3.0), rel=1e-12)
    assert growth.predict(5000) == math.inf


def test_weights_of_low_rank_are_understood():
    """H − 2 eigenvalues of 0, not defective: δ W^l is carried by two patterns alone."""
    patterns = torch.randint(2, (2, 30), generator=torch.Generator().manual_seed(0)).double() * 2 - 1
    W, error = 1.5 * patterns.T @ patterns / 30, draw(30)
    growth = linear_growth(W, error)
    assert growth.rate == pytest.approx(torch.linalg.matrix_norm(W, 2).item(), rel=1e-12)
    assert growth.degree == 0
    assert growth.log_predict(500) == pytest.approx(log_norm_by_powers(W, error, 500), abs=1e-9)


def test_a_large_random_matrix_is_left_in_simple_eigenvalues():
    W, error = draw(3600, seed=2).reshape(60, 60) / math.sqrt(60), draw(60)
    growth = linear_growth(W, error)
    assert growth.multiplicities.tolist() == [1] * 60
    assert growth.rate == pytest.approx(torch.linalg.eigvals(W).abs().max().item(), rel=1e-10)
    lag = math.ceil(math.log(1e-8) / math.log(growth.gap))
    assert growth.log_predict(lag) == pytest.approx(log_norm_by_powers(W, error, lag), abs=1e-5)

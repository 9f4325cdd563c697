"""Conjugate gradients solve a known system, with and without a preconditioner, and stop where Martens 2010 says."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from steadygrad.baselines.conjugate_gradients import conjugate_gradients, makes_no_progress

N = 12


def system(spread: float) -> tuple[Tensor, Tensor, Tensor]:
    """A, b and the solution; the diagonal of A spans `spread`, what lies beside it is small."""
    draw = torch.Generator().manual_seed(1)
    root = torch.randn(N, N, dtype=torch.float64, generator=draw)
    scale = torch.logspace(0, math.log10(spread), N, dtype=torch.float64).sqrt()
    a = (torch.eye(N, dtype=torch.float64) + 0.05 * root @ root.T / N) * scale * scale[:, None]
    solution = torch.randn(N, dtype=torch.float64, generator=draw)
    return a, a @ solution, solution


@pytest.mark.parametrize("preconditioned", [False, True])
@pytest.mark.parametrize("warm", [False, True])
def test_the_solution_of_a_known_system_is_found(preconditioned: bool, warm: bool) -> None:
    a, b, solution = system(100.0)
    found = conjugate_gradients(
        lambda v: a @ v,
        b,
        torch.ones_like(b) if warm else None,
        a.diagonal() if preconditioned else None,
        tolerance=0.0,
    )
    assert found.stopped == "residual"
    # the residual is below 1e-15 of b, and A's condition number about 100
    torch.testing.assert_close(found.x, solution, rtol=1e-11, atol=1e-12)


def test_a_preconditioner_that_is_as_wide_as_the_system_saves_iterations() -> None:
    a, b, _ = system(1e6)
    plain, helped = (
        conjugate_gradients(lambda v: a @ v, b, None, diagonal, tolerance=0.0, max_iterations=1000)
        for diagonal in (None, a.diagonal())
    )
    # exact arithmetic needs at most N; what is badly scaled needs more in rounded arithmetic
    assert helped.iterations <= N < plain.iterations


def test_values_are_those_of_the_quadratic_and_fall() -> None:
    a, b, _ = system(100.0)
    found = conjugate_gradients(lambda v: a @ v, b, torch.ones_like(b), tolerance=0.0, max_iterations=8, spacing=1.0)
    x = torch.ones_like(b)
    assert found.values[0] == pytest.approx(float(0.5 * x @ a @ x - b @ x), rel=1e-12)
    x = found.x
    assert found.values[-1] == pytest.approx(float(0.5 * x @ a @ x - b @ x), rel=1e-12)
    assert all(later < earlier for earlier, later in pairwise(found.values))


def test_iterates_are_kept_ever_further_apart_and_the_last_one_always() -> None:
    a, b, _ = system(1e8)
    found = conjugate_gradients(lambda v: a @ v, b, tolerance=0.0, max_iterations=18)
    assert found.stopped == "limit"
    # each is the one before times 1.3, rounded up
    assert [i for i, _ in found.iterates] == [1, 2, 3, 4, 6, 8, 11, 15, 18]


@pytest.mark.parametrize(("i", "k"), [(11, 10), (100, 10), (101, 11), (200, 20)])
def test_progress_is_measured_over_the_last_tenth_of_the_iterations(i: int, k: int) -> None:
    # φ(x_i) = −1 and, k iterations earlier, −1 + kε or a little less or more; what lies between does not count
    for share, stops in ((0.99, True), (1.01, False)):
        values = [5.0] * (i + 1)
        values[i - k], values[i] = -1 + share * k * 5e-4, -1.0
        assert makes_no_progress(values, 5e-4) is stops


def test_progress_is_not_judged_too_soon_nor_where_the_quadratic_is_above_zero() -> None:
    assert not makes_no_progress([-1.0] * 11, 5e-4)  # i = 10 = k
    assert makes_no_progress([-1.0] * 12, 5e-4)
    assert not makes_no_progress([1.0] * 12, 5e-4)
    assert not makes_no_progress([-1.0] * 12, 0.0)


def test_the_run_ends_at_the_first_iteration_without_progress() -> None:
    a, b, _ = system(1e8)
    found = conjugate_gradients(lambda v: a @ v, b, tolerance=5e-3)
    assert found.stopped == "progress"
    assert makes_no_progress(found.values, 5e-3)
    assert not any(makes_no_progress(found.values[:end], 5e-3) for end in range(1, len(found.values)))


def test_a_direction_of_negative_curvature_ends_the_run_where_it_is() -> None:
    a = torch.diag(torch.tensor([1.0, -1.0], dtype=torch.float64))
    found = conjugate_gradients(lambda v: a @ v, torch.tensor([0.0, 1.0], dtype=torch.float64))
    assert (found.stopped, found.iterations, found.x.tolist()) == ("curvature", 0, [0.0, 0.0])


def test_a_right_hand_side_of_zero_is_solved_by_zero() -> None:
    found = conjugate_gradients(lambda v: 2 * v, torch.zeros(3))
    assert (found.stopped, found.iterations, found.x.tolist()) == ("residual", 0, [0.0, 0.0, 0.0])

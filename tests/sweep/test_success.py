"""Rates of success: Wilson's interval against its definition and against coin tosses."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from steadygrad.sweep import SuccessRate, wilson

Z = NormalDist().inv_cdf(0.975)


@pytest.mark.parametrize(("solved", "seeds"), [(1, 3), (4, 5), (7, 8), (25, 50), (49, 50)])
def test_the_ends_of_the_interval_solve_wilsons_quadratic(solved: int, seeds: int) -> None:
    # They are the rates p at which |p̂ − p| is exactly z standard deviations √(p (1 − p)/n). 1e-12: rounding alone.
    for p in wilson(solved, seeds):
        assert abs(solved / seeds - p) == pytest.approx(Z * math.sqrt(p * (1 - p) / seeds), rel=1e-12)


def test_the_interval_of_none_and_of_all_ends_exactly_at_the_edge() -> None:
    for seeds in (1, 5, 50):
        n_over = seeds / (seeds + Z * Z)  # the known closed form at the edges
        assert wilson(seeds, seeds) == (pytest.approx(n_over, rel=1e-12), 1.0)
        assert wilson(0, seeds) == (0.0, pytest.approx(1 - n_over, rel=1e-12))


def test_the_interval_covers_the_true_rate_about_as_often_as_it_says() -> None:
    # Exact coverage by summing the binomial distribution. Wilson's is 95 % on average over p, not at each p.
    n, covered = 20, []
    rates = [(i + 0.5) / 200 for i in range(200)]
    for p in rates:
        inside = [k for k in range(n + 1) if wilson(k, n)[0] <= p <= wilson(k, n)[1]]
        covered.append(sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in inside))
    assert sum(covered) / len(covered) == pytest.approx(0.95, abs=0.01)
    assert min(covered) > 0.83


def test_more_confidence_or_fewer_seeds_widen_the_interval() -> None:
    def width(*arguments: float) -> float:
        low, high = wilson(*arguments)  # type: ignore[arg-type]
        return high - low

    assert width(4, 8, 0.99) > width(4, 8, 0.95) > width(4, 8, 0.5)
    assert width(2, 4) > width(4, 8) > width(40, 80)


def test_impossible_counts_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^solved must be at most the number of seeds, 5, not 6$"):
        wilson(6, 5)
    with pytest.raises(ValueError, match=r"^seeds must be a whole number of at least 1, not 0$"):
        wilson(0, 0)
    with pytest.raises(ValueError, match=r"^confidence must be a number in \(0, 1\), not 1$"):
        wilson(1, 2, 1)


def test_a_rate_without_seeds_says_that_nothing_is_known() -> None:
    nothing = SuccessRate.of([])
    assert (str(nothing), nothing.rate, nothing.interval) == ("–", None, (0.0, 1.0))
    assert str(SuccessRate.of([True, False])) == "1/2"

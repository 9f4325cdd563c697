"""Draws over ranges are uniform, each over its own; and the yardstick of uniformity used here can fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from steadygrad.tasks.task import uniform_over

Seeded = Callable[[int], torch.Generator]
Yardstick = Callable[[Sequence[float]], float]


def test_the_yardstick_passes_fair_counts_and_fails_skewed_ones(uniform_p: Yardstick) -> None:
    # 95 % quantile of chi-square with one degree of freedom: 3.841. Counts 1000 ± d give d²/500.
    d = (3.841 * 500) ** 0.5
    assert abs(uniform_p([1000 + d, 1000 - d]) - 0.05) < 1e-4
    assert uniform_p([1000, 1001, 999]) > 0.9
    assert uniform_p([1100, 1000, 900]) < 1e-4


def test_each_row_is_uniform_over_its_own_range_and_reaches_both_ends(seeded: Seeded, uniform_p: Yardstick) -> None:
    # Widths 5, 6 and 2 share no common width: a remainder taken of anything but a common multiple would be skewed.
    ranges = (range(3, 8), range(10, 16), range(2))
    drawn = uniform_over(ranges, 30_000, seeded(1))
    for row, r in zip(drawn, ranges, strict=True):
        counts = torch.bincount(row, minlength=r.stop)
        assert counts[: r.start].sum() == 0
        assert len(counts) == r.stop
        assert uniform_p(counts[r.start :].tolist()) > 1e-3


def test_rows_are_independent_of_each_other(seeded: Seeded, uniform_p: Yardstick) -> None:
    a, b, c = uniform_over((range(4), range(6), range(2)), 48_000, seeded(2))
    assert uniform_p(torch.bincount((a * 6 + b) * 2 + c, minlength=48).tolist()) > 1e-3


def test_draws_are_residues_of_the_mersenne_twister_and_so_the_same_on_every_machine(seeded: Seeded) -> None:
    ranges = (range(3, 8), range(10, 16))
    raw = np.random.RandomState(7).randint(0, 2**32, size=(2, 9), dtype=np.uint32).astype(np.int64) % 30
    expected = raw % np.array([[5], [6]]) + np.array([[3], [10]])
    assert uniform_over(ranges, 9, seeded(7)).tolist() == expected.tolist()

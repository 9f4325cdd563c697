"""Thresholds that adapt equal their formulas and withstand explosions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from clip_cases import (
    clipper_of,
    feed,
    lognormal,
)

from steadygrad.clip import Auto, Percentile, Spike

INF, NAN = math.inf, math.nan


def test_median_equals_its_formula() -> None:
    rule = Auto(warmup=5, multiple=3.0, window=20)
    norms = lognormal(200)
    norms[[60, 61, 130]] = 1e6
    norms[70:95] *= 10.0 ** np.linspace(0, -12, 25)  # the spread goes past 100 and comes back
    bounded = 0
    met = feed(clipper_of(rule), norms)
    assert met[0] == 1.0
    for n in range(1, 200):
        ordered = np.sort(norms[max(0, n - 20) : n])
        q50, q10 = ordered[(len(ordered) - 1) // 2], ordered[(len(ordered) - 1) // 10]
        value = 3.0 * q50 / min(q50 / q10, 100.0)
        bounded += q50 / q10 > 100
        assert met[n] == pytest.approx(min(value, 1.0) if n < 5 else value, rel=1e-14)
    assert 0 < bounded < 100


@pytest.mark.parametrize("statistic", ["median", "mean"])
def test_threshold_of_ordinary_norms_clips_none_of_them(statistic: Any) -> None:
    norms = np.random.default_rng(0).lognormal(sigma=0.3, size=1000)
    clipper = clipper_of(Auto(statistic=statistic))
    feed(clipper, norms)
    assert clipper.stats.clipped <= 25  # those of the warm-up, which may be at most 1, and few others
    assert 2.0 < clipper.threshold < 10.0


def test_mean_equals_its_formula() -> None:
    rule = Auto(warmup=5, multiple=3.0, window=20, statistic="mean")
    norms = lognormal(200)
    norms[[60, 61, 130]] = 1e6
    a: list[float] = []
    for n, (norm, met) in enumerate(zip(norms, feed(clipper_of(rule), norms), strict=True)):
        if n == 0:
            assert met == INF
        elif n < 5:
            assert met == 3.0 * np.percentile(norms[:n], 50, method="lower")
        if n == 5:
            a = [min(x, 10 * np.percentile(norms[:5], 50, method="lower")) for x in norms[:5]]
        if n >= 5:
            average = np.mean(a[-20:])
            # the running sum is renewed every 20 updates: at most 20 roundings at the size of 1e6 against 1
            assert met == pytest.approx(3.0 * average, rel=1e-9)
            a.append(min(norm, 10 * average))


@pytest.mark.parametrize("rule", ["auto", Auto(warmup=100, statistic="mean")], ids=str)
def test_auto_is_not_poisoned_by_an_explosion_at_any_time(rule: Any) -> None:
    ordinary = lognormal(400)
    calm = feed(clipper_of(rule), ordinary)[-1]
    for position in (0, 1, 2, 50, 99, 100, 300):
        exploded = ordinary.copy()
        exploded[position] = 1e30
        clipper = clipper_of(rule)
        met = feed(clipper, exploded)
        if position or rule == "auto":
            assert clipper.stats.history[position][1] < 1e3  # clipped to something ordinary
        # it counts as ten averages among the up to 400 so far; in the first average, of 100, ten medians
        assert met[-1] < 1.1 * calm


@pytest.mark.parametrize("statistic", ["median", "mean"])
def test_auto_follows_a_lasting_change_of_scale_within_one_window(statistic: Any) -> None:
    clipper = clipper_of(Auto(warmup=10, multiple=2.0, window=50, statistic=statistic))
    for scale in (1.0, 1000.0, 1e-3):
        feed(clipper, [scale] * 100)
        assert clipper.threshold == pytest.approx(2.0 * scale, rel=1e-9)


def test_auto_and_percentile_pass_over_zero_norms() -> None:
    rules = (Auto(warmup=2, statistic="mean"), Percentile(50), Auto(warmup=2), Spike(warmup=2))
    for rule in rules:
        clipper = clipper_of(rule)
        untouched = clipper.threshold
        feed(clipper, [0.0, 0.0])
        assert clipper.threshold == untouched
        feed(clipper, [1.0, 0.0, 1.0, 0.0])
        assert clipper.threshold >= 1.0


@pytest.mark.parametrize("p", [0.1, 10, 50, 90, 99.9, 100])
def test_percentile_equals_numpy_over_the_window_before(p: float) -> None:
    norms = np.round(lognormal(120), 1) + 0.1  # rounded, so that equal norms occur
    met = feed(clipper_of(Percentile(p, window=30)), norms)
    assert met[0] == INF
    for n in range(1, 120):
        assert met[n] == np.percentile(norms[max(0, n - 30) : n], p, method="inverted_cdf")


def test_nonfinite_and_shrunk_norms_do_not_enter_the_statistics() -> None:
    for rule in (Auto(warmup=2), Auto(warmup=2, statistic="mean"), Percentile(100), Spike(warmup=2)):
        clipper = clipper_of(rule)
        feed(clipper, [1.0, 1.0, 1.0])
        before = clipper.threshold
        feed(clipper, [NAN, INF])
        assert clipper.threshold == before
        assert clipper.stats.skipped == 2

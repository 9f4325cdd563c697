"""Spike: updates whose norm leaves the running mean are clipped to mean + z deviations, or skipped."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from clip_cases import clipper_of, feed, fresh, frozen, give, gradients, parameters

from steadygrad.clip import NormClipper, Spike


def ordinary(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(sigma=0.2, size=count)


def by_hand(norms: np.ndarray, z: float, decay: float, warmup: int) -> list[float]:
    """The thresholds of the formula at the top of threshold.py, with the variance in place of the deviation."""
    met = [math.inf] * warmup
    first = np.sort(norms[:warmup])
    middle = (warmup - 1) // 2
    mean = first[middle]
    variance = (1.4826 * np.sort(np.abs(first - mean))[middle]) ** 2
    for norm in norms[warmup:]:
        met.append(mean + z * max(math.sqrt(variance), mean / 100))
        a = min(norm, met[-1])
        mean, variance = decay * mean + (1 - decay) * a, decay * variance + (1 - decay) * (a - mean) ** 2
    return met


@pytest.mark.filterwarnings("ignore:the last 20 updates")
@pytest.mark.parametrize("action", ["clip", "skip"])
@pytest.mark.parametrize(("z", "decay", "warmup"), [(3.0, 0.97, 25), (0.5, 0.9, 2), (2.0, 0.0, 7)])
def test_thresholds_equal_the_formula(action: Any, z: float, decay: float, warmup: int) -> None:
    norms = ordinary(200)
    norms[[60, 61, 130]] = (50.0, 1e6, 1e30)
    clipper = clipper_of(Spike(z, action, decay, warmup))
    met = feed(clipper, norms)
    expected = by_hand(norms, z, decay, warmup)
    assert met == pytest.approx(expected, rel=1e-9)  # √ and square of a deviation that may be far smaller than the mean
    beyond = sum(norm >= value for norm, value in zip(norms, expected, strict=True))
    stats = clipper.stats
    assert stats.spikes == beyond
    assert (stats.clipped, stats.skipped) == ((beyond, 0) if action == "clip" else (0, beyond))


def test_spike_is_clipped_to_the_mean_and_z_deviations() -> None:
    clipper = clipper_of(Spike(z=2.0, warmup=3))
    feed(clipper, [1.0, 2.0, 3.0])
    # median 2; the deviations from it are 1, 0, 1, their lower median 1: s = 1.4826, θ = 2 + 2 · 1.4826
    assert clipper.threshold == pytest.approx(4.9652)
    feed(clipper, [100.0])
    assert clipper.stats.history[-1] == (100.0, pytest.approx(4.9652))
    assert "clipped 1 of 4 gradients (25 %); spikes 1;" in str(clipper.stats)


def test_skipped_spike_changes_nothing_and_says_why() -> None:
    tensors = fresh()
    optimizer = torch.optim.Adam(tensors, lr=0.1)
    clipper = NormClipper(optimizer, Spike(z=4.0, action="skip", warmup=10))
    for values in gradients(20):
        give(tensors, values)
        optimizer.step()
    before, count = frozen(tensors, optimizer), clipper.stats.skipped
    give(tensors, [1e3 * value for value in values])
    optimizer.step()
    assert frozen(tensors, optimizer) == before
    stats = clipper.stats
    assert (stats.skipped, stats.norm_after) == (count + 1, 0.0)
    (reason,) = stats.last_skipped
    assert reason.startswith(f"a spike: norm {stats.norm_before:.4g} above ")
    assert f"last: {reason}" in str(stats)
    assert "not finite" not in str(stats)
    give(tensors, values)
    optimizer.step()
    assert frozen(tensors, optimizer) != before


def test_nonfinite_updates_are_counted_apart_from_spikes() -> None:
    clipper = clipper_of(Spike(action="skip", warmup=2))
    feed(clipper, [1.0, 1.1, math.nan, 50.0])
    assert (clipper.stats.skipped, clipper.stats.spikes) == (2, 1)


def test_spikes_in_the_warm_up_do_not_poison_the_start() -> None:
    norms = ordinary(40)
    calm = feed(clipper_of(Spike()), norms)[-1]
    norms[[0, 3, 11, 24]] = 1e9
    # four of twenty-five shift the median by two places among the ordinary ones
    assert feed(clipper_of(Spike()), norms)[-1] == pytest.approx(calm, rel=0.3)


@pytest.mark.filterwarnings("ignore:the last 20 updates")
@pytest.mark.parametrize("action", ["clip", "skip"])
def test_lasting_change_of_scale_is_followed(action: Any) -> None:
    clipper = clipper_of(Spike(action=action))
    feed(clipper, ordinary(50))
    feed(clipper, 1000.0 * ordinary(100, seed=1))
    before = clipper.stats
    feed(clipper, 1000.0 * ordinary(100, seed=2))
    assert clipper.stats.spikes <= before.spikes + 5
    assert clipper.threshold > 1000.0


def test_equal_norms_are_no_spikes() -> None:
    clipper = clipper_of(Spike(z=3.0, warmup=5))
    feed(clipper, [2.0] * 50)
    feed(clipper, [2.05])  # 3 deviations of at least 1 % each
    assert clipper.stats.spikes == 0
    feed(clipper, [2.2])
    assert clipper.stats.spikes == 1


def test_closure_step_with_a_skipped_spike_is_undone() -> None:
    (tensor,) = tensors = parameters([1.0, 1.0])
    optimizer = torch.optim.LBFGS(tensors, lr=0.01, max_iter=3, line_search_fn=None)
    clipper = NormClipper(optimizer, Spike(action="skip", warmup=6), nonfinite="shrink", recurrent=tensors)
    count = 0

    def closure() -> float:
        nonlocal count
        count += 1
        tensor.grad = (1e6 if count == 8 else 1.0) * torch.tensor([3.0 + 0.01 * count, 4.0], dtype=torch.float64)
        return 0.0

    for _ in range(2):
        optimizer.step(closure)
    assert clipper.stats.skipped == 0
    before = frozen(tensors, optimizer)
    while not clipper.stats.skipped:
        before = frozen(tensors, optimizer)
        optimizer.step(closure)
    assert frozen(tensors, optimizer) == before

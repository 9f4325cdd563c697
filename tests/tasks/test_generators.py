"""Signals to generate: each is what its formula says, and inputs are the targets of one step before."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from steadygrad.tasks.generators import FigureEight, MackeyGlass, Signal, Sines, mackey_glass

SIGNALS: list[Signal] = [Sines(), FigureEight(), MackeyGlass()]


@pytest.mark.parametrize("task", SIGNALS, ids=lambda task: task.name)
def test_inputs_are_the_targets_before_and_chance_is_the_generators_alone(task: Signal) -> None:
    before = torch.get_rng_state()
    one, same, other = (task.sample(6, 90, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert one.inputs.shape == one.targets.shape == (90, 6, task.output_size)
    assert one.targets.dtype is torch.float32
    assert torch.equal(one.inputs[1:], one.targets[:-1])
    assert bool(one.mask.all())
    assert one.targets.abs().max() < 1
    assert torch.equal(one.targets, same.targets)
    assert not torch.equal(one.targets, other.targets)
    assert not torch.equal(one.targets[:, 0], one.targets[:, 1])  # each sequence begins elsewhere
    assert task.loss(one.targets, one).item() == 0
    assert bool(task.is_correct(one.targets, one).all())


def test_sines_hold_their_frequencies_and_no_others() -> None:
    batch = Sines(periods=(12.0, 20.0, 30.0), amplitude=0.6).sample(4, 600, torch.Generator().manual_seed(0))
    power = np.abs(np.fft.rfft(batch.targets[..., 0].double().numpy(), axis=0)) / 300
    expected = np.zeros(301)
    expected[[600 // 12, 600 // 20, 600 // 30]] = 0.2
    np.testing.assert_allclose(power, np.repeat(expected[:, None], 4, axis=1), atol=1e-6)


def test_figure_eight_lies_on_its_curve_and_crosses_itself() -> None:
    d = FigureEight(period=40.0, amplitude=0.5).sample(50, 81, torch.Generator().manual_seed(0)).targets.double()
    x, y = d.unbind(-1)
    # sin 2θ = 2 sin θ cos θ, hence y² = 4 x² (1 − x²/A²)
    torch.testing.assert_close(y.square(), 4 * x.square() * (1 - x.square() / 0.25), atol=1e-6, rtol=0)
    twice = 2 * math.cos(2 * math.pi / 40)  # a sine's neighbours add up to 2 cos ω times it: the step is ω everywhere
    torch.testing.assert_close(x[2:] + x[:-2], twice * x[1:-1], atol=1e-6, rtol=0)
    torch.testing.assert_close(d[40:], d[:-40], atol=1e-5, rtol=0)


def test_mackey_glass_is_its_equation_whatever_the_step() -> None:
    coarse, fine = mackey_glass(60, 17, 10), mackey_glass(60, 17, 80)
    # Where x bends at t = 0 the cubic is of second order: 2e-5 with ten steps a unit of time, less with more.
    assert (coarse - fine).abs().max() < 5e-5
    assert (mackey_glass(60, 17, 20) - fine).abs().max() < 2e-5
    # Before t = τ what comes in is constant, and dx/dt = c − 0.1 x is solved by hand.
    c = 0.2 * 1.2 / (1 + 1.2**10)
    t = torch.arange(17, dtype=torch.float64)
    torch.testing.assert_close(coarse[:17], 10 * c + (1.2 - 10 * c) * torch.exp(-0.1 * t), atol=1e-9, rtol=0)


def test_mackey_glass_is_chaotic_from_seventeen_on_and_a_cycle_before() -> None:
    x = mackey_glass(4000, 17)[1000:]
    assert 0.2 < x.min() < 0.5
    assert 1.2 < x.max() < 1.4
    # τ = 8 is a limit cycle: some shift brings the series back to itself; no shift does that to τ = 17.
    back = {
        delay: min(_distance(mackey_glass(4000, delay)[2000:], shift) for shift in range(20, 400)) for delay in (8, 17)
    }
    assert back[8] < 0.05
    assert back[17] > 0.05


def _distance(x: torch.Tensor, shift: int) -> float:
    return (x[shift:] - x[:-shift]).abs().max().item()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Sines(periods=()), "periods must hold one at least, not be empty"),
        (lambda: Sines(periods=(2.0,)), r"a period must be a finite number above 2, not 2\.0"),
        (lambda: Sines(amplitude=1.0), r"amplitude must be a number in \(0, 1\), not 1\.0"),
        (lambda: FigureEight(period=4.0), r"period must be a finite number above 4, not 4\.0"),
        (lambda: MackeyGlass(delay=0), "delay must be a whole number of at least 1, not 0"),
        (lambda: FigureEight().sample(1, 1, torch.Generator()), "length of figure-eight must be .* at least 2, not 1"),
        (
            lambda: MackeyGlass().sample(1, 10_000, torch.Generator()),
            "length of mackey-glass must be at most 9999, not 10000",
        ),
    ],
)
def test_bad_argument_is_named(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()

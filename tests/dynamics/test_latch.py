"""A pre-programmed latch: it holds a bit under bounded noise, flips on command, and its boundaries are where it says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import steadygrad as sg
from steadygrad.dynamics import InputDriven, Latch, latch

LATCHES = [
    latch(0.5),
    latch(1.0, w=1.2),
    latch(0.3, threshold_down=0.9, w=3.0),
    latch(0.5, w=6.0, nonlinearity="sigmoid"),
    latch(1.0, threshold_down=0.2, w=4.5, nonlinearity="sigmoid"),
]


def driven(unit: Latch, inputs: Any, x0: float) -> np.ndarray:
    """x_0 … x_T by a loop of its own."""
    sigma = math.tanh if unit.nonlinearity == "tanh" else lambda x: 1.0 / (1.0 + math.exp(-x))
    states = [x0]
    for u in inputs:
        states.append(unit.w * sigma(states[-1]) + unit.b + unit.w_in * float(u))
    return np.array(states)


def test_the_loop_of_these_tests_is_the_input_driven_unit() -> None:
    for unit in LATCHES:
        inputs = np.random.default_rng(0).normal(size=50)
        expected = InputDriven(unit.unit(), inputs, unit.w_in).run(0.1)
        np.testing.assert_allclose(driven(unit, inputs, 0.1), expected, atol=1e-12)


def test_input_weight_of_tanh_is_the_closed_form() -> None:
    w = 2.0
    fold = math.sqrt(w * (w - 1)) - math.atanh(math.sqrt(1 - 1 / w))
    assert latch(0.5, w=w).w_in == pytest.approx(fold / 0.5, rel=1e-14)
    assert latch(0.5, w=w).b == 0.0


@pytest.mark.parametrize("unit", LATCHES, ids=repr)
def test_a_bit_is_held_over_ten_thousand_steps_of_noise_and_flips_on_command(unit: Latch) -> None:
    rng = np.random.default_rng(3)
    low, boundary, high = unit.states
    noise = 0.95 * min(unit.threshold_up, unit.threshold_down)
    # Both the noise of a coin, which is the worst there is, and that of a uniform draw; then a command, then noise again.
    inputs = np.concatenate([noise * rng.choice([-1.0, 1.0], 5000), rng.uniform(-noise, noise, 5000)])
    for start, command in ((low, 1.5 * unit.threshold_up), (high, -1.5 * unit.threshold_down)):
        held = driven(unit, inputs, start)
        assert len(held) == 10_001
        assert ((held > boundary) == (start > boundary)).all()
        steps = unit.flips_after(command)
        assert steps is not None
        flipped = driven(unit, [command] * steps, start)
        assert (flipped[-1] > boundary) != (start > boundary)
        assert (flipped[-2] > boundary) == (start > boundary)  # not one step sooner
        after = driven(unit, np.zeros(3000), float(flipped[-1]))  # left alone, it goes on to the other state
        assert after[-1] == pytest.approx(high if start == low else low, abs=1e-6)
        held = driven(unit, inputs, float(after[-1]))
        assert ((held > boundary) != (start > boundary)).all()


@pytest.mark.parametrize("unit", LATCHES, ids=repr)
def test_thresholds_are_where_the_bit_is_lost(unit: Latch) -> None:
    low, boundary, high = unit.states
    for start, threshold in ((low, unit.threshold_up), (high, -unit.threshold_down)):
        assert unit.flips_after(0.999 * threshold) is None
        below = driven(unit, [0.999 * threshold] * 5_000, start)
        assert ((below > boundary) == (start > boundary)).all()
        above = driven(unit, [1.001 * threshold] * 5_000, start)
        assert (above[-1] > boundary) != (start > boundary)


@pytest.mark.parametrize("unit", LATCHES, ids=repr)
def test_basin_boundaries_are_where_the_formula_says(unit: Latch) -> None:
    low, boundary, high = unit.states
    for distance in (1e-9, 1e-3, 0.5):
        assert driven(unit, np.zeros(5000), boundary - distance)[-1] == pytest.approx(low, abs=1e-6)
        assert driven(unit, np.zeros(5000), boundary + distance)[-1] == pytest.approx(high, abs=1e-6)
    noise = 0.7 * min(unit.threshold_up, unit.threshold_down)
    below, above = unit.safe(noise)
    assert below < boundary < above
    for sign, edge, inside in (
        (+1.0, below, -1e-6),
        (-1.0, above, 1e-6),
    ):  # the worst noise, from either side of the edge
        worst = [sign * noise] * 5000
        assert (driven(unit, worst, edge + inside) > edge)[-1] == (inside > 0)
        assert (driven(unit, worst, edge - inside) > edge)[-1] == (inside < 0)
    down, up = unit.pulses
    assert unit.flips_after(1.001 * up) == unit.flips_after(1.001 * down) == 1
    assert unit.flips_after(0.999 * up) != 1
    assert unit.flips_after(0.999 * down) != 1


@pytest.mark.parametrize("layer", [nn.RNN, sg.RNN], ids=["torch", "ours"])
def test_a_unit_of_a_layer_becomes_the_latch(layer: Any) -> None:
    torch.manual_seed(0)
    unit, rnn = latch(0.5), layer(3, 5).double()
    before = {name: p.detach().clone() for name, p in rnn.named_parameters()}
    assert unit.write_(rnn, unit=2, channel=1) is rnn
    for name, parameter in rnn.named_parameters():
        others = [0, 1, 3, 4]
        assert torch.equal(parameter[others], before[name][others])
    inputs = 0.4 * torch.randn(200, 1, 3, dtype=torch.float64).clamp(-1, 1)
    inputs[100:110, 0, 1] = 1.0
    h = rnn(inputs)[0][:, 0, 2].detach().numpy()
    x = driven(unit, inputs[:, 0, 1].numpy(), 0.0)[1:]
    np.testing.assert_allclose(h, np.tanh(x), atol=1e-12)
    assert h[-1] > 0.9


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: latch(0.0), "threshold must be a finite number above 0, not 0.0"),
        (lambda: latch(1.0, threshold_down=-1.0), "threshold_down must be a finite number above 0, not -1.0"),
        (lambda: latch(w=1.0), "w must be a finite number above 1, not 1.0"),
        (lambda: latch(w=1.0 + 1e-15), "w must be further above 1: the folds of .* can't be told apart"),
        (lambda: latch(w=4.0, nonlinearity="sigmoid"), "w must be a finite number above 4, not 4.0"),
        (lambda: latch(nonlinearity="relu"), "nonlinearity must be one of 'tanh', 'sigmoid', not 'relu'"),
        (lambda: latch(0.5).safe(0.5), r"noise must be a number in \[0, 0\.5\), not 0\.5"),
        (lambda: latch().write_(nn.GRU(1, 2)), "rnn must be a plain layer of tanh units without leak, not GRU"),
        (lambda: latch().write_(sg.RNN(1, 2, leak=0.5)), "rnn must be a plain layer of tanh units without leak"),
        (
            lambda: latch().write_(nn.RNN(1, 2, num_layers=2)),
            "rnn must be a recurrent layer of one layer, one direction",
        ),
        (lambda: latch().write_(nn.RNN(1, 2), unit=2), "unit must be one of 0 … 1, not 2"),
    ],
)
def test_bad_argument_is_named(call: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()

"""Input-driven maps: their composition, and where two trajectories part."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from steadygrad.dynamics import InputDriven, OneUnit

INPUTS = np.random.default_rng(3).normal(size=60)


def test_states_equal_the_recurrence_of_equation_two() -> None:
    maps = InputDriven(OneUnit(4.6, -2.2), INPUTS, w_in=0.7)
    x = 0.3
    expected = [x]
    for u in INPUTS:
        x = 4.6 / (1.0 + math.exp(-x)) + 0.7 * u - 2.2
        expected.append(x)
    # Each step may amplify rounding by up to w/4 = 1.15, and mostly shrinks it.
    np.testing.assert_allclose(maps.run(0.3), expected, rtol=0, atol=1e-12)


def test_the_shift_comes_after_the_fixed_map() -> None:
    maps = InputDriven(OneUnit(4.6, -2.2), INPUTS, w_in=0.7)
    run = maps.compare(0.3, -0.2)
    for t in (1, 2, 17, 60):
        before, after = run.states[:, t - 1], run.states[:, t]
        np.testing.assert_array_equal(run.after_fixed[:, t - 1], maps.fixed(before))
        np.testing.assert_array_equal(after, maps.shift(maps.fixed(before), t))
        np.testing.assert_array_equal(after, maps.map(before, t))
        assert not np.allclose(after, maps.fixed(maps.shift(before, t)))


def test_sensitivity_equals_autograd() -> None:
    maps = InputDriven(OneUnit(4.6, -2.2), INPUTS[:20], w_in=0.7)
    run = maps.compare(0.3, -0.2)
    x0 = torch.tensor([0.3, -0.2], dtype=torch.float64, requires_grad=True)
    x = x0
    for u in INPUTS[:20]:
        x = 4.6 * torch.sigmoid(x) - 2.2 + 0.7 * float(u)
    (expected,) = torch.autograd.grad(x.sum(), x0)
    np.testing.assert_allclose(run.sensitivity[:, -1], expected.numpy(), rtol=1e-12)


def test_crossings_are_exactly_the_changes_of_basin_and_only_shifts_make_them() -> None:
    maps = InputDriven(OneUnit(5.0, -2.5), INPUTS, w_in=1.5)
    run = maps.compare(-0.5, 0.5)
    (boundary,) = run.boundary
    side = run.states > boundary
    np.testing.assert_array_equal(run.basin, side)
    # F̃ alone never changes the side: this is what makes its basins meaningful under input.
    np.testing.assert_array_equal(run.after_fixed > boundary, side[:, :-1])
    expected = {(i, t) for i in (0, 1) for t in range(1, 61) if side[i, t] != side[i, t - 1]}
    assert {(c.trajectory, c.t) for c in run.crossings} == expected
    assert len(expected) >= 4
    for c in run.crossings:
        assert c.boundary == boundary
        assert c.direction == (1 if side[c.trajectory, c.t] else -1)
    assert [c.t for c in run.crossings] == sorted(c.t for c in run.crossings)


def test_a_small_difference_grows_to_the_distance_of_the_attractors() -> None:
    unit = OneUnit(5.0, -2.5)
    below, _, above = (p.x for p in unit.fixed_points())
    run = InputDriven(unit, [0.0] * 200).compare(-1e-6, 1e-6)
    assert run.delta[0] == 2e-6
    assert run.delta[-1] == pytest.approx(above - below, abs=1e-9)
    assert run.crossings == ()


def test_opposing_shifts_undo_the_divergence() -> None:
    unit = OneUnit(5.0, -2.5)
    pushed = InputDriven(unit, [0.0] * 5 + [5.0] + [0.0] * 40).compare(-0.01, 0.01)
    assert abs(pushed.delta[-1]) < 1e-6
    assert [(c.trajectory, c.t, c.direction) for c in pushed.crossings] == [(0, 6, 1)]


def test_without_a_boundary_there_is_nothing_to_cross() -> None:
    run = InputDriven(OneUnit(-6.0, 3.0), INPUTS).compare(-1.0, 1.0)
    assert (run.boundary.size, run.crossings, run.basin.max()) == (0, (), 0)


def test_the_first_of_several_boundaries_crossed_is_reported() -> None:
    # relu with w > 1 has one boundary; the same code must serve it, upwards into the basin of infinity.
    run = InputDriven(OneUnit(2.0, -1.0, "relu"), [0.0, 9.0]).compare(0.0, 0.5)
    assert [(c.trajectory, c.t, c.boundary, c.direction) for c in run.crossings] == [(0, 2, 1.0, 1), (1, 2, 1.0, 1)]


def test_overflow_is_reported_as_infinity_not_as_an_error() -> None:
    run = InputDriven(OneUnit(1e200, 0.0, "identity"), [0.0] * 3).compare(1.0, 2.0)
    assert run.states[0].tolist() == [1.0, 1e200, math.inf, math.inf]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: InputDriven("unit", [1.0]), TypeError, "unit must be a OneUnit, not str"),
        (lambda: InputDriven(OneUnit(1, 0), [[1.0]]), ValueError, r"inputs must be a 1-dimensional .* shape \(1, 1\)"),
        (lambda: InputDriven(OneUnit(1, 0), [1.0], w_in=math.inf), ValueError, "w_in must be a finite number, not inf"),
        (lambda: InputDriven(OneUnit(1, 0), [1.0]).map(0.0, 2), ValueError, "t must be a step from 1 to 1, .* not 2"),
        (lambda: InputDriven(OneUnit(1, 0), [1.0]).map(0.0, 0), ValueError, "t must be a whole number"),
        (lambda: InputDriven(OneUnit(1, 0), [1.0]).compare(None, 0.0), ValueError, "x0 must be a finite number, not N"),
    ],
)
def test_bad_input_is_named_in_one_sentence(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()

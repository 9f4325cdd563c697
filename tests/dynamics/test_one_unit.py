"""Fixed points, bifurcations, basins and sweeps of one unit against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest

from steadygrad.dynamics import OneUnit

GRID = [
    (w, b, name)
    for name in ("tanh", "sigmoid")
    for w in (-12.0, -5.0, 0.0, 0.9, 1.0, 4.0, 5.0, 9.0)
    for b in (-4.9, -2.5, 0.0, 0.8, 3.1)
]


def roots_by_brute_force(unit: OneUnit) -> np.ndarray:
    """Sign changes of F(x) − x over a fine grid; its step, 5e-4, is far below the distance of any two roots here."""
    x = np.linspace(-25.0, 25.0, 100_001) + 1.7e-6  # off every round number, so that no root falls on the grid
    sign = np.sign(unit(x) - x)
    (at,) = np.nonzero(sign[1:] != sign[:-1])
    return 0.5 * (x[at] + x[at + 1])


@pytest.mark.parametrize(("w", "b", "name"), GRID)
def test_fixed_points_are_all_the_sign_changes_of_a_fine_grid(w: float, b: float, name: str) -> None:
    unit = OneUnit(w, b, name)
    found = np.array([p.x for p in unit.fixed_points()])
    np.testing.assert_allclose(found, roots_by_brute_force(unit), atol=5e-4)
    # The residual of a root to the last bit: the rounding of w σ(x) + b − x and half an ulp of x times |w σ' − 1|.
    scale = abs(w) + abs(b) + 1.0
    assert np.abs(unit(found) - found).max(initial=0.0) <= 4 * np.finfo(float).eps * scale * (abs(w) + 1.0)


@pytest.mark.parametrize(("w", "b", "name"), GRID)
def test_stability_is_what_orbits_from_close_by_do(w: float, b: float, name: str) -> None:
    unit = OneUnit(w, b, name)
    for point in unit.fixed_points():
        assert point.multiplier == pytest.approx(w * float(unit.sigma.slope(point.x)))
        if abs(abs(point.multiplier) - 1.0) < 1e-6:
            assert point.stability == "marginal"
            continue
        moved = abs(unit.orbit(point.x + 1e-6, 20)[-1] - point.x)
        assert point.stability == ("stable" if moved < 1e-6 else "unstable")


def test_bifurcations_of_w_five_are_those_of_the_paper() -> None:
    low, high = OneUnit(5.0, 0.0).bifurcations()
    # σ = ½(1 ± √(1 − 4/5)), x = log(σ/(1 − σ)), b = x − 5 σ, by hand.
    s = 0.5 * (1 + math.sqrt(0.2))
    x = math.log(s / (1 - s))
    assert (low.b, low.x) == (pytest.approx(x - 5 * s, rel=1e-14), pytest.approx(x, rel=1e-14))
    assert (high.b, high.x) == (pytest.approx(-x - 5 * (1 - s), rel=1e-14), pytest.approx(-x, rel=1e-14))
    assert (round(low.b, 4), round(high.b, 4)) == (-2.6556, -2.3444)
    assert low.kind == high.kind == "fold"


@pytest.mark.parametrize(
    ("w", "name"), [(4.5, "sigmoid"), (5.0, "sigmoid"), (30.0, "sigmoid"), (1.2, "tanh"), (7.0, "tanh")]
)
def test_number_of_fixed_points_is_one_two_three_across_a_fold(w: float, name: str) -> None:
    low, high = OneUnit(w, 0.0, name).bifurcations()
    inside = 1e-3 * (high.b - low.b)

    def count(b: float) -> int:
        return len(OneUnit(w, b, name).fixed_points())

    assert [count(low.b - inside), count(low.b), count(low.b + inside)] == [1, 2, 3]
    assert [count(high.b - inside), count(high.b), count(high.b + inside)] == [3, 2, 1]
    marginal = [p for p in OneUnit(w, low.b, name).fixed_points() if p.stability == "marginal"]
    assert [p.x for p in marginal] == [low.x]
    # The other one of the two is an ordinary attractor.
    assert [p.stability for p in OneUnit(w, low.b, name).fixed_points()] == ["stable", "marginal"]


@pytest.mark.parametrize(("w", "name", "b"), [(4.0, "sigmoid", -2.0), (1.0, "tanh", 0.0)])
def test_the_two_folds_meet_in_a_cusp(w: float, name: str, b: float) -> None:
    (at,) = OneUnit(w, b, name).bifurcations()
    assert (at.b, at.x, at.kind) == (b, 0.0, "cusp")
    (point,) = OneUnit(w, b, name).fixed_points()
    assert (point.x, point.stability) == (0.0, "marginal")
    assert OneUnit(w, b, name).basin_boundary() == ()
    assert OneUnit(math.nextafter(w, 0.0), b, name).bifurcations() == ()


@pytest.mark.parametrize(("w", "name"), [(-6.0, "sigmoid"), (-2.0, "tanh")])
def test_a_two_cycle_lives_exactly_between_the_flips(w: float, name: str) -> None:
    low, high = OneUnit(w, 0.0, name).bifurcations()
    assert low.kind == high.kind == "flip"
    assert [OneUnit(w, at.b, name).fixed_points()[0].stability for at in (low, high)] == ["marginal", "marginal"]
    for b, cycles in [(low.b - 0.05, False), (low.b + 0.05, True), (high.b - 0.05, True), (high.b + 0.05, False)]:
        unit = OneUnit(w, b, name)
        late = unit.orbit(0.3, 4000)[-2:]
        assert len(unit.fixed_points()) == 1
        if cycles:
            # 4,000 steps at a multiplier of about 0.9 leave rounding only.
            np.testing.assert_allclose(unit.two_cycle(), np.sort(late), atol=1e-12)
            assert unit.attractor(0.3) == unit.two_cycle()
        else:
            assert unit.two_cycle() is None
            assert unit.attractor(0.3) == (pytest.approx(late[0], abs=1e-12),)
        assert unit.basin_boundary() == ()


@pytest.mark.parametrize("b", [-2.64, -2.5, -2.36])
def test_basin_boundary_parts_the_starts_by_where_they_end(b: float) -> None:
    unit = OneUnit(5.0, b)
    (boundary,) = unit.basin_boundary()
    below, _, above = (p.x for p in unit.fixed_points())
    for x0, end in [(boundary - 1e-3, below), (boundary + 1e-3, above), (-20.0, below), (20.0, above)]:
        assert unit.attractor(x0) == (end,)
        # 2,000 steps: the slowest multiplier here, at b = −2.64 above the boundary, is about 0.87.
        assert unit.orbit(x0, 2000)[-1] == pytest.approx(end, abs=1e-9)


def test_a_marginal_fold_bounds_the_half_it_attracts() -> None:
    low, _ = OneUnit(5.0, 0.0).bifurcations()
    unit = OneUnit(5.0, low.b)
    assert unit.basin_boundary() == (low.x,)
    assert unit.attractor(low.x + 0.5) == (low.x,)
    assert unit.attractor(low.x - 0.5) == (unit.fixed_points()[0].x,)


@pytest.mark.parametrize(("w", "b", "name"), GRID)
def test_attractor_is_where_a_long_orbit_ends(w: float, b: float, name: str) -> None:
    unit = OneUnit(w, b, name)
    starts = (-6.0, -0.4, 0.9, 3.0)
    before, after = np.array(starts), unit(np.array(starts))
    for _ in range(300):
        before, after = after, unit(after)
    # Marginal points (tanh with w = 1, b = 0) are approached like 1/√t only: √(1.5/300) ≈ 0.07. Elsewhere the slowest
    # multiplier is 0.91, and 0.91³⁰⁰ is 5e-13.
    atol = 0.1 if any(p.stability == "marginal" for p in unit.fixed_points()) else 1e-9
    for x0, *late in zip(starts, before, after, strict=True):
        ends = unit.attractor(x0)
        np.testing.assert_allclose(sorted(late), [min(ends), max(ends)], atol=atol)


RELU = [
    (0.5, -1.0, [(-1.0, "stable")]),
    (0.5, 1.0, [(2.0, "stable")]),
    (3.0, -1.0, [(-1.0, "stable"), (0.5, "unstable")]),
    (3.0, 1.0, []),
    (1.0, 1.0, []),
    (3.0, 0.0, [(0.0, "marginal")]),
    (0.5, 0.0, [(0.0, "stable")]),
    (-3.0, 0.0, [(0.0, "stable")]),
    (-3.0, 1.0, [(0.25, "unstable")]),
    (-1.0, 1.0, [(0.5, "marginal")]),
]


@pytest.mark.parametrize(("w", "b", "expected"), RELU)
def test_relu_fixed_points_solved_by_hand(w: float, b: float, expected: list[tuple[float, str]]) -> None:
    unit = OneUnit(w, b, "relu")
    assert [(p.x, p.stability) for p in unit.fixed_points()] == expected
    for x, _ in expected:
        assert float(unit(x)) == x


@pytest.mark.parametrize(
    ("w", "b", "x0", "ends"),
    [
        (3.0, -1.0, 0.6, (math.inf,)),
        (3.0, -1.0, 0.4, (-1.0,)),
        (3.0, 1.0, -5.0, (math.inf,)),
        (3.0, 0.0, -5.0, (0.0,)),
        (1.0, 0.0, -5.0, (0.0,)),
        (1.0, 0.0, 5.0, (5.0,)),
        (-3.0, 1.0, 0.7, (-2.0, 1.0)),
        (-3.0, 1.0, 0.25, (0.25,)),
        (-3.0, -1.0, 4.0, (-1.0,)),
        (-1.0, 1.0, 0.25, (0.25, 0.75)),
        (-1.0, 1.0, 9.0, (0.0, 1.0)),
    ],
)
def test_relu_attractors_are_where_orbits_end(w: float, b: float, x0: float, ends: tuple[float, ...]) -> None:
    unit = OneUnit(w, b, "relu")
    assert unit.attractor(x0) == ends
    late = np.sort(unit.orbit(x0, 2001)[-2:])
    np.testing.assert_allclose(late, [min(ends), max(ends)], atol=1e-12)


def test_relu_bifurcates_only_where_the_fixed_point_meets_the_kink() -> None:
    assert [(at.b, at.kind) for at in OneUnit(2.0, 0.0, "relu").bifurcations()] == [(0.0, "fold")]
    assert [(at.b, at.kind) for at in OneUnit(-2.0, 0.0, "relu").bifurcations()] == [(0.0, "flip")]
    assert OneUnit(0.5, 0.0, "relu").bifurcations() == ()
    assert OneUnit(2.0, -1.0, "relu").basin_boundary() == (1.0,)
    assert OneUnit(2.0, 0.0, "relu").basin_boundary() == (0.0,)


def test_identity_has_one_fixed_point_and_no_bifurcation() -> None:
    assert [(p.x, p.stability) for p in OneUnit(0.5, 1.0, "identity").fixed_points()] == [(2.0, "stable")]
    assert [(p.x, p.stability) for p in OneUnit(2.0, 1.0, "identity").fixed_points()] == [(-1.0, "unstable")]
    assert OneUnit(1.0, 1.0, "identity").fixed_points() == ()
    assert OneUnit(2.0, 1.0, "identity").bifurcations() == ()
    assert OneUnit(2.0, 1.0, "identity").attractor(-3.0) == (-math.inf,)
    assert OneUnit(-2.0, 1.0, "identity").attractor(-3.0) == (-math.inf, math.inf)
    assert OneUnit(-1.0, 1.0, "identity").attractor(3.0) == (-2.0, 3.0)
    assert OneUnit(1.0, 0.0, "identity").attractor(3.0) == (3.0,)
    assert OneUnit(1.0, 0.5, "identity").attractor(3.0) == (math.inf,)


def test_a_line_of_fixed_points_is_refused_by_name() -> None:
    for name in ("relu", "identity"):
        with pytest.raises(ValueError, match=rf"w = 1 and b = 0 with {name} .* no list of fixed points exists"):
            OneUnit(1.0, 0.0, name).fixed_points()


def test_hysteresis_follows_what_a_long_slow_sweep_does() -> None:
    unit, b = OneUnit(5.0, 0.0), np.linspace(-3.0, -2.0, 21)
    swept = unit.hysteresis(b, x0=0.0)
    state, expected = 0.0, []
    for value in (*b, *b[::-1]):
        state = OneUnit(5.0, float(value)).orbit(state, 600)[-1]
        expected.append(state)
    np.testing.assert_allclose(swept.up[:, 0], expected[:21], atol=1e-9)
    np.testing.assert_allclose(swept.down[:, 0], expected[21:][::-1], atol=1e-9)
    np.testing.assert_array_equal(swept.up[:, 0], swept.up[:, 1])
    low, high = unit.bifurcations()
    np.testing.assert_array_equal(swept.up[:, 0] != swept.down[:, 0], (b > low.b) & (b < high.b))


def test_hysteresis_reports_both_states_of_a_two_cycle() -> None:
    unit, b = OneUnit(-6.0, 0.0), np.linspace(1.0, 5.0, 17)
    swept = unit.hysteresis(b)
    low, high = unit.bifurcations()
    np.testing.assert_array_equal(swept.up[:, 1] > swept.up[:, 0], (b > low.b) & (b < high.b))
    np.testing.assert_array_equal(swept.up, swept.down)


def test_what_has_run_away_does_not_come_back() -> None:
    swept = OneUnit(2.0, 0.0, "relu").hysteresis([-1.0, 1.0])
    assert swept.up[:, 0].tolist() == [-1.0, math.inf]
    assert swept.down[:, 0].tolist() == [math.inf, math.inf]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: OneUnit(math.nan, 0.0), "w must be a finite number, not nan"),
        (lambda: OneUnit(1.0, "x"), "b must be a finite number, not 'x'"),
        (lambda: OneUnit(1.0, 0.0, "sigmod"), r"nonlinearity must be one of .* \(did you mean 'sigmoid'\?\)"),
        (lambda: OneUnit(1.0, 0.0).orbit(0.0, -1), "n must be a whole number of at least 0, not -1"),
        (lambda: OneUnit(1.0, 0.0).orbit(math.inf, 1), "x0 must be a finite number, not inf"),
        (lambda: OneUnit(1.0, 0.0).hysteresis([1.0, 0.0]), "b_values must be strictly rising and not empty"),
        (lambda: OneUnit(1.0, 0.0).hysteresis([]), "b_values must be"),
        (lambda: OneUnit(1.0, 0.0).hysteresis(["a"]), "b_values must be a 1-dimensional array of finite numbers"),
        (lambda: OneUnit(1.0, 0.0)([math.nan, 1.0]), "x must be an array of finite numbers, not one with 1 of 2 non-f"),
    ],
)
def test_bad_input_is_named_in_one_sentence(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()

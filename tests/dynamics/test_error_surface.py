"""The error surface's derivatives against autograd's double backward, and descent against its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from steadygrad.dynamics import ErrorSurface, OneUnit

# Plain descent is thrown off the wall from here, clipped descent is not.
START, LR, THRESHOLD, UPDATES = (5.0, -2.2), 0.5, 0.2, 300

TORCH = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu, "identity": lambda x: x}


def autograd(surface: ErrorSurface, w: float, b: float) -> tuple[float, np.ndarray, np.ndarray]:
    """E, ∇E and ∇²E of the plain loop, by double backward."""
    sigma = TORCH[surface.nonlinearity]

    def error(theta: torch.Tensor) -> torch.Tensor:
        x = torch.tensor(surface.x0, dtype=torch.float64)
        for _ in range(surface.steps):
            x = theta[0] * sigma(x) + theta[1]
        return (sigma(x) - surface.target) ** 2

    theta = torch.tensor([w, b], dtype=torch.float64, requires_grad=True)
    loss = error(theta)
    (gradient,) = torch.autograd.grad(loss, theta, create_graph=True)
    rows = [torch.autograd.grad(g, theta, retain_graph=True, materialize_grads=True)[0] for g in gradient]
    return loss.item(), gradient.detach().numpy(), torch.stack(rows).numpy()


# (nonlinearity, steps, relative tolerance). Rounding in x_t grows with the same products as the gradient, so the
# two programs agree to eps times the largest such product on the grid: about 2⁵⁰·eps would be useless, which is why
# identity and relu run 12 steps only.
@pytest.mark.parametrize(
    ("name", "steps", "rtol"), [("sigmoid", 50, 1e-7), ("tanh", 20, 1e-7), ("relu", 12, 1e-9), ("identity", 12, 1e-9)]
)
def test_gradient_and_curvature_equal_double_backward_over_a_grid(name: str, steps: int, rtol: float) -> None:
    surface = ErrorSurface(steps=steps, nonlinearity=name)
    w, b = np.meshgrid([-4.5, -1.1, 0.6, 1.3, 4.2, 5.0, 6.3], [-3.17, -2.61, -1.9, 0.45])
    loss, gradient, curvature = surface.loss(w, b), surface.gradient(w, b), surface.curvature(w, b)
    for at in np.ndindex(w.shape):
        expected = autograd(surface, float(w[at]), float(b[at]))
        for value, oracle in zip((loss[at], gradient[at], curvature[at]), expected, strict=True):
            np.testing.assert_allclose(value, oracle, rtol=rtol, atol=rtol * np.abs(oracle).max() + 1e-14)


@pytest.mark.parametrize("w", [0.5, 0.98, 1.0, 1.05, 2.0])
def test_derivatives_of_the_linear_unit_are_the_papers_closed_form(w: float) -> None:
    t, x0 = 50, 0.5
    end = ErrorSurface(steps=t, x0=x0, nonlinearity="identity").final_state(w, 0.0)
    # A recursion of 50 products: 50 roundings.
    assert float(end.x) == pytest.approx(x0 * w**t, rel=1e-14)
    assert float(end.gradient[0]) == pytest.approx(t * x0 * w ** (t - 1), rel=1e-13)
    assert float(end.curvature[0, 0]) == pytest.approx(t * (t - 1) * x0 * w ** (t - 2), rel=1e-13)


def test_where_the_gradient_explodes_so_does_the_curvature() -> None:
    surface = ErrorSurface()
    wall = float(surface.wall(5.5))
    for b, exploded in [(wall, True), (wall + 0.3, False)]:
        assert (np.linalg.norm(surface.gradient(5.5, b)) > 1e3) is np.bool_(exploded)
        assert (np.abs(np.linalg.eigvalsh(surface.curvature(5.5, b))).max() > 1e6) is np.bool_(exploded)


@pytest.mark.parametrize("w", [4.6, 5.0, 7.0])
def test_the_wall_is_where_x0_is_the_basin_boundary(w: float) -> None:
    surface = ErrorSurface()
    wall = float(surface.wall(w))
    assert OneUnit(w, wall).basin_boundary() == (pytest.approx(surface.x0, abs=1e-14),)
    # On the line all factors are w σ'(x_0) = m, so ∂x_T/∂b = 1 + m + … + m^(T−1) = (m^T − 1)/(m − 1).
    m = w * float(surface.sigma.slope(surface.x0))
    # The state leaves the unstable point by eps·m^t, so the last factors are off by up to eps·m^T.
    expected = (m**50 - 1) / (m - 1)
    assert float(surface.final_state(w, wall).gradient[1]) == pytest.approx(expected, rel=1e-12 * m**50 + 1e-12)


def test_loss_takes_arrays_that_broadcast_and_keeps_their_shape() -> None:
    surface = ErrorSurface(steps=3)
    w, b = np.linspace(4, 6, 3)[:, None], np.linspace(-3, -2, 4)
    assert surface.loss(w, b).shape == (3, 4)
    assert surface.gradient(w, b).shape == (3, 4, 2)
    assert surface.curvature(w, b).shape == (3, 4, 2, 2)
    assert surface.loss(w, b)[2, 1] == surface.loss(float(w[2, 0]), float(b[1]))


def test_descent_follows_algorithm_one_step_by_step() -> None:
    surface, lr, threshold = ErrorSurface(), 1.0, 0.1
    run = surface.descend((6.0, -3.2), lr, threshold, steps=40)
    assert run.clipped.any()
    assert not run.clipped.all()
    for i in range(40):
        g = surface.gradient(*run.path[i])
        norm = math.hypot(*g)
        assert run.norms[i] == pytest.approx(norm, rel=1e-15)
        assert run.clipped[i] == (norm >= threshold)
        step = g * threshold / norm if norm >= threshold else g
        np.testing.assert_allclose(run.path[i + 1], run.path[i] - lr * step, rtol=1e-15)
        assert run.losses[i] == surface.loss(*run.path[i])


def test_a_threshold_never_reached_changes_nothing() -> None:
    surface = ErrorSurface()
    plain = surface.descend((4.0, -1.0), 1.0, steps=50)
    clipped = surface.descend((4.0, -1.0), 1.0, threshold=1e6, steps=50)
    np.testing.assert_array_equal(plain.path, clipped.path)
    assert not clipped.clipped.any()


def test_a_gradient_equal_to_the_threshold_counts_as_clipped() -> None:
    line = ErrorSurface(steps=1, x0=0.0, target=0.0, nonlinearity="identity")  # E = b², ‖∇E‖ = 2|b|
    run = line.descend((0.0, 1.0), 0.25, threshold=2.0, steps=1)
    assert run.clipped.tolist() == [True]
    assert run.path.tolist() == [[0.0, 1.0], [0.0, 0.5]]


def test_plain_descent_is_thrown_off_the_wall_and_clipped_descent_is_not() -> None:
    surface = ErrorSurface()
    plain = surface.descend(START, LR, steps=UPDATES)
    clipped = surface.descend(START, LR, THRESHOLD, steps=UPDATES)
    jumps = np.linalg.norm(np.diff(plain.path, axis=0), axis=-1)
    at = int(jumps.argmax())
    # The throw starts within 0.05 of the wall line and covers more than one unit of (w, b).
    w, b = plain.path[at]
    assert abs(b - float(surface.wall(w))) < 0.05
    assert jumps[at] > 1.0
    assert not plain.reached
    assert clipped.reached
    assert np.linalg.norm(np.diff(clipped.path, axis=0), axis=-1).max() <= LR * THRESHOLD * (1 + 1e-12)


def test_descent_stops_at_the_last_finite_point() -> None:
    line = ErrorSurface(
        steps=1, x0=0.0, target=0.0, nonlinearity="identity"
    )  # E = b²: lr = 1e200 overflows in two steps
    run = line.descend((0.0, 1.0), 1e200, steps=10)
    assert run.diverged
    assert not run.reached
    assert np.isfinite(run.path).all()
    assert len(run.path) == len(run.losses) == len(run.norms) == len(run.clipped) + 1 < 11
    statistics = line.basin_statistics([(0.0, 1.0), (0.0, 0.0)], 1e200, threshold=1e-250, steps=10)
    assert statistics.plain_reached.tolist() == [False, True]
    assert statistics.clipped_reached.tolist() == [False, True]
    assert np.isfinite(statistics.plain_end).all()


def test_statistics_of_many_starts_equal_the_single_runs() -> None:
    surface = ErrorSurface()
    starts = np.array([(4.0, -3.0), (5.2, -2.8), (6.0, -3.2), START])
    statistics = surface.basin_statistics(starts, LR, THRESHOLD, steps=30)
    for i, start in enumerate(starts):
        plain = surface.descend(start, LR, steps=30)
        clipped = surface.descend(start, LR, THRESHOLD, steps=30)
        np.testing.assert_array_equal(statistics.plain_end[i], plain.path[-1])
        np.testing.assert_array_equal(statistics.clipped_end[i], clipped.path[-1])
        assert (statistics.plain_reached[i], statistics.clipped_reached[i]) == (plain.reached, clipped.reached)
        assert statistics.clipped_jump[i] == pytest.approx(np.linalg.norm(np.diff(clipped.path, axis=0), axis=-1).max())
        assert statistics.plain_loss[i] == plain.losses[-1]


def test_fractions_count_the_starts() -> None:
    line = ErrorSurface(steps=1, x0=0.0, target=0.0, nonlinearity="identity")  # E = b²; plain lr = 1 never settles
    statistics = line.basin_statistics([(0.0, 1.0), (0.0, 0.01)], 1.0, threshold=1e-3, steps=1000)
    # Clipped steps are 1e-3 long: from 0.01 they reach |b| < √1e-3 at once, from 1 in 1,000 steps; plain ones mirror b.
    assert statistics.fractions() == {"plain": 0.5, "clipped": 1.0, "clipped_only": 0.5, "plain_only": 0.0}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ErrorSurface(steps=0), "steps must be a whole number of at least 1, not 0"),
        (lambda: ErrorSurface(x0=math.nan), "x0 must be a finite number, not nan"),
        (lambda: ErrorSurface(target="a"), "target must be a finite number, not 'a'"),
        (lambda: ErrorSurface(nonlinearity="gelu"), "nonlinearity must be one of"),
        (lambda: ErrorSurface().loss([1.0, 2.0], [1.0, 2.0, 3.0]), r"w and b must broadcast .* \(2,\) and \(3,\)"),
        (lambda: ErrorSurface().gradient(math.inf, 0.0), "w must be an array of finite numbers, not one with 1 of 1"),
        (lambda: ErrorSurface().loss("a", 0.0), "w must be an array of finite numbers, not 'a'"),
        (
            lambda: ErrorSurface().descend((1.0,), 1.0),
            r"start must be one point .* not an array of shape \(1,\)",
        ),
        (lambda: ErrorSurface().descend((1.0, 1.0), 0.0), "lr must be a finite number above 0, not 0.0"),
        (lambda: ErrorSurface().descend((1.0, 1.0), 1.0, -1.0), "threshold must be a finite number above 0, not -1.0"),
        (lambda: ErrorSurface().descend((1.0, 1.0), 1.0, steps=0), "steps must be a whole number"),
        (lambda: ErrorSurface().descend((1.0, 1.0), 1.0, tolerance=0.0), "tolerance must be a finite number above 0"),
        (lambda: ErrorSurface().basin_statistics([1.0, 2.0], 1.0, 1.0), r"starts must be a 2-dimensional array"),
        (lambda: ErrorSurface().basin_statistics([[1.0]], 1.0, 1.0), r"starts must be points .* not \[1, 1\]"),
        (lambda: ErrorSurface().basin_statistics([[1.0, 1.0]], 1.0, None), "threshold must be .* not None"),
    ],
)
def test_bad_input_is_named_in_one_sentence(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()

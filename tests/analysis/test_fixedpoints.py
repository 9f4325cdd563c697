"""Fixed points of networks where they are known in closed form or by bisection."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

from steadygrad.analysis import fixed_points
from steadygrad.layers.rnn import RNN

F64 = torch.float64


def bisect(f, low: float, high: float) -> float:
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if f(low) * f(middle) > 0 else (low, middle)
    return (low + high) / 2


def test_the_papers_unit_has_three_fixed_points(build, set_weights):
    """w = 5, b = −2.5, sigmoid (Fig. 3): x = 0 unstable by symmetry, h = 1/2; two attractors beside it."""
    rnn = set_weights(build("sigmoid", inputs=1, hidden=1), weight_hh_l0=5.0, bias_ih_l0=-2.5)
    points = fixed_points(rnn)
    assert [point.kind for point in points] == ["attractor", "attractor", "repeller"]
    upper = bisect(lambda h: 1 / (1 + math.exp(2.5 - 5 * h)) - h, 0.6, 1.0)
    # Newton's method stops at rounding; the slope of G at these points is about 1/2.
    assert sorted(point.h.item() for point in points) == pytest.approx([1 - upper, 0.5, upper], abs=1e-12)
    for point in points:
        h = point.h.item()
        assert point.eigenvalues[0].real.item() == pytest.approx(5 * h * (1 - h), abs=1e-11)
        assert point.x.item() == pytest.approx(5 * h - 2.5)
        assert point.residual <= 1e-10
        assert point.stable == (point.spectral_radius < 1)


def test_two_bistable_units_have_nine_fixed_points(build, set_weights):
    """h = tanh(2h) for each of two units: {−m, 0, m}²."""
    rnn = set_weights(build("tanh", inputs=1, hidden=2), weight_hh_l0=2 * torch.eye(2))
    points = fixed_points(rnn)
    m = bisect(lambda h: math.tanh(2 * h) - h, 0.5, 1.0)
    assert Counter(point.kind for point in points) == {"attractor": 4, "saddle": 4, "repeller": 1}
    assert [point.stable for point in points] == [True] * 4 + [False] * 5
    found = sorted(tuple(round(value, 9) + 0.0 for value in point.h.tolist()) for point in points)
    assert found == sorted((round(a * m, 9) + 0.0, round(b * m, 9) + 0.0) for a in (-1, 0, 1) for b in (-1, 0, 1))


def test_a_contracting_network_has_the_origin_alone(build):
    rnn = build("tanh", hidden=8, scale=0.1)
    for bias in (rnn.bias_ih_l0, rnn.bias_hh_l0):
        torch.nn.init.zeros_(bias)
    (point,) = fixed_points(rnn)
    assert point.kind == "attractor"
    assert point.h.abs().max() < 1e-12
    expected = torch.linalg.eigvals(rnn.weight_hh_l0.detach()).abs().sort(descending=True).values
    torch.testing.assert_close(point.eigenvalues.abs(), expected, rtol=1e-10, atol=1e-12)


def test_a_linear_network_rests_where_a_linear_system_says(build):
    rnn = build("identity", hidden=4, scale=0.4, seed=3)
    u = torch.tensor([1.0, -2.0, 0.5], dtype=F64)
    W, b = rnn.weight_hh_l0.detach(), (rnn.bias_ih_l0 + rnn.bias_hh_l0).detach()
    (point,) = fixed_points(rnn, u)
    expected = torch.linalg.solve(torch.eye(4, dtype=F64) - W, rnn.weight_ih_l0.detach() @ u + b)
    torch.testing.assert_close(point.h, expected, rtol=1e-9, atol=1e-9)


def test_a_relu_network_is_solved_across_its_kinks(build, set_weights):
    """h = relu(2h − 1): 0 (dead, stable) and 1 (unstable)."""
    rnn = set_weights(build("relu", inputs=1, hidden=1), weight_hh_l0=2.0, bias_ih_l0=-1.0)
    points = fixed_points(rnn)
    assert [(point.kind, round(point.h.item(), 9)) for point in points] == [("attractor", 0.0), ("repeller", 1.0)]


@pytest.mark.parametrize("units", [20, 40])
def test_the_memories_of_a_hopfield_network_are_found(build, set_weights, units: int):
    """W = 2/H Σ ξξ^T stores two patterns and their negatives; no random start is near them, but the map leads there."""
    patterns = torch.randint(2, (2, units), generator=torch.Generator().manual_seed(0)).double() * 2 - 1
    rnn = set_weights(build("tanh", hidden=units), weight_hh_l0=2 * patterns.T @ patterns / units)
    attractors = [point for point in fixed_points(rnn, starts=60) if point.stable]
    overlaps = torch.stack([patterns @ point.h / units for point in attractors])
    assert len(attractors) == 4
    assert sorted(overlaps.abs().argmax(1).tolist()) == [0, 0, 1, 1]
    assert (overlaps.abs().max(1).values > 0.9).all()


@pytest.mark.parametrize("leak", [0.0, 0.8])
def test_points_stay_where_they_are_under_the_layer_itself(leak: float):
    torch.manual_seed(0)
    rnn = RNN(2, 6, leak=leak, dtype=F64)
    torch.nn.init.normal_(rnn.weight_hh_l0, std=1.2)
    u = torch.randn(2, dtype=F64)
    points = fixed_points(rnn, u)
    assert len(points) >= 2
    for point in points:
        after, _ = rnn(u.view(1, 1, 2), point.h.view(1, 1, 6))
        torch.testing.assert_close(after[0, 0].detach(), point.h, rtol=0, atol=1e-9)


def test_leaky_units_rest_where_plain_ones_do_with_eigenvalues_drawn_to_one(build, set_weights):
    weights = {"weight_hh_l0": [[0.0, 1.5], [-1.5, 0.0]], "bias_ih_l0": 0.1}
    (plain,) = fixed_points(set_weights(build("tanh", hidden=2), **weights))
    (leaky,) = fixed_points(set_weights(build("tanh", hidden=2, leak=0.5), **weights))
    torch.testing.assert_close(plain.h, leaky.h, rtol=0, atol=1e-12)
    torch.testing.assert_close(leaky.eigenvalues.abs(), (0.5 + 0.5 * plain.eigenvalues).abs(), rtol=1e-10, atol=1e-12)
    assert (plain.kind, leaky.kind) == ("repeller", "attractor")  # |±1.5i| > 1, |0.5 ± 0.75i| < 1


def test_a_line_attractor_is_reported_as_marginal(build, set_weights):
    rnn = set_weights(build("identity", hidden=2), weight_hh_l0=[[1.0, 0.0], [0.0, 0.5]])
    points = fixed_points(rnn, starts=10)
    assert len(points) == 11  # one for each start, and the origin
    assert {point.kind for point in points} == {"marginal"}
    assert all(abs(point.h[1].item()) < 1e-9 for point in points)


def test_states_of_a_run_are_starts_too(build, set_weights):
    rnn = set_weights(build("sigmoid", inputs=1, hidden=1), weight_hh_l0=5.0, bias_ih_l0=-2.5)
    few = fixed_points(rnn, starts=0)
    more = fixed_points(rnn, starts=0, h_samples=torch.tensor([[0.9], [0.5]]))
    assert len(few) == 1  # the origin leads to one attractor
    assert len(more) == 3


def test_a_token_is_the_column_of_the_input_weights(build):
    rnn = build("tanh", inputs=4, scale=0.2)
    one_hot = torch.tensor([0.0, 0.0, 1.0, 0.0])
    (by_token,), (by_tensor,), (by_vector,) = (fixed_points(rnn, u) for u in (2, torch.tensor(2), one_hot))
    assert torch.equal(by_token.h, by_tensor.h)
    torch.testing.assert_close(by_token.h, by_vector.h, rtol=0, atol=1e-12)
    assert not torch.allclose(by_token.h, fixed_points(rnn)[0].h)


def test_an_upper_layer_takes_its_own_input(build):
    rnn = build("tanh", layers=2, scale=0.2)
    u = torch.rand(5, dtype=F64)
    (point,) = fixed_points(rnn, u)
    b = rnn.bias_ih_l1 + rnn.bias_hh_l1
    expected = torch.tanh(rnn.weight_hh_l1 @ point.h + rnn.weight_ih_l1 @ u + b)
    torch.testing.assert_close(point.h, expected.detach(), rtol=0, atol=1e-10)


def test_the_same_generator_finds_the_same_points_and_the_global_one_is_left_alone(build):
    rnn = build("tanh", hidden=6, scale=1.5)
    state = torch.get_rng_state()
    first, second = fixed_points(rnn, starts=20), fixed_points(rnn, starts=20)
    seeded = fixed_points(rnn, starts=20, generator=torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), state)
    assert [point.h.tolist() for point in first] == [point.h.tolist() for point in second]
    assert [point.h.tolist() for point in first] == [point.h.tolist() for point in seeded]

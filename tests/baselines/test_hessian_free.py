"""Hessian-free steps: the damping follows the reduction ratio, both batches are used, and a resumed run goes on to the bit."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise
from typing import Any

import pytest
import torch
from recaller import Recaller, draw
from torch import Tensor

from steadygrad.baselines import HessianFree


def test_on_a_quadratic_the_ratio_is_one_and_the_damping_falls() -> None:
    inputs = draw(30, 4)
    targets = inputs @ draw(4, 2, seed=2)
    net = torch.nn.Linear(4, 2, dtype=torch.float64)
    optimizer = HessianFree(net.parameters(), "squared-error", damping=1.0)
    for k in range(12):
        optimizer.step(lambda _: (net(inputs), targets))
        assert optimizer.stats is not None
        # the Gauss-Newton matrix is the Hessian here, so the model is the loss itself
        assert optimizer.stats.reduction_ratio == pytest.approx(1, abs=1e-6)
        assert optimizer.param_groups[0]["damping"] == pytest.approx((2 / 3) ** (k + 1))
    assert optimizer.stats is not None
    assert optimizer.stats.loss_after < 1e-12


def test_on_a_banana_the_damping_rises_in_the_bend_and_falls_near_the_minimum() -> None:
    # Rosenbrock's function as least squares: ½ ‖(10 (y − x²), 1 − x)‖²; from (−1.2, 1) the Gauss-Newton step is far too long
    point = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)

    def forward(_: str) -> tuple[Tensor, Tensor]:
        x, y = point
        return torch.stack([10 * (y - x * x), 1 - x]), torch.zeros(2, dtype=torch.float64)

    optimizer = HessianFree([point], "squared-error", damping=1e-3)
    dampings, losses = [1e-3], []
    for _ in range(25):
        losses.append(optimizer.step(forward))
        assert optimizer.stats is not None
        ratio, before, after = (
            optimizer.stats.reduction_ratio,
            optimizer.stats.damping,
            optimizer.stats.next_damping,
        )
        assert after == pytest.approx(before * (3 / 2 if ratio < 0.25 else 2 / 3 if ratio > 0.75 else 1))
        dampings.append(after)
    assert dampings[1] > dampings[0]
    assert max(dampings) > 5e-3
    assert dampings[-1] < max(dampings) / 5
    assert all(later <= earlier for earlier, later in pairwise(losses))
    torch.testing.assert_close(point.detach(), torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-6)


def test_the_gradient_and_the_curvature_come_from_their_own_batches() -> None:
    usual, other_curvature = Recaller(), Recaller()
    other_curvature.batches["curvature"] = draw(7, 8, 2, seed=3)
    assert usual.step() == other_curvature.step()
    assert usual.called.count("curvature") == 1
    assert usual.called.count("gradient") > 1
    assert not torch.equal(usual.weights()[0], other_curvature.weights()[0])
    stats = usual.optimizer.stats
    assert stats is not None
    with torch.no_grad():
        outputs, targets, _ = usual.forward("gradient")
        assert stats.loss_after == pytest.approx(float((outputs - targets).square().mean()), rel=1e-12)


def test_a_step_on_a_quadratic_is_the_solution_of_the_damped_system() -> None:
    # the whole step beside a direct solve of (G + λ I) x = −g
    net, inputs, targets = torch.nn.Linear(3, 1, dtype=torch.float64), draw(9, 3), draw(9, 1, seed=2)
    before = torch.cat([each.detach().flatten() for each in net.parameters()])
    optimizer = HessianFree(net.parameters(), "squared-error", damping=0.3, cg_tolerance=0.0)
    optimizer.step(lambda _: (net(inputs), targets))
    J = torch.cat([inputs, torch.ones(9, 1, dtype=torch.float64)], 1)
    G = 2 / 9 * J.T @ J
    g = 2 / 9 * J.T @ (J @ before - targets[:, 0])
    expected = before - torch.linalg.solve(G + 0.3 * torch.eye(4, dtype=torch.float64), g)
    after = torch.cat([each.detach().flatten() for each in net.parameters()])
    torch.testing.assert_close(after, expected, rtol=1e-9, atol=1e-12)


def test_structural_damping_holds_the_hidden_states_back() -> None:
    changes = []
    for structural in (0.0, 1.0, 100.0):
        recaller = Recaller(damping=0.01, structural=structural)
        before = recaller.forward("curvature")[2].detach()
        recaller.step()
        changes.append(float((recaller.forward("curvature")[2].detach() - before).norm()))
    assert changes[0] > 1.5 * changes[1] > 10 * changes[2] > 0


@pytest.mark.parametrize("settings", [{}, {"structural": 0.1, "hidden_distance": "tanh"}], ids=["plain", "structural"])
def test_a_resumed_run_gives_the_same_bits(settings: dict[str, Any]) -> None:
    whole, first, second = (Recaller(**settings) for _ in range(3))
    expected = [whole.step() for _ in range(6)]
    found = [first.step() for _ in range(3)]
    state, weights = copy.deepcopy(first.optimizer.state_dict()), first.net.state_dict()
    second.net.load_state_dict(weights)
    second.optimizer.load_state_dict(state)
    found += [second.step() for _ in range(3)]
    assert found == expected
    assert second.optimizer.stats == whole.optimizer.stats
    assert all(torch.equal(a, b) for a, b in zip(whole.weights(), second.weights(), strict=True))


def test_a_run_resumed_without_its_state_gives_other_numbers() -> None:
    whole, second = Recaller(), Recaller()
    for _ in range(3):
        whole.step()
    second.net.load_state_dict(whole.net.state_dict())
    assert (whole.step(), second.step())[0] == second.optimizer.stats.loss_before  # pyright: ignore
    assert not torch.equal(whole.weights()[0], second.weights()[0])


@pytest.mark.parametrize("way", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))], ids=["copy", "pickle"])
def test_a_copy_goes_on_to_the_same_bits(way: Any) -> None:
    recaller = Recaller()
    recaller.step()
    net, optimizer = way((recaller.net, recaller.optimizer))
    assert optimizer.stats == recaller.optimizer.stats
    recaller.step()

    def forward(batch: str) -> tuple[Tensor, Tensor]:
        hidden, _ = net[0](recaller.batches[batch])
        return net[1](hidden[-1]), recaller.batches[batch][0]

    optimizer.step(forward)
    assert all(torch.equal(a, b) for a, b in zip(recaller.weights(), net.parameters(), strict=True))


def test_gradients_and_the_graph_of_others_are_left_alone() -> None:
    recaller = Recaller()
    recaller.rnn.weight_hh_l0.grad = torch.ones(6, 6, dtype=torch.float64)
    random = torch.get_rng_state()
    recaller.step()
    assert torch.equal(recaller.rnn.weight_hh_l0.grad, torch.ones(6, 6, dtype=torch.float64))
    assert recaller.readout.weight.grad is None
    assert torch.equal(random, torch.get_rng_state())
    with torch.no_grad():  # as torch's own optimizers, it needs no enabled gradients around it
        assert recaller.step() < recaller.optimizer.stats.loss_before + 1  # pyright: ignore


def test_stats_read_as_one_line() -> None:
    recaller = Recaller(damping=0.1)
    assert recaller.optimizer.stats is None
    recaller.step()
    text = str(recaller.optimizer.stats)
    recaller.step()
    assert recaller.optimizer.stats is not None
    assert recaller.optimizer.stats.step == recaller.optimizer.param_groups[0]["steps"] == 2
    assert text.startswith("step 1: loss ")
    assert "CG" in text
    assert "damping 0.1 -> " in text
    assert "\n" not in text

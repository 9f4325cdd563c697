"""Hessian-free steps: the damping follows the reduction ratio, both batches are used, and a resumed run goes on to the bit."""

from __future__ import annotations

import copy
import math
import pickle
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

import steadygrad as sg
from steadygrad.baselines import HessianFree, newton_step
from steadygrad.baselines.conjugate_gradients import Solution, conjugate_gradients
from steadygrad.baselines.curvature import flat
from steadygrad.baselines.newton_step import back_track, line_search, next_damping


def draw(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


class Recaller:
    """A small recurrent network that answers with what it saw first; made anew from a seed."""

    def __init__(self, loss: Any = "squared-error", seed: int = 1, **settings: Any) -> None:
        torch.manual_seed(seed)
        self.rnn, self.readout = sg.RNN(2, 6, dtype=torch.float64), torch.nn.Linear(6, 2, dtype=torch.float64)
        self.net = torch.nn.ModuleList([self.rnn, self.readout])
        self.optimizer = HessianFree(self.net.parameters(), loss, **settings)
        self.called: list[str] = []
        self.batches = {"gradient": draw(7, 20, 2), "curvature": draw(7, 8, 2, seed=2)}

    def forward(self, batch: str) -> tuple[Tensor, Tensor, Tensor]:
        self.called.append(batch)
        inputs = self.batches[batch]
        hidden, _ = self.rnn(inputs)
        return self.readout(hidden[-1]), inputs[0], hidden

    def step(self) -> float:
        return self.optimizer.step(self.forward)

    def weights(self) -> list[Tensor]:
        return [each.detach().clone() for each in self.net.parameters()]


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


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(-math.inf, 1.5), (0.24, 1.5), (0.25, 1), (0.75, 1), (0.76, 2 / 3), (3.0, 2 / 3), (math.nan, 1)],
)
def test_the_damping_follows_levenberg_and_marquardt(ratio: float, expected: float) -> None:
    assert next_damping(1.0, ratio) == pytest.approx(expected)
    assert next_damping(1e-10, 1.0) == 1e-10  # and it never reaches 0


def test_back_tracking_goes_on_while_the_loss_falls() -> None:
    iterates = tuple((i, torch.tensor([float(i)])) for i in (1, 2, 3, 4))
    losses = {1.0: 0.1, 2.0: 0.9, 3.0: 0.5, 4.0: math.inf}
    found = back_track(lambda x: losses[float(x)], Solution(iterates, (0.0,) * 5, "limit"))  # pyright: ignore
    assert found == (3, torch.tensor([3.0]), 0.5)  # 2 is worse than 3: iteration 1 is not looked at


def test_the_line_search_takes_the_first_rate_that_lowers_the_loss_enough() -> None:
    # E(θ + η x) = 1 − η + 2η², slope −1: enough where 2η² − η ≤ −0.01 η, that is η ≤ 0.495; 0.8³ = 0.512, 0.8⁴ = 0.4096
    def loss(x: Tensor) -> float:
        return float(1 - x + 2 * x * x)

    rate, after = line_search(loss, torch.ones(1), 2.0, 1.0, -1.0)  # pyright: ignore
    assert rate == pytest.approx(0.4096)
    assert after == pytest.approx(1 - 0.4096 + 2 * 0.4096**2)
    assert line_search(loss, torch.ones(1), 2.0, 1.0, 0.1) == (0.0, 1.0)  # pyright: ignore
    assert line_search(lambda _: 2.0, torch.ones(1), 2.0, 1.0, -1.0) == (0.0, 1.0)  # pyright: ignore


def test_a_step_that_finds_no_lower_loss_leaves_the_parameters_to_the_bit() -> None:
    recaller = Recaller(cg_iterations=1, decay=1.0)
    recaller.step()
    # a wrong solution to start from: uphill, and one iteration is not enough to turn it
    for each in recaller.net.parameters():
        recaller.optimizer.state[each]["solution"] = 1e3 * torch.ones_like(each)
    before = recaller.weights()
    recaller.step()
    stats = recaller.optimizer.stats
    assert stats is not None
    assert (stats.rate, stats.loss_after) == (0.0, stats.loss_before)
    assert stats.next_damping == pytest.approx(1.5 * stats.damping)
    assert all(torch.equal(a, b) for a, b in zip(before, recaller.weights(), strict=True))
    assert not any(state["solution"].any() for state in recaller.optimizer.state.values())


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


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Tensor]]:
    """(start, preconditioner) of every run of conjugate gradients."""
    seen: list[tuple[Tensor, Tensor]] = []

    def watched(product: Any, b: Tensor, start: Tensor, preconditioner: Tensor, **settings: Any) -> Solution:
        seen.append((start, preconditioner))
        return conjugate_gradients(product, b, start, preconditioner, **settings)

    monkeypatch.setattr(newton_step, "conjugate_gradients", watched)
    return seen


def test_conjugate_gradients_start_from_the_decayed_solution(asked: list[tuple[Tensor, Tensor]]) -> None:
    recaller = Recaller(decay=0.7)
    recaller.step()
    solution = flat([recaller.optimizer.state[each]["solution"] for each in recaller.net.parameters()])
    recaller.step()
    assert not asked[0][0].any()
    assert solution.any()
    assert torch.equal(asked[1][0], 0.7 * solution)


def test_the_preconditioner_is_martens(asked: list[tuple[Tensor, Tensor]]) -> None:
    recaller = Recaller(damping=0.2, pieces=8)  # as many as the curvature batch has sequences: exact
    outputs, targets, _ = recaller.forward("curvature")
    squares = [
        flat(torch.autograd.grad((z - d).square().mean(), list(recaller.net.parameters()), retain_graph=True)).square()
        for z, d in zip(outputs, targets, strict=True)
    ]
    recaller.step()
    torch.testing.assert_close(asked[0][1], (torch.stack(squares).mean(0) + 0.2) ** 0.75, rtol=1e-10, atol=0)


def test_the_signs_of_the_estimate_differ_from_step_to_step_and_from_seed_to_seed(
    asked: list[tuple[Tensor, Tensor]],
) -> None:
    for seed, steps in ((0, 0), (0, 0), (0, 1), (1, 0)):
        recaller = Recaller(pieces=2, seed=seed)
        recaller.optimizer.param_groups[0]["steps"] = steps
        recaller.step()
    same, first, next_step, other_seed = (preconditioner for _, preconditioner in asked)
    assert torch.equal(same, first)
    assert not torch.equal(first, next_step)
    assert not torch.equal(first, other_seed)


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
    assert text.startswith("step 1: loss ")
    assert "CG" in text
    assert "damping 0.1 -> " in text
    assert "\n" not in text

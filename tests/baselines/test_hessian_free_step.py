"""The parts of a Hessian-free step: back-tracking, line search, damping rule, warm start and preconditioner."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from recaller import Recaller
from torch import Tensor

from steadygrad.baselines import newton_step
from steadygrad.baselines.conjugate_gradients import Solution, conjugate_gradients
from steadygrad.baselines.curvature import flat
from steadygrad.baselines.newton_step import back_track, line_search, next_damping


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

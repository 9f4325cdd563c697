"""A step with a clipper against a step clipped by hand, for every optimizer of torch's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from clip_cases import (
    fresh,
    frozen,
    give,
    gradients,
    parameters,
)
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from steadygrad.clip import Auto, NormClipper, Percentile, Spike, clip_grad_norm_

INF, NAN = math.inf, math.nan


OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True),
    "Adam fused": lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.9, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "Adadelta": lambda p: torch.optim.Adadelta(p, lr=0.1),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=0.1),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.1),
    "RAdam": lambda p: torch.optim.RAdam(p, lr=0.1),
    "ASGD": lambda p: torch.optim.ASGD(p, lr=0.1),
    "Rprop": lambda p: torch.optim.Rprop(p, lr=0.1),
    "Adafactor": lambda p: torch.optim.Adafactor(p, lr=0.1),
}
each_optimizer = pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())


@each_optimizer
def test_step_equals_clipping_by_hand(make: Callable[[Any], Optimizer]) -> None:
    ours, theirs = fresh(), fresh()
    optimizer, reference = make(ours), make(theirs)
    clipper = NormClipper(optimizer, threshold=10.0)
    for values in gradients(6):
        give(ours, values)
        give(theirs, values)
        clip_grad_norm_(theirs, 10.0)
        optimizer.step()
        reference.step()
    assert frozen(ours, optimizer) == frozen(theirs, reference)
    assert 0 < clipper.stats.clipped < 6  # the threshold lies among these norms, or the test would show nothing


@each_optimizer
@pytest.mark.parametrize("bad", [INF, NAN])
@pytest.mark.parametrize("with_closure", [False, True])
def test_skip_leaves_parameters_and_state_to_the_bit(
    make: Callable[[Any], Optimizer], bad: float, with_closure: bool
) -> None:
    tensors = fresh()
    optimizer = make(tensors)
    clipper = NormClipper(optimizer, threshold=10.0)
    for values in gradients(2):
        give(tensors, values)
        optimizer.step()
    before = frozen(tensors, optimizer)

    def closure() -> float:
        tensors[1].grad[2] = bad
        return 4.0

    if with_closure:
        assert optimizer.step(closure) == 4.0
    else:
        closure()
        assert optimizer.step() is None
    assert frozen(tensors, optimizer) == before
    assert clipper.stats.skipped == 1
    assert clipper.stats.last_skipped == ("parameter 1 of group 0 (shape 3)",)
    tensors[1].grad[2] = 1.0
    optimizer.step()
    assert frozen(tensors, optimizer) != before


def test_first_step_skipped_leaves_the_state_empty() -> None:
    tensors = fresh()
    optimizer = torch.optim.Adam(tensors)
    NormClipper(optimizer, threshold=1.0)
    give(tensors, [torch.full((3, 3), NAN, dtype=torch.float64), torch.ones(3, dtype=torch.float64)])
    optimizer.step()
    assert not optimizer.state


def test_gradient_below_the_threshold_is_not_written_by_the_clipper() -> None:
    thresholds: list[Any] = [1e6, Auto(statistic="mean"), Percentile(100), Spike()]
    for threshold in thresholds:
        tensors = fresh()
        optimizer = torch.optim.SGD(tensors, lr=0.1)
        NormClipper(optimizer, threshold)
        give(tensors, next(gradients(1)))
        before = [p.grad._version for p in tensors]
        optimizer.step()
        assert [p.grad._version for p in tensors] == before


def test_ordinary_gradient_is_not_written_by_the_automatic_threshold() -> None:
    tensors = fresh()
    optimizer = torch.optim.SGD(tensors, lr=0.1)
    NormClipper(optimizer, "auto")
    for values in gradients(1):
        for _ in range(30):
            give(tensors, values)
            before = [p.grad._version for p in tensors]
            optimizer.step()
    assert [p.grad._version for p in tensors] == before


def test_optimizer_whose_step_takes_no_closure_is_clipped() -> None:
    class Plain(Optimizer):
        def __init__(self, tensors: list[Parameter]) -> None:
            super().__init__(tensors, {})

        def step(self) -> None:  # type: ignore[override]
            for parameter in self.param_groups[0]["params"]:
                parameter.data -= parameter.grad

    tensors = parameters([3.0, 4.0])
    optimizer = Plain(tensors)
    NormClipper(optimizer, threshold=1.0)
    optimizer.step()
    torch.testing.assert_close(tensors[0].data, torch.tensor([0.4, 0.2], dtype=torch.float64))


def lbfgs(fail_at: int | None, line_search: str | None = None) -> tuple[list[Any], Any, Callable[[], Tensor]]:
    """A valley to descend into; evaluation number `fail_at` gives a gradient that is not finite."""
    tensors: list[Any] = [Parameter(torch.tensor([-1.0, 2.0], dtype=torch.float64))]
    optimizer = torch.optim.LBFGS(tensors, lr=0.1, max_iter=5, line_search_fn=line_search)
    count = itertools.count(1)

    def closure() -> Tensor:
        optimizer.zero_grad()
        x, y = tensors[0]
        loss = x**2 + 10 * y**2 + x**4
        loss.backward()
        if next(count) == fail_at:
            tensors[0].grad[0] = NAN
        return loss

    return tensors, optimizer, closure


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_lbfgs_equals_a_closure_clipped_by_hand(line_search: str | None) -> None:
    ours, optimizer, closure = lbfgs(None, line_search)
    theirs, reference, bare = lbfgs(None, line_search)
    clipper = NormClipper(optimizer, threshold=40.0)

    def by_hand() -> Tensor:
        loss = bare()
        clip_grad_norm_(theirs, 40.0)
        return loss

    # the first norm is 40.4, the second below 40: were both clipped, LBFGS would find no curvature and leap away
    for _ in range(4):
        assert torch.equal(optimizer.step(closure), reference.step(by_hand))
    assert frozen(ours, optimizer) == frozen(theirs, reference)
    assert 0 < clipper.stats.clipped < clipper.stats.steps
    assert clipper.stats.steps > 4


@pytest.mark.parametrize("fail_at", [6, 7, 9])  # the first, second and fourth evaluation of the second step
@pytest.mark.parametrize("nonfinite", ["skip", "raise"])
def test_lbfgs_step_with_any_nonfinite_evaluation_is_undone(fail_at: int, nonfinite: Any) -> None:
    tensors, optimizer, closure = lbfgs(fail_at)
    clipper = NormClipper(optimizer, threshold=10.0, nonfinite=nonfinite)
    optimizer.step(closure)
    assert clipper.stats.steps == 5
    before = frozen(tensors, optimizer)
    if nonfinite == "raise":
        with pytest.raises(FloatingPointError, match="parameter 0 of group 0"):
            optimizer.step(closure=closure)
    else:
        assert torch.isfinite(optimizer.step(closure=closure))
    assert frozen(tensors, optimizer) == before
    assert clipper.stats.steps == fail_at
    optimizer.step(closure)
    assert frozen(tensors, optimizer) != before

"""The clipper beside schedulers, GradScaler and copies of the optimizer; attaching and detaching."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from typing import Any

import pytest
import torch
from clip_cases import (
    fresh,
    give,
    gradients,
    parameters,
    plain,
)

from steadygrad.clip import NormClipper

INF, NAN = math.inf, math.nan


class Plain(torch.optim.Optimizer):
    """Its step has arguments of its own."""

    def __init__(self, tensors: Any, lr: float) -> None:
        super().__init__(tensors, {"lr": lr})

    def step(self, closure: Any = None, *, scale: float = 1.0) -> None:  # type: ignore[override]
        del closure, scale


@pytest.mark.parametrize("clipper_first", [True, False])
@pytest.mark.parametrize("first_is_skipped", [True, False])
@pytest.mark.parametrize("with_closure", [True, False])
def test_scheduler_works_in_either_order_without_warning(
    clipper_first: bool, first_is_skipped: bool, with_closure: bool
) -> None:
    tensors = parameters([3.0, 4.0])
    optimizer = torch.optim.SGD(tensors, lr=1.0)

    def schedule() -> torch.optim.lr_scheduler.LRScheduler:
        return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)

    if clipper_first:
        clipper, scheduler = NormClipper(optimizer, threshold=1.0), schedule()
    else:
        scheduler, clipper = schedule(), NormClipper(optimizer, threshold=1.0)
    again = schedule()  # a second one finds the step wrapped, and must not wrap it out of reach
    if first_is_skipped:
        tensors[0].grad[0] = NAN
    optimizer.step(lambda: 1.0) if with_closure else optimizer.step()
    scheduler.step()  # pytest makes warnings errors: torch warns here if it believes step() was not called
    again.step()
    tensors[0].grad[:] = torch.tensor([3.0, 4.0])
    tensors[0].data.zero_()
    optimizer.step()
    # lr 1 · 0.5 · 0.5 from two schedulers, gradient (3, 4)/5
    torch.testing.assert_close(tensors[0].data, torch.tensor([-0.15, -0.2], dtype=torch.float64))
    assert (clipper.stats.steps, clipper.stats.skipped) == (2, int(first_is_skipped))


def test_clipper_made_after_the_only_scheduler_does_not_warn() -> None:
    tensors = parameters([3.0, 4.0])
    optimizer = torch.optim.SGD(tensors, lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    NormClipper(optimizer, threshold=1.0)
    optimizer.step()
    scheduler.step()  # torch warns here of a step that was overridden without its mark
    assert optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize("scheduler", ["none", "before", "after"])
def test_detach_gives_the_step_back(scheduler: str) -> None:
    tensors = parameters([30.0, 40.0])
    optimizer = torch.optim.SGD(tensors, lr=1.0)
    if scheduler == "before":
        torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    step = vars(optimizer).get("step")
    clipper = NormClipper(optimizer, threshold=1.0)
    if scheduler == "after":
        torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    clipper.detach()
    clipper.detach()
    if scheduler != "after":
        assert vars(optimizer).get("step") is step
    optimizer.step()
    assert tensors[0].tolist() == [-29.0, -39.0]
    assert clipper.stats.steps == 0
    again = NormClipper(optimizer, threshold=1.0)
    optimizer.step()
    assert again.stats.steps == 1
    assert tensors[0].grad.norm().item() == pytest.approx(1.0)


@pytest.mark.parametrize("scheduler_between", [True, False])
def test_second_clipper_is_refused(scheduler_between: bool) -> None:
    optimizer = torch.optim.SGD(fresh(), lr=1.0)
    NormClipper(optimizer, threshold=1.0)
    if scheduler_between:
        torch.optim.lr_scheduler.ConstantLR(optimizer)
    with pytest.raises(ValueError, match="optimizer must have no other NormClipper"):
        NormClipper(optimizer, threshold=1.0)


def test_copies_and_state_dict_of_the_optimizer_know_nothing_of_the_clipper() -> None:
    tensors, others = fresh(), fresh()
    optimizer, reference = torch.optim.Adam(tensors), torch.optim.Adam(others)
    clipper = NormClipper(optimizer, threshold=100.0)
    for values in gradients(2):
        give(tensors, values)
        give(others, values)
        optimizer.step()
        reference.step()
    assert plain(optimizer.state_dict()) == plain(reference.state_dict())
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        twin.step()
        assert "step" not in vars(twin)
    assert clipper.stats.steps == 2


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("nonfinite", ["skip", "raise", "shrink"])
def test_grad_scaler_clips_unscaled_gradients_and_keeps_its_own_skips(fused: bool, nonfinite: Any) -> None:
    (tensor,) = tensors = parameters([3.0, 4.0], dtype=torch.float32)
    optimizer = torch.optim.SGD(tensors, lr=1.0, fused=fused)
    recurrent = tensors if nonfinite == "shrink" else None
    clipper = NormClipper(optimizer, threshold=1.0, nonfinite=nonfinite, recurrent=recurrent)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(torch.zeros(()))  # the scaler makes its scale with the first loss
    tensor.grad = 1024.0 * torch.tensor([3.0, 4.0])
    scaler.step(optimizer)
    scaler.update()
    torch.testing.assert_close(tensor.data, torch.tensor([0.4, 0.2]))
    assert clipper.stats.norm_before == pytest.approx(5.0)
    before = tensor.detach().clone()
    tensor.grad = torch.tensor([INF, 1.0])
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(tensor, before)
    assert scaler.get_scale() == 512.0
    assert clipper.stats.skipped == int(fused)  # an optimizer that is not fused is never called


def test_shrink_under_a_grad_scaler_shrinks_by_the_same_two_percent() -> None:
    (tensor,) = tensors = parameters([2.0, 4.0], dtype=torch.float32)
    tensor.data.copy_(torch.tensor([2.0, 4.0]))
    optimizer = torch.optim.SGD(tensors, lr=0.5, fused=True)
    clipper = NormClipper(optimizer, threshold=1.0, nonfinite="shrink", recurrent=tensors)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(torch.zeros(()))
    tensor.grad = 1024.0 * torch.tensor([3e11, 4e11])
    scaler.step(optimizer)
    torch.testing.assert_close(tensor.data, torch.tensor([1.98, 3.96]))  # 1 − 0.5 · 0.02 = 0.99
    assert clipper.stats.norm_before == pytest.approx(5e11)
    assert clipper.stats.norm_after == pytest.approx(0.02 * math.sqrt(20), rel=1e-6)


@pytest.mark.parametrize("scheduler", ["none", "before", "after"])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.LBFGS, Plain])
def test_signature_of_the_step_is_kept(kind: Any, scheduler: str) -> None:
    def signature(clipped: bool) -> list[str]:
        optimizer = kind(fresh(), lr=1.0)
        if scheduler == "before":
            torch.optim.lr_scheduler.ConstantLR(optimizer)
        if clipped:
            NormClipper(optimizer, 1.0)
        if scheduler == "after":
            torch.optim.lr_scheduler.ConstantLR(optimizer)
        # torch's schedulers leave an unbound function, and its "self"
        return [str(p) for p in inspect.signature(optimizer.step).parameters.values() if p.name != "self"]

    assert signature(clipped=True) == signature(clipped=False)
    assert len(signature(clipped=True)) == (2 if kind is Plain else 1)

"""Hooks on the optimizer's step, and the profiler, see a clipped step as they see any other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from steadygrad.clip import NormClipper
from steadygrad.clip.attachment import nobody_listens, without_listeners


def made() -> tuple[torch.nn.Parameter, torch.optim.Optimizer, NormClipper]:
    weight = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    clipper = NormClipper(optimizer, threshold=6.5)
    weight.grad = torch.tensor([3.0, 4.0, 12.0])
    return weight, optimizer, clipper


@pytest.mark.parametrize("of_all", [False, True])
@pytest.mark.parametrize("when", ["pre", "post"])
def test_a_hook_registered_later_is_called_at_every_step(when: str, of_all: bool) -> None:
    weight, optimizer, clipper = made()
    optimizer.step()
    seen: list[Any] = []

    def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
        seen.append(weight.tolist())

    if of_all:
        of_both = {"pre": register_optimizer_step_pre_hook, "post": register_optimizer_step_post_hook}
        handle = of_both[when](hook)
    else:
        handle = getattr(optimizer, f"register_step_{when}_hook")(hook)
    optimizer.step()
    handle.remove()
    optimizer.step()
    assert seen == [[-1.5, -2.0, -6.0] if when == "pre" else [-3.0, -4.0, -12.0]]
    assert clipper.norm_before == clipper.stats.norm_before


def test_the_profiler_sees_the_step_by_its_name() -> None:
    _, optimizer, _ = made()
    with torch.profiler.profile() as profile:
        optimizer.step()
    assert "Optimizer.step#SGD.step" in {event.name for event in profile.events() or ()}


def test_without_listeners_the_wrapper_is_left_out_and_the_numbers_are_the_same() -> None:
    weight, optimizer, clipper = made()
    clipper.detach()
    assert without_listeners(optimizer, optimizer.step) is not None
    assert nobody_listens(optimizer)
    optimizer.step()
    wanted = weight.detach().clone()
    weight.grad = torch.tensor([3.0, 4.0, 12.0])
    with torch.no_grad():
        weight.zero_()
    NormClipper(optimizer, threshold=100.0)
    optimizer.step()
    assert torch.equal(weight, wanted)

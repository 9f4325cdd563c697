"""With HuggingFace accelerate: an accumulated gradient is clipped once, when its update is made."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from steadygrad.clip import NormClipper, clip_grad_norm_

accelerate = pytest.importorskip(
    "accelerate", reason="accelerate is not installed: pip install 'steadygrad[integrations]'"
)

MICRO, ACCUMULATED = 8, 4


@pytest.fixture
def accelerator() -> Iterator[Any]:
    accelerate.state.PartialState._reset_state()
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()
    yield accelerate.Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATED)
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()


def batches() -> list[Tensor]:
    return list(torch.randn(MICRO, 6, 3, generator=torch.Generator().manual_seed(0)))


def expected(start: nn.Linear) -> tuple[list[Tensor], list[float]]:
    """Two updates by hand: the mean gradient of four micro-batches, clipped at 0.1."""
    model = copy.deepcopy(start)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    norms = []
    for k, x in enumerate(batches(), 1):
        (model(x).square().mean() / ACCUMULATED).backward()
        if k % ACCUMULATED == 0:
            norms.append(clip_grad_norm_(model.parameters(), 0.1).item())
            optimizer.step()
            optimizer.zero_grad()
    return [p.detach() for p in model.parameters()], norms


@pytest.mark.parametrize("on", ["raw optimizer", "prepared optimizer"])
def test_accumulated_gradient_is_clipped_once_per_update(accelerator: Any, on: str) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    weights, norms = expected(model)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    if on == "raw optimizer":
        clipper = NormClipper(optimizer, threshold=0.1)
        model, optimizer = accelerator.prepare(model, optimizer)
    else:
        model, optimizer = accelerator.prepare(model, optimizer)
        clipper = NormClipper(optimizer, threshold=0.1)
    assert isinstance(optimizer, accelerate.optimizer.AcceleratedOptimizer)
    for x in batches():
        with accelerator.accumulate(model):
            accelerator.backward(model(x).square().mean())
            optimizer.step()
            optimizer.zero_grad()
    assert (clipper.stats.steps, clipper.stats.clipped) == (MICRO // ACCUMULATED, MICRO // ACCUMULATED)
    assert [before for before, _ in clipper.stats.history] == pytest.approx(norms, rel=1e-6)
    for p, w in zip(model.parameters(), weights, strict=True):
        torch.testing.assert_close(p.detach(), w, rtol=1e-6, atol=1e-7)  # float32


@pytest.mark.parametrize("on", ["raw optimizer", "prepared optimizer"])
@pytest.mark.parametrize("detached", [False, True])
def test_with_a_grad_scaler_unscaled_gradients_are_clipped(accelerator: Any, on: str, detached: bool) -> None:
    del accelerator  # it sets the state that the optimizer needs; mixed precision itself is for GPUs
    weight = nn.Parameter(torch.tensor([1.0, 1.0]))
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(torch.zeros(()))
    raw: Any = torch.optim.SGD([weight], lr=1.0)
    clippers = [NormClipper(raw, threshold=1.0)] if on == "raw optimizer" else []
    prepared = accelerate.optimizer.AcceleratedOptimizer(raw, scaler=scaler)
    (clipper,) = clippers or [NormClipper(prepared, threshold=1.0)]
    assert clipper.attached
    if detached:
        clipper.detach()
    for _ in range(2):
        weight.data.fill_(1.0)
        weight.grad = 1024.0 * torch.tensor([3.0, 4.0])
        prepared.step()
        torch.testing.assert_close(weight.data, torch.tensor([-2.0, -3.0] if detached else [0.4, 0.2]))
        assert not prepared.step_was_skipped
    assert clipper.attached is not detached
    assert clipper.stats.steps == (0 if detached else 2)


def test_second_clipper_on_the_prepared_optimizer_is_refused(accelerator: Any) -> None:
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    NormClipper(optimizer, 1.0)
    with pytest.raises(ValueError, match="optimizer must have no other NormClipper"):
        NormClipper(accelerator.prepare(optimizer), 1.0)


def test_optimizer_whose_step_does_nothing_is_refused(accelerator: Any) -> None:
    del accelerator
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    wrapped = importlib.import_module("accelerate.utils.deepspeed").DeepSpeedOptimizerWrapper(optimizer)
    with pytest.raises(ValueError, match="optimizer must make its updates in step"):
        NormClipper(wrapped, 1.0)
    assert "step" not in vars(optimizer)


def test_deepcopy_beside_the_prepared_optimizer_clips_the_copy(accelerator: Any) -> None:
    model = nn.Linear(1, 1)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1.0))
    clipper = NormClipper(optimizer, threshold=0.5)
    twin_model, twin_optimizer, twin = copy.deepcopy((model, optimizer, clipper))
    before = [p.detach().clone() for p in model.parameters()]
    for p in twin_model.parameters():
        p.grad = torch.full_like(p, 30.0)
    twin_optimizer.step()
    assert (twin.stats.clipped, clipper.stats.steps) == (1, 0)
    assert twin.attached
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))

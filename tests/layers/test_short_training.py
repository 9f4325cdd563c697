"""Training over one step, or a few steps of a wide layer, where `auto` does not take the kernel of whole sequences (run.py)."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import steadygrad as sg
from steadygrad.recurrence import bptt, gated_bptt, native, native_gated, run, single
from steadygrad.recurrence.options import Given, Options

pytestmark = pytest.mark.skipif(native.library() is None, reason="the C++ kernel is not built")


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers of a few units are treated as wide ones are."""
    monkeypatch.setattr(run, "ONE_STEP_UNITS", 1)
    monkeypatch.setattr(run, "FIRST_STEP_UNITS", 1)
    monkeypatch.setattr(run, "FEW_STEPS_UNITS", 1)


def trained(cell: str, backend: str, steps: int, batch: int, given_state: bool, **options: Any) -> list[Tensor]:
    """Outputs, gradients and the flow of one step of training, in float64."""
    torch.manual_seed(0)
    layer = getattr(sg, cell)(7, 19, backend=backend, dtype=torch.float64, **options)
    inputs = torch.randn(steps, batch, 7, dtype=torch.float64, requires_grad=True)
    parts = [torch.randn(1, batch, 19, dtype=torch.float64, requires_grad=True) for _ in range(1 + (cell == "LSTM"))]
    state = (tuple(parts) if cell == "LSTM" else parts[0]) if given_state else None
    output, last = layer(inputs, state)
    ends = list(last) if isinstance(last, tuple) else [last]
    weights = torch.randn_like(output)
    loss = (output * weights).sum() + sum((end.squeeze(0) * weights[0].cos()).sum() for end in ends)
    loss.backward()
    found: list[Any] = [output, *ends, inputs.grad, *(each.grad for each in layer.parameters()), layer.flow.norms]
    return found + ([part.grad for part in parts] if given_state else [])


OPTIONS = list(
    itertools.product(("tanh", "relu", "sigmoid", "identity"), ("paper", "program"), (None, 0.1), (True, False))
)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize(("nonlinearity", "omega", "clip_error", "given_state"), OPTIONS)
@pytest.mark.parametrize("batch", [1, 5])
def test_one_step_equals_the_reference(
    nonlinearity: str, omega: str, clip_error: float | None, given_state: bool, batch: int
) -> None:
    options = {"nonlinearity": nonlinearity, "omega": omega, "clip_error": clip_error, "alpha": 1.0}
    found, wanted = (trained("RNN", each, 1, batch, given_state, **options) for each in ("auto", "reference"))
    for ours, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, right, rtol=1e-11, atol=1e-12)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_few_steps_equal_the_reference(cell: str, steps: int) -> None:
    found, wanted = (trained(cell, each, steps, 3, True, alpha=1.0) for each in ("auto", "reference"))
    for ours, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, right, rtol=1e-11, atol=1e-12)


@pytest.mark.usefixtures("narrow")
def test_a_second_backward_pass_and_a_changed_output_are_computed_anew() -> None:
    torch.manual_seed(0)
    layer, inputs = sg.RNN(3, 5, dtype=torch.float64), torch.randn(1, 2, 3, dtype=torch.float64)
    output, _ = layer(inputs)
    first = torch.autograd.grad(output.sum(), list(layer.parameters()), retain_graph=True)
    second = torch.autograd.grad(output.sum(), list(layer.parameters()))
    output, _ = layer(inputs)
    total = output.sum()
    with torch.no_grad():
        output.zero_()
    third = torch.autograd.grad(total, list(layer.parameters()))
    for again in (second, third):
        for ours, right in zip(again, first, strict=True):
            torch.testing.assert_close(ours, right)


@pytest.mark.usefixtures("narrow")
def test_weights_that_lie_otherwise_are_laid_out_and_freed_ones_refused() -> None:
    torch.manual_seed(0)
    layer, inputs = sg.RNN(3, 5, dtype=torch.float64), torch.randn(1, 2, 3, dtype=torch.float64)
    wanted = layer(inputs)[0]
    layer.weight_hh_l0 = torch.nn.Parameter(layer.weight_hh_l0.detach().T.contiguous().T)
    layer.weight_ih_l0 = torch.nn.Parameter(layer.weight_ih_l0.detach().T.contiguous().T)
    torch.testing.assert_close(layer(inputs)[0], wanted)
    layer.weight_hh_l0.data.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="hold its numbers"):
        layer(inputs)


def given_of(mode: str, steps: int, units: int, has_state: bool) -> Given:
    rows = {"RNN": 1, "GRU": 3, "LSTM": 4}[mode] * units
    inputs, weight_ih, weight_hh = torch.zeros(steps, 2, 3), torch.zeros(rows, 3), torch.zeros(rows, units)
    state = torch.zeros(2, units) if has_state else None
    return Given(inputs, state, weight_ih, weight_hh, None, None, None)


@pytest.mark.parametrize(
    ("mode", "steps", "units", "has_state", "who"),
    [
        ("RNN", 1, 64, True, native),
        ("RNN", 1, 512, True, single),
        ("RNN", 1, 512, False, native),
        ("RNN", 1, 1024, False, single),
        ("RNN", 1, 2048, True, single),
        ("RNN", 2, 512, True, native),
        ("RNN", 2, 1024, True, bptt),
        ("RNN", 5, 1024, True, native),
        ("RNN", 5, 2048, True, bptt),
        ("GRU", 1, 512, True, native_gated),
        ("LSTM", 4, 768, True, gated_bptt),
    ],
)
def test_who_computes_goes_by_the_shapes(mode: str, steps: int, units: int, has_state: bool, who: ModuleType) -> None:
    given = given_of(mode, steps, units, has_state)
    usual = run.ENGINES[mode, run.choose("auto", given.weight_hh, mode)]
    assert run.quickest(given, Options(mode=mode), usual) is who


@pytest.mark.parametrize("given_state", [False, True])
@pytest.mark.parametrize(("alpha", "batch"), [(0.0, 1), (1.0, 40)])
def test_one_step_by_the_kernel_equals_the_reference(given_state: bool, alpha: float, batch: int) -> None:
    found, wanted = (trained("RNN", each, 1, batch, given_state, alpha=alpha) for each in ("native", "reference"))
    for ours, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, right, rtol=1e-11, atol=1e-12)

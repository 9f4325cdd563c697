"""GRU and LSTM in the C++ kernel: every output, gradient and measured norm against the autograd loop of gated_reference.py."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gated_kernel_cases import CASES, SINGLE, Case, Loss, values
from gated_reference import reference
from torch import Tensor

from steadygrad.flow import Recorder
from steadygrad.recurrence import native, native_gated
from steadygrad.recurrence.options import Given, Options, Wanted

pytestmark = pytest.mark.skipif(native_gated.library() is None, reason="the C++ kernel is not built")

# float64 keeps 16 digits; 30 steps of sums over at most 150 units lose three or four of them. The rest is margin.
RELATIVE = 1e-9
EVERYTHING = Wanted(inputs=True, h0=True, weight_ih=True, weight_hh=True, bias=True, c0=True)


def computed(given: Given, options: Options, loss: Loss, recorder: Recorder | None = None) -> dict[str, Tensor]:
    """What the kernel finds, by the names of the reference."""
    saved, (last, last_c) = native_gated.forward(given, options)
    wanted = EVERYTHING._replace(inputs=given.inputs.is_floating_point())
    grads = native_gated.backward(saved, loss.output, loss.last, loss.last_c, options, wanted, recorder)
    bias_hh = grads.bias if grads.bias_hh is None else grads.bias_hh
    found = {"output": saved.output, "last": last, "last_c": last_c, "measured": grads.measured}
    found |= {"grad bias_ih": grads.bias, "grad bias_hh": bias_hh}
    for name in ("inputs", "h0", "c0", "weight_ih", "weight_hh"):
        found[f"grad {name}"] = getattr(grads, name)
    absent = {f"grad {name}" for name, value in given._asdict().items() if value is None}
    return {name: value for name, value in found.items() if value is not None and name not in absent}


def far(found: dict[str, Tensor], expected: dict[str, Tensor], relative: float) -> dict[str, float]:
    """What differs, and by how much: ‖found − expected‖ / ‖expected‖."""
    assert found.keys() == expected.keys()
    apart = {name: float((found[name].double() - expected[name]).norm()) for name in expected}
    return {name: x for name, x in apart.items() if not x <= relative * float(expected[name].norm())}


@functools.lru_cache(maxsize=2)
def room_for(steps: int, batch: int) -> Recorder:
    class Room:
        def room(self, batch: int, steps: int) -> Tensor:
            return torch.full((2, batch, steps), 1e30, dtype=torch.float64)  # a number that no result may keep

    return Room()  # type: ignore[return-value]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_everything_equals_the_reference(case: Case) -> None:
    given, loss = values(case)
    found = computed(given, case.options, loss, room_for(case.steps, case.batch))
    assert not far(found, reference(given, case.options, loss), RELATIVE)


# float32 keeps 7 digits, and three or four are lost as above.
@pytest.mark.parametrize("case", SINGLE, ids=str)
def test_float32_equals_the_reference_in_float64(case: Case) -> None:
    found = computed(*reordered(case, torch.float32), room_for(case.steps, case.batch))
    given, options, loss = reordered(case, torch.float64)
    assert not far(found, reference(given, options, loss), 2e-4)


def reordered(case: Case, dtype: torch.dtype) -> tuple[Given, Options, Loss]:
    given, loss = values(case, dtype, scale=0.01)
    return given, case.options, loss

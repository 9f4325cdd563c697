"""Where a value of a pass was first not finite."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportPrivateUsage=false
# (much of what is used of torch here is not annotated)

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..flow import Fault
from .options import Options


def find(measured: Tensor | None, options: Options, inputs: Tensor, output: Tensor) -> Fault | None:
    """The first step at fault, or None where every error is finite.

    Args:
        measured: [2, B, T], what the backward pass measured.
        options: `reverse` is read.
        inputs: [T, B, …]; output: [T, B, H].
    """
    if measured is None or measured.device.type != "cpu":  # elsewhere a look would have to wait for the device
        return None
    if math.isfinite(measured.sum().item()) or bool(measured.isfinite().all()):  # the sum alone is quicker
        return None
    for what, values in (("input", inputs), ("state", output)):
        if values.is_floating_point() and (steps := _faulty(values)):
            return Fault(what, steps[-1] if options.reverse else steps[0])
    steps = _faulty(measured.transpose(0, 2))  # errors go the other way
    return Fault("error", steps[0] if options.reverse else steps[-1])


def _faulty(by_step: Tensor) -> list[int]:
    return torch.nonzero(~by_step.flatten(1).isfinite().all(1)).flatten().tolist()

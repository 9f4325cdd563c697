"""Where a value of a pass was first not finite: looked for at once (`find`), or when it is asked for (`later`)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportPrivateUsage=false
# (much of what is used of torch here is not annotated)

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from ..flow import Fault
from .options import Options

_FEW = 64


def find(measured: Tensor | None, options: Options, inputs: Tensor, output: Tensor) -> Fault | None:
    """The first step at fault, or None where every error is finite.

    Args:
        measured: [2, B, T], what the backward pass measured.
        options: `reverse` is read.
        inputs: [T, B, …]; output: [T, B, H].
    """
    if measured is None or measured.device.type != "cpu":  # elsewhere a look would have to wait for the device
        return None
    # The sum alone is quicker, and of a few numbers it is quickest without torch.
    total = sum(measured.flatten().tolist()) if measured.numel() <= _FEW else measured.sum().item()
    if math.isfinite(total) or bool(measured.isfinite().all()):
        return None
    for what, values in (("input", inputs), ("state", output)):
        if values.is_floating_point() and (steps := _faulty(values)):
            return Fault(what, steps[-1] if options.reverse else steps[0])
    steps = _faulty(measured.transpose(0, 2))  # errors go the other way
    return Fault("error", steps[0] if options.reverse else steps[-1])


def later(measured: Tensor, options: Options, inputs: Tensor, output: Tensor) -> Callable[[], Fault | None]:
    """The same as a question to ask later: no tensor is read now, which on a GPU would have to wait for it.

    It keeps the largest |value| of each step, which is finite where all of them are.
    """
    largest = torch.stack([_largest(inputs, output), _largest(output, output)])
    return functools.partial(_read, measured, options, largest)


def _largest(values: Tensor, like: Tensor) -> Tensor:
    if not values.is_floating_point():
        return like.new_zeros(len(values))
    return cast(Any, torch.linalg).vector_norm(values.detach().flatten(1), math.inf, dim=1)


def _read(measured: Tensor, options: Options, largest: Tensor) -> Fault | None:
    if measured.is_meta:
        return None
    return find(measured.cpu(), options, *largest.cpu().unsqueeze(-1))


def _faulty(by_step: Tensor) -> list[int]:
    return torch.nonzero(~by_step.flatten(1).isfinite().all(1)).flatten().tolist()

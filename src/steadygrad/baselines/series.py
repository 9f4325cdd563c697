"""Inputs and targets of an estimator as tensors of known shape: what may be given, and the sentence for what may not.

inputs   [T, B, I] or [T, I] floats, or integer tokens [T, B] or [T]         → [T, B, I] or [T, B]
targets  [S, B, O] or [S, O] floats, or integer classes [S, B] or [S]        → [S, B, O], one-hot for classes
steps    a slice of the T steps, of S steps                                  → first, stop
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def read_inputs(given: Any, input_size: int | None) -> tuple[Tensor, bool]:
    """The inputs, time first and batched; and whether one sequence alone was given."""
    sequence = torch.as_tensor(given)
    tokens = not sequence.is_floating_point()
    if sequence.dim() not in ((1, 2) if tokens else (2, 3)) or 0 in sequence.shape:
        wanted = "[T, B] or [T] tokens" if tokens else "[T, B, I] or [T, I]"
        raise ValueError(f"inputs must be {wanted} with a step and a sequence at least, not {list(sequence.shape)}")
    is_alone = sequence.dim() == (1 if tokens else 2)
    sequence = sequence.unsqueeze(1) if is_alone else sequence
    if tokens:
        if input_size is None:
            raise ValueError("input_size must be given for integer tokens: how many there are")
        return _below("inputs", "tokens", sequence, input_size), is_alone
    if input_size not in (None, sequence.shape[2]):
        raise ValueError(f"inputs must have {input_size} channels (input_size), not {sequence.shape[2]}")
    return _finite("inputs", sequence), is_alone


def read_targets(given: Any, steps: int, batch: int, output_size: int | None) -> tuple[Tensor, bool]:
    """The targets [S, B, O], and whether they are classes."""
    targets = torch.as_tensor(given).detach()
    is_class = not targets.is_floating_point()
    if is_class:
        if output_size is None:
            raise ValueError("output_size must be given for integer classes: how many there are")
        targets = F.one_hot(_below("targets", "classes", targets, output_size), output_size).double()
    if targets.dim() == 2:
        targets = targets.unsqueeze(1)
    if targets.shape[:2] != (steps, batch) or targets.dim() != 3 or output_size not in (None, targets.shape[2]):
        wanted = f"[{steps}, {batch}, {'O' if output_size is None else output_size}]"
        raise ValueError(f"targets must be {wanted} to go with inputs and steps, not {list(targets.shape)}")
    return _finite("targets", targets), is_class


def read_steps(steps: slice | None, total: int) -> tuple[int, int]:
    """The first of the steps and the one after the last."""
    if steps is None:
        return 0, total
    if not isinstance(steps, slice):
        raise TypeError(f"steps must be a slice of the {total} steps or None, not {steps!r}")
    first, stop, stride = steps.indices(total)
    if stride != 1 or first >= stop:
        raise ValueError(f"steps must be a run of neighbours among the {total} steps, not {steps!r}")
    return first, stop


def nrmse(outputs: Any, targets: Any) -> float:
    """√(mean (y − d)² / variance of d), over all entries: 0 is perfect, 1 is what the mean of the targets scores.

    >>> nrmse([0.0, 0.0], [1.0, -1.0])
    1.0
    """
    y, d = (torch.as_tensor(given).detach().double() for given in (outputs, targets))
    if y.shape != d.shape:
        raise ValueError(f"outputs must have the shape of targets, {list(d.shape)}, not {list(y.shape)}")
    return ((y - d).square().mean() / d.var(unbiased=False)).sqrt().item()


def _below(name: str, kind: str, given: Tensor, number: int) -> Tensor:
    low, high = (int(given.min()), int(given.max())) if given.numel() else (0, 0)
    if low < 0 or high >= number:
        raise ValueError(f"{name} must be {kind} in 0 … {number - 1}, not in {low} … {high}")
    return given.long()


def _finite(name: str, given: Tensor) -> Tensor:
    bad = int((~given.isfinite()).sum())
    if bad:
        raise ValueError(f"{name} must be finite, and {bad} of {given.numel()} entries are not")
    return given

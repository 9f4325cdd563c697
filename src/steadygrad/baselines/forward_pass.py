"""What a user's `forward(batch)` must return, and that it does.

    forward("gradient"), forward("curvature")  ->  (outputs, targets)  or  (outputs, targets, hidden)

outputs: a tensor that depends on the parameters. targets: what the loss takes. hidden: a tensor of hidden states of every step
[T, B, H], or a list of tensors: one for each layer, or one for each step [B, H].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from steadygrad.checks import WrongTypeError

from . import output_losses

BatchKind = Literal["gradient", "curvature"]
Forward = Callable[[BatchKind], Any]


class Pass(NamedTuple):
    """What one call of `forward` returned, and the loss of it."""

    outputs: Tensor
    targets: Any
    hidden: tuple[Tensor, ...]
    loss: Tensor


def checked(forward: Any) -> Forward:
    """`forward`, if it can be called."""
    if not callable(forward):
        raise WrongTypeError(
            "forward must be a function that takes 'gradient' or 'curvature' and returns (outputs, targets) or "
            f"(outputs, targets, hidden), not {forward!r}"
        )
    return forward


def run(
    forward: Forward, kind: BatchKind, loss: str | output_losses.OutputLoss, *, needs_hidden: bool, needs_graph: bool
) -> Pass:
    """Call `forward`, with gradients where `needs_graph`, and check what comes back."""
    with torch.set_grad_enabled(needs_graph):
        returned = forward(kind)
        if not isinstance(returned, (tuple, list)) or len(returned) not in (2, 3):
            raise WrongTypeError(
                f"forward must return (outputs, targets) or (outputs, targets, hidden), not {_described(returned)}"
            )
        outputs, targets = returned[0], returned[1]
        if not isinstance(outputs, Tensor) or not outputs.is_floating_point() or outputs.dim() == 0:
            raise WrongTypeError(
                "forward must return outputs that are a floating-point tensor with at least one axis, "
                f"not {_described(outputs)}"
            )
        if needs_graph and not outputs.requires_grad:
            raise ValueError(
                "forward must return outputs computed from the parameters with gradients, and these are detached"
            )
        hidden = _hidden(returned[2] if len(returned) == 3 else None, needs_graph) if needs_hidden else ()
        return Pass(outputs, targets, hidden, output_losses.value(loss, outputs, targets))


def _hidden(given: Any, needs_graph: bool) -> tuple[Tensor, ...]:
    parts = (given,) if isinstance(given, Tensor) else given
    if not isinstance(parts, (tuple, list)) or not parts or not all(isinstance(part, Tensor) for part in parts):
        raise WrongTypeError(
            "forward must return (outputs, targets, hidden) where structural is above 0, hidden a tensor of the states "
            f"of every step or a list of tensors, not {_described(given)}"
        )
    if any(part.dim() < 2 for part in parts):
        raise ValueError("forward must return hidden states of shape [T, B, H] or [B, H], and these have fewer axes")
    if needs_graph and not all(part.requires_grad for part in parts):
        raise ValueError(
            "forward must return hidden states computed from the parameters with gradients, and these are detached"
        )
    return tuple(parts)


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and {value.dtype}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__}"

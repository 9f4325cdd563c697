"""The last state of a plain layer and its weights' gradients, without autograd's bookkeeping around the kernel's two calls.

    h_T = layer(u)[1]                                    [1, B, H]
    .grad of every weight ← ∂E/∂weight, given ∂E/∂h_T    what torch.autograd.backward(h_T, ∂E/∂h_T) leaves where .grad was None

For a training loop that works out ∂E/∂h_T by itself (experiments/network.py). The same functions are called on the same
numbers, so all bits are the same. `begin` takes what is certain to be plain, and is None for all else: call the layer then.
A hook on the node by which autograd adds to a .grad is the one thing that cannot be seen from here.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false
# (hooks of modules and tensors have no public names)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules import module as modules

from ..recurrence import direct
from ..recurrence.run import saved_tensors_are_kept_elsewhere
from . import quick
from .rnn import RNN

_FORWARD, _CALL = RNN.forward, RNN.__call__
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_compiled_call_impl")
_has_global_hook: Callable[[], bool] | None = getattr(modules, "_has_any_global_hook", None)
_is_profiling: Callable[[], bool] | None = getattr(torch.autograd, "_profiler_enabled", None)


def begin(layer: Any, input: Tensor) -> tuple[Tensor, Callable[[Tensor], None]] | None:
    """The last state, and what takes ∂E/∂ of it and leaves the weights' gradients; None where something is unusual.

    Args:
        layer: an RNN of one layer and direction, with gradients for its weights, but for the second bias.
        input: [T, B, I], or int64 tokens [T, B]; it gets no gradient.
    """
    if not torch.is_grad_enabled() or torch.compiler.is_compiling() or input.requires_grad or _is_hooked(layer):
        return None
    weights = layer._parameters.values()
    if any(weight is not None and not _is_bare(weight) for weight in weights):
        return None
    given = quick.of_training(layer, input, None)
    if given is None:
        return None
    # a frozen W_hh may leave nothing to go back to; tied weights add up, and two biases would get one tensor
    first, second, bias, second_bias = taken = given[2]
    if first is second or not second.requires_grad:
        return None
    if second_bias is not None and (second_bias is bias or second_bias.requires_grad):
        return None
    found = direct.without_autograd(*given)
    if found is None:
        return None
    last, gradients = found

    def back(grad_last: Tensor) -> None:
        for weight, gradient in zip(taken, gradients(grad_last), strict=True):
            if gradient is not None:
                weight.grad = gradient

    return last, back


def _is_hooked(layer: Any) -> bool:
    """Whether a call of the layer may be more than its forward pass."""
    if type(layer) is not RNN or RNN.forward is not _FORWARD or RNN.__call__ is not _CALL:
        return True
    held = vars(layer)
    if "forward" in held or any(held.get(name) for name in _HOOKS):
        return True
    if _has_global_hook is None or _is_profiling is None or _has_global_hook() or _is_profiling():
        return True
    return torch.is_anomaly_enabled() or saved_tensors_are_kept_elsewhere()


def _is_bare(weight: Tensor) -> bool:
    """Whether a gradient for this weight goes nowhere but into its .grad."""
    if not weight.requires_grad:
        return True
    return weight.is_leaf and not weight._backward_hooks and not getattr(weight, "_post_accumulate_grad_hooks", None)

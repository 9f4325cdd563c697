"""The commonest training pass with as little as possible around the kernel's two calls.

One plain layer in one direction, dense sequences of numbers or tokens, everything plain memory on the CPU: at T 100, batch 20
and 50 units the general way (run.py, native.py) takes a quarter of a step's time in Python. What is computed is the same, by
the same functions of the kernel. Whatever is not plain is left to the general way: `run` answers None and has done nothing, and
the backward pass asks run.py. Every address is checked at the call that reads it (see strange.py).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false
# (much of what is used of torch here is not annotated)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from ..flow import Recorder
from . import native
from . import run as general
from .options import Given, Options
from .strange import plain_address

_KINDS = {torch.float32: 4, torch.float64: 8}
_NO_GRADIENTS = native.NO_GRADIENTS


def is_for(steps: int, hidden: int, backend: str) -> bool:
    """Whether the kernel of whole sequences computes a pass of these shapes."""
    if backend == "native":
        return True
    # ONE_STEP_UNITS is the least of the widths from which on `general.quickest` may choose otherwise.
    few = steps <= general.FEW_STEPS and hidden >= general.ONE_STEP_UNITS
    return backend == "auto" and hidden <= general.NATIVE_UNITS and not few


def run(
    inputs: Tensor, h0: Tensor | None, weights: tuple[Any, ...], options: Options, recorder: Recorder | None
) -> tuple[Tensor, Tensor] | None:
    """Output [T, B, H] and the last state [1, B, H]; None where this is not for this file.

    Args:
        inputs: [T, B, I], or int64 tokens [T, B].
        h0: [B, H]; None is zeros.
        weights: weight_ih, weight_hh, and both biases or None twice.
        options: not `reverse`.
        recorder: where the backward pass leaves what it measured.
    """
    made = _forward(inputs, h0, weights, options)
    return None if made is None else _apply(inputs, h0, *weights, (*made, options, recorder))


Back = Callable[[Tensor], tuple[Tensor | None, ...]]
"""From ∂E/∂h_T [1, B, H] to the gradients of weight_ih, weight_hh and both biases; to be called once."""


def without_autograd(
    inputs: Tensor, h0: Tensor | None, weights: tuple[Any, ...], options: Options, recorder: Recorder | None
) -> tuple[Tensor, Back] | None:
    """The last state [1, B, H], for a caller who asks for the gradients himself; else as `run`. Inputs and h0 get none."""
    made = _forward(inputs, h0, weights, options)
    if made is None:
        return None
    output, last, activation = made
    tensors, version = [inputs, h0, *weights], output._version
    needs = False, False, *[weight is not None and weight.requires_grad for weight in weights]

    def back(grad_last: Tensor) -> tuple[Tensor | None, ...]:
        with torch.no_grad():
            return _go_back(tensors, activation, output, version, (None, grad_last), options, recorder, needs)[2:6]

    return last, back


def _forward(
    inputs: Tensor, h0: Tensor | None, weights: tuple[Any, ...], options: Options
) -> tuple[Tensor, Tensor, Tensor | None] | None:
    """Output, last state, and what the nonlinearity gave where units are leaky."""
    weight_ih, weight_hh, bias_ih, bias_hh = weights
    dtype = weight_hh.dtype
    kernel, size = native.library(), _KINDS.get(dtype)
    if kernel is None or size is None:
        return None
    (steps, batch, *_), (hidden, width), biased = inputs.shape, weight_ih.shape, bias_ih is not None
    x, tokens = _addresses(inputs, steps, batch, width, dtype, size)
    ih = plain_address(weight_ih, (hidden, width), hidden * width, dtype, size)
    hh = plain_address(weight_hh, (hidden, hidden), hidden * hidden, dtype, size)
    b_ih = plain_address(bias_ih, (hidden,), hidden, dtype, size) if biased else 0
    b_hh = plain_address(bias_hh, (hidden,), hidden, dtype, size) if biased else 0
    first = 0 if h0 is None else plain_address(h0, (batch, hidden), batch * hidden, dtype, size)
    if x is None or tokens is None or ih is None or hh is None or b_ih is None or b_hh is None or first is None:
        return None
    leak = options.leak
    # (here and below: torch reads sizes one by one in two thirds of the time that it takes for a tuple of them)
    output, last = torch.empty(steps, batch, hidden, dtype=dtype), torch.empty(1, batch, hidden, dtype=dtype)
    activation = torch.empty_like(output) if leak > 0 else None
    problem = native.PROBLEM.pack(
        *(steps, batch, hidden, width, native.NONLINEARITIES[options.nonlinearity], 0, leak, torch.get_num_threads()),
        *(0, x, tokens, first, ih, hh, b_ih, b_hh, output.data_ptr()),
        *(0 if activation is None else activation.data_ptr(), last.data_ptr(), *_NO_GRADIENTS),
    )
    outcome = kernel.steadygrad_forward(problem, size == 8)
    if outcome:
        native.refuse(outcome, width, hidden, steps, batch)
    return output, last, activation


def _addresses(
    inputs: Tensor, steps: int, batch: int, width: int, dtype: torch.dtype, size: int
) -> tuple[int | None, int | None]:
    """Of numbers and of tokens; 0 for those that the inputs are not, None where they are not plain."""
    if inputs.dtype is torch.int64:
        return 0, plain_address(inputs, (steps, batch), steps * batch, torch.int64, 8)
    return plain_address(inputs, (steps, batch, width), steps * batch * width, dtype, size), 0


class _DirectPass(torch.autograd.Function):
    """The node of a pass that was computed: `made` holds what came of it."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        *tensors, (output, last, activation, options, recorder) = arguments
        keeps_itself = not general.saved_tensors_are_kept_elsewhere()  # see general._Recurrence
        ctx.output, ctx.version = output.detach() if keeps_itself else None, output._version
        ctx.save_for_backward(*tensors, activation, None if keeps_itself else output)
        ctx.options, ctx.recorder = options, recorder
        ctx.set_materialize_grads(False)
        return output, last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        *tensors, activation, output = ctx.saved_tensors
        if output is None:
            output, ctx.output = ctx.output, None  # freed with the graph's other tensors
        options, recorder, needs = ctx.options, ctx.recorder, ctx.needs_input_grad
        return _go_back(tensors, activation, output, ctx.version, grads, options, recorder, needs)


# Function.apply itself looks for the wrappers of torch.func among the arguments and unwraps those of a transform that is over:
# such a tensor has no memory of its own, and `plain_address` answers None.
_apply: Any = cast(Any, super(torch.autograd.Function, _DirectPass)).apply


def _go_back(
    tensors: list[Any],
    activation: Tensor | None,
    output: Any,
    version: int,
    grads: tuple[Tensor | None, ...],
    options: Options,
    recorder: Recorder | None,
    needs: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:
    """Gradients of inputs, h0, weights and biases, and None: by the kernel, or where something is not plain the general way."""
    if not torch.is_grad_enabled() and output is not None and output._version == version:
        found = _backward(tensors, activation, output, grads, options, recorder, needs)
        if found is not None:
            return found
    inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh = tensors
    given = Given(inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, None)
    kept = general.Kept(output, version, activation)
    found = general.go_back(native, given, kept, grads, options, recorder, (*needs[:6], False, False))
    return *found[:6], None


def _backward(
    tensors: list[Any],
    activation: Tensor | None,
    output: Tensor,
    grads: tuple[Tensor | None, ...],
    options: Options,
    recorder: Recorder | None,
    needs: tuple[bool, ...],
) -> tuple[Tensor | None, ...] | None:
    """Gradients of inputs, h0, weights and biases, and None; None alone where something is not plain."""
    inputs, h0, weight_ih, weight_hh, _, _ = tensors
    grad_output, grad_last = grads
    dtype, kernel = weight_hh.dtype, native.library()
    (steps, batch, *_), (hidden, width) = inputs.shape, weight_ih.shape
    pairs, size, sequence = steps * batch, _KINDS[dtype], (steps, batch, hidden)
    x, tokens = _addresses(inputs, steps, batch, width, dtype, size)
    ih = plain_address(weight_ih, (hidden, width), hidden * width, dtype, size)
    hh = plain_address(weight_hh, (hidden, hidden), hidden * hidden, dtype, size)
    first = 0 if h0 is None else plain_address(h0, (batch, hidden), batch * hidden, dtype, size)
    states = plain_address(output, sequence, pairs * hidden, dtype, size)
    active = 0 if activation is None else plain_address(activation, sequence, pairs * hidden, dtype, size)
    of_output = 0 if grad_output is None else plain_address(grad_output, sequence, pairs * hidden, dtype, size)
    of_last = 0 if grad_last is None else plain_address(grad_last, (1, batch, hidden), batch * hidden, dtype, size)
    if x is None or tokens is None or ih is None or hh is None or first is None or states is None or active is None:
        return None
    if of_output is None or of_last is None or kernel is None:
        return None
    wants_x, wants_h0, wants_ih, wants_hh, wants_bias_ih, wants_bias_hh = needs[:6]
    alpha = options.alpha if wants_hh else 0.0
    measured: Tensor | None = None
    if recorder is not None:
        measured = recorder.room(batch, steps)
    elif alpha > 0:
        measured = torch.empty(2, batch, steps, dtype=torch.float64)
    grad_x = torch.empty(steps, batch, width, dtype=dtype) if wants_x else None
    grad_h0 = torch.empty(batch, hidden, dtype=dtype) if wants_h0 else None
    grad_ih = torch.empty(hidden, width, dtype=dtype) if wants_ih else None
    grad_hh = torch.empty(hidden, hidden, dtype=dtype) if wants_hh else None
    bias = torch.empty(hidden, dtype=dtype) if wants_bias_ih or wants_bias_hh else None
    errors = 0 if measured is None else measured.data_ptr()
    problem = native.PROBLEM.pack(
        *(steps, batch, hidden, width, native.NONLINEARITIES[options.nonlinearity], 0, options.leak),
        *(torch.get_num_threads(), 0, x, tokens, first, ih, hh, 0, 0, states, active, 0),
        *(native.CONVENTIONS[options.convention], alpha),
        math.inf if options.clip_error is None else options.clip_error,
        *(of_output, of_last),
        0 if grad_x is None else grad_x.data_ptr(),
        0 if grad_h0 is None else grad_h0.data_ptr(),
        0 if grad_ih is None else grad_ih.data_ptr(),
        0 if grad_hh is None else grad_hh.data_ptr(),
        0 if bias is None else bias.data_ptr(),
        *(errors, errors + 8 * pairs if errors else 0),
    )
    outcome = kernel.steadygrad_backward(problem, size == 8)
    if outcome and outcome != native.NOT_FINITE:
        native.refuse(outcome, width, hidden, steps, batch)
    if recorder is not None and measured is not None:
        at_fault = None
        if outcome:
            from . import fault  # of values that are not finite alone

            at_fault = fault.find(measured, options, inputs, output)
        recorder.record(measured, options, None, at_fault)
    biases = bias if wants_bias_ih else None, bias if wants_bias_hh else None
    return grad_x, grad_h0, grad_ih, grad_hh, *biases, None

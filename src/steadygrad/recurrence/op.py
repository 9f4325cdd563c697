"""The recurrence as an opaque operator, `torch.ops.steadygrad.recurrence`, for code under torch.compile.

A compiled graph holds tensors, numbers and strings only, so the options are spelled out and the recorder is named by its
number. Eager code does not come here: an autograd.Function is quicker than a dispatched operator.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from ..flow import Recorder
from . import bptt, native
from .options import Given, Gradients, Options, Saved, Wanted

_ENGINES: dict[str, Any] = {"native": native, "torch": bptt}
_NOBODY = -1


def run(given: Given, options: Options, recorder: Recorder | None, backend: str) -> tuple[Tensor, Tensor]:
    number = _NOBODY if recorder is None else recorder.number
    output, last, _ = torch.ops.steadygrad.recurrence(*given, *_spelled(options), number, backend)
    return output, last


def _spelled(options: Options) -> tuple[str, float, bool, float, str, float | None]:
    return (
        options.nonlinearity,
        options.leak,
        options.reverse,
        options.alpha,
        options.convention,
        options.clip_error,
    )


@torch.library.custom_op("steadygrad::recurrence", mutates_args=())
def recurrence(
    inputs: Tensor,
    h0: Tensor | None,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    lengths: Tensor | None,
    nonlinearity: str,
    leak: float,
    reverse: bool,
    alpha: float,
    convention: str,
    clip_error: float | None,
    recorder: int,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """Output, last state, and the activation that leaky units need on the way back (empty for others)."""
    options = Options(nonlinearity, leak, reverse, alpha, convention, clip_error)
    given = Given(inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths)
    saved, last = _ENGINES[backend].forward(given, options)
    activation = saved.activation if saved.activation is not None else saved.output.new_empty(0)
    return saved.output, last, activation


@cast(Any, recurrence).register_fake
def _shapes(inputs: Tensor, h0: Any, weight_ih: Tensor, weight_hh: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    leak = rest[4]
    output = weight_hh.new_empty(inputs.shape[0], inputs.shape[1], weight_hh.shape[0])
    return output, torch.empty_like(output[:1]), torch.empty_like(output) if leak > 0 else output.new_empty(0)


@torch.library.custom_op("steadygrad::recurrence_backward", mutates_args=())
def recurrence_backward(
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    inputs: Tensor,
    h0: Tensor | None,
    weight_ih: Tensor,
    weight_hh: Tensor,
    lengths: Tensor | None,
    output: Tensor,
    activation: Tensor,
    wanted: list[bool],
    nonlinearity: str,
    leak: float,
    reverse: bool,
    alpha: float,
    convention: str,
    clip_error: float | None,
    recorder: int,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the inputs, h0, both weights and the biases; empty where not wanted."""
    options = Options(nonlinearity, leak, reverse, alpha, convention, clip_error)
    saved = Saved(inputs, h0, weight_ih, weight_hh, lengths, output, activation if leak > 0 else None)
    listener = Recorder.numbered(recorder)
    found: Gradients = _ENGINES[backend].backward(saved, grad_output, grad_last, options, Wanted(*wanted), listener)
    if listener is not None and found.measured is not None:
        listener.record(found.measured, options, lengths)
    given = (found.inputs, found.h0, found.weight_ih, found.weight_hh, found.bias)
    first, second, third, fourth, fifth = (output.new_empty(0) if each is None else each.contiguous() for each in given)
    return first, second, third, fourth, fifth


@cast(Any, recurrence_backward).register_fake
def _gradient_shapes(
    grad_output: Any,
    grad_last: Any,
    inputs: Tensor,
    h0: Any,
    weight_ih: Tensor,
    weight_hh: Tensor,
    lengths: Any,
    output: Tensor,
    activation: Tensor,
    wanted: list[bool],
    *rest: Any,
) -> tuple[Tensor, ...]:
    shapes = (inputs.shape, output.shape[1:], weight_ih.shape, weight_hh.shape, weight_hh.shape[:1])
    return tuple(output.new_empty(shape if want else (0,)) for want, shape in zip(wanted, shapes, strict=True))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    sequence, h0, weight_ih, weight_hh, _, _, lengths, *options = inputs
    ctx.save_for_backward(sequence, h0, weight_ih, weight_hh, lengths, output[0], output[2])
    ctx.options = options
    ctx.set_materialize_grads(False)


def _go_back(ctx: Any, grad_output: Tensor | None, grad_last: Tensor | None, _: Any) -> tuple[Any, ...]:
    needs = ctx.needs_input_grad
    wanted = [needs[0], needs[1], needs[2], needs[3], needs[4] or needs[5]]
    found = torch.ops.steadygrad.recurrence_backward(grad_output, grad_last, *ctx.saved_tensors, wanted, *ctx.options)
    inputs, h0, weight_ih, weight_hh, bias = (each if want else None for each, want in zip(found, wanted, strict=True))
    bias_ih, bias_hh = bias if needs[4] else None, bias if needs[5] else None
    return inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, None, *[None] * len(ctx.options)


cast(Any, recurrence).register_autograd(_go_back, setup_context=_keep)

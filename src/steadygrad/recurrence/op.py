"""The recurrence as an opaque operator, `torch.ops.steadygrad.recurrence`, for code under torch.compile.

A compiled graph holds tensors, numbers and strings only, so the options are spelled out. α and the recorder's number come as
tensors: as numbers they would be constants of the graph, and every other layer, or another α, would be compiled anew.
Eager code does not come here: an autograd.Function is quicker than a dispatched operator.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from ..flow import Recorder
from . import fault
from .options import Given, Gradients, Options, Saved, Wanted

_NOBODY = -1


def run(given: Given, options: Options, recorder: Recorder | None, backend: str) -> tuple[Tensor, tuple[Tensor, ...]]:
    number = torch.tensor(_NOBODY) if recorder is None else recorder.number
    alpha = options.alpha if isinstance(options.alpha, Tensor) else torch.tensor(options.alpha, dtype=torch.float64)
    output, last, last_c, *_ = torch.ops.steadygrad.recurrence(*given, alpha, number, *_spelled(options), backend)
    return output, (last, last_c) if options.mode == "LSTM" else (last,)


def _spelled(options: Options) -> tuple[str, float, bool, str, float | None, str]:
    nonlinearity, leak, reverse, _, convention, clip_error, mode = options
    return nonlinearity, leak, reverse, convention, clip_error, mode


def _engine(mode: str, backend: str) -> Any:
    from .run import ENGINES  # that module imports this one

    return ENGINES[mode, backend]


@torch.library.custom_op("steadygrad::recurrence", mutates_args=())
def recurrence(
    inputs: Tensor,
    h0: Tensor | None,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    lengths: Tensor | None,
    c0: Tensor | None,
    alpha: Tensor,
    recorder: Tensor,
    nonlinearity: str,
    leak: float,
    reverse: bool,
    convention: str,
    clip_error: float | None,
    mode: str,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Output, last state (h and c), and what the way back needs of leaky and gated cells; empty where there is none."""
    options = Options(nonlinearity, leak, reverse, alpha.item(), convention, clip_error, mode)
    given = Given(inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, c0)
    saved, last = _engine(mode, backend).forward(given, options)
    last_c = last[1] if len(last) > 1 else None
    c, activation, memory = (
        saved.output.new_empty(0) if each is None else each for each in (last_c, saved.activation, saved.memory)
    )
    return saved.output, last[0], c, activation, memory


@cast(Any, recurrence).register_fake
def _shapes(inputs: Tensor, h0: Any, weight_ih: Tensor, weight_hh: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    leak, mode = rest[7], rest[11]
    steps, batch, units = inputs.shape[0], inputs.shape[1], weight_hh.shape[1]

    def empty(*shape: Any) -> Tensor:
        return weight_hh.new_empty(shape)

    none = empty(0)
    if mode == "RNN":
        activation, memory = empty(steps, batch, units) if leak > 0 else none, empty(0)
    else:
        activation, memory = empty(steps, batch, weight_hh.shape[0]), empty(steps, batch, units)
    last_c = empty(1, batch, units) if mode == "LSTM" else empty(0)
    return empty(steps, batch, units), empty(1, batch, units), last_c, activation, memory


@torch.library.custom_op("steadygrad::recurrence_backward", mutates_args=())
def recurrence_backward(
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    grad_last_c: Tensor | None,
    inputs: Tensor,
    h0: Tensor | None,
    weight_ih: Tensor,
    weight_hh: Tensor,
    lengths: Tensor | None,
    c0: Tensor | None,
    output: Tensor,
    activation: Tensor,
    memory: Tensor,
    alpha: Tensor,
    recorder: Tensor,
    wanted: list[bool],
    nonlinearity: str,
    leak: float,
    reverse: bool,
    convention: str,
    clip_error: float | None,
    mode: str,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the inputs, h0, both weights, both biases and c0; empty where not wanted."""
    options = Options(nonlinearity, leak, reverse, alpha.item(), convention, clip_error, mode)
    kept = (each if each.numel() else None for each in (activation, memory))
    saved = Saved(inputs, h0, weight_ih, weight_hh, lengths, output, next(kept), c0, next(kept))
    listener = Recorder.numbered(int(recorder))
    back = _engine(mode, backend).backward
    found: Gradients = back(saved, grad_output, (grad_last, grad_last_c), options, Wanted(*wanted), listener)
    if listener is not None and found.measured is not None:
        look = fault.find if backend == "native" else fault.later
        at_fault = look(found.measured, options, inputs, output)
        listener.record(found.measured, options, lengths, at_fault)
    bias_hh = found.bias if found.bias_hh is None else found.bias_hh
    if bias_hh is not None and bias_hh is found.bias:
        bias_hh = bias_hh.clone()  # an operator must not return one tensor twice
    given = (found.inputs, found.h0, found.weight_ih, found.weight_hh, found.bias, bias_hh, found.c0)
    return cast(Any, tuple(output.new_empty(0) if each is None else each.contiguous() for each in given))


@cast(Any, recurrence_backward).register_fake
def _gradient_shapes(
    grad_output: Any,
    grad_last: Any,
    grad_last_c: Any,
    inputs: Tensor,
    h0: Any,
    weight_ih: Tensor,
    weight_hh: Tensor,
    lengths: Any,
    c0: Any,
    output: Tensor,
    activation: Tensor,
    memory: Tensor,
    alpha: Any,
    recorder: Any,
    wanted: list[bool],
    *rest: Any,
) -> tuple[Tensor, ...]:
    state, bias = output.shape[1:], weight_hh.shape[:1]
    shapes = (inputs.shape, state, weight_ih.shape, weight_hh.shape, bias, bias, state)
    wants = (*wanted[:5], wanted[4], wanted[5])
    return tuple(output.new_empty(shape if want else (0,)) for want, shape in zip(wants, shapes, strict=True))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    sequence, h0, weight_ih, weight_hh, _, _, lengths, c0, alpha, recorder, *options = inputs
    states, _, _, activation, memory = output
    ctx.save_for_backward(sequence, h0, weight_ih, weight_hh, lengths, c0, states, activation, memory, alpha, recorder)
    ctx.options = options
    ctx.set_materialize_grads(False)


def _go_back(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
    needs = ctx.needs_input_grad
    wanted = [needs[0], needs[1], needs[2], needs[3], needs[4] or needs[5], needs[7]]
    found = torch.ops.steadygrad.recurrence_backward(*grads[:3], *ctx.saved_tensors, wanted, *ctx.options)
    inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, c0 = found
    gradients = (inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, None, c0)
    chosen = tuple(each if need else None for each, need in zip(gradients, needs[: len(gradients)], strict=True))
    return (*chosen, *[None] * (2 + len(ctx.options)))


cast(Any, recurrence).register_autograd(_go_back, setup_context=_keep)

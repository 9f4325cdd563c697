"""GRU and LSTM through the C++ kernel (kernel/gated.cpp), called by ctypes. CPU, float32 and float64.

The equations are in kernel/gated_cells.hpp; the headers kernel/problem.hpp and kernel/gated.hpp describe what is passed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..flow import Recorder
from . import native
from .native import GatedProblem, made
from .options import GATES, STATES, Given, Gradients, Options, Saved, Wanted
from .strange import Memory


def forward(given: Given, options: Options) -> tuple[Saved, tuple[Tensor, ...]]:
    """What the backward pass needs; and the last state, each part [1, B, H]."""
    inputs, weight_hh, gates = given.inputs, given.weight_hh, GATES[options.mode]
    (steps, batch, *_), hidden, dtype = inputs.shape, weight_hh.shape[1], weight_hh.dtype
    output = torch.empty(steps, batch, hidden, dtype=dtype)
    last = [torch.empty(1, batch, hidden, dtype=dtype) for _ in range(STATES[options.mode])]
    activation, inner = torch.empty(steps, batch, gates * hidden, dtype=dtype), torch.empty_like(output)
    saved = Saved(inputs, given.h0, given.weight_ih, weight_hh, given.lengths, output, activation, given.c0, inner)
    memory = Memory()
    problem = _problem(saved, options, memory)
    if given.bias_ih is not None and given.bias_hh is not None:
        problem.bias_ih = memory.address("bias_ih", given.bias_ih, (gates * hidden,), dtype)
        problem.bias_hh = memory.address("bias_hh", given.bias_hh, (gates * hidden,), dtype)
    problem.last, problem.last_c = ([made(part) for part in last] + [None])[:2]
    native.call("steadygrad_gated_forward", problem, dtype)
    return saved, tuple(last)


def backward(
    saved: Saved,
    grad_output: Tensor | None,
    grad_last: tuple[Tensor | None, ...],
    options: Options,
    wanted: Wanted,
    recorder: Recorder | None,
) -> Gradients:
    """Gradients of what is wanted; Ω's immediate derivative is part of weight_hh's."""
    is_lstm, rows = options.mode == "LSTM", saved.weight_hh.shape[0]
    inputs, weight_ih, weight_hh, dtype = saved.inputs, saved.weight_ih, saved.weight_hh, saved.weight_hh.dtype
    (steps, batch, *_), hidden = inputs.shape, weight_hh.shape[1]
    memory = Memory()
    problem = _problem(saved, options, memory)
    problem.grad_output = memory.address("grad_output", grad_output, (steps, batch, hidden), dtype)
    problem.grad_last = memory.address("grad_last", grad_last[0], (1, batch, hidden), dtype)
    if is_lstm:
        problem.grad_last_c = memory.address("grad_last_c", grad_last[1], (1, batch, hidden), dtype)
    problem.alpha = options.alpha if wanted.weight_hh else 0.0
    problem.convention = native.CONVENTIONS[options.convention]
    problem.clip_error = math.inf if options.clip_error is None else options.clip_error

    measured = recorder.room(batch, steps) if recorder is not None else None
    if measured is None and problem.alpha > 0:
        measured = torch.empty(2, batch, steps, dtype=torch.float64)
    if measured is not None:
        first = memory.address("measured", measured, (2, batch, steps), torch.float64)
        problem.error_sq, problem.back_sq = first, (first or 0) + batch * steps * measured.element_size()
    grads = Gradients(
        torch.empty(inputs.shape, dtype=dtype) if wanted.inputs else None,
        torch.empty(batch, hidden, dtype=dtype) if wanted.h0 else None,
        torch.empty(weight_ih.shape, dtype=dtype) if wanted.weight_ih else None,
        torch.empty(weight_hh.shape, dtype=dtype) if wanted.weight_hh else None,
        torch.empty(rows, dtype=dtype) if wanted.bias else None,
        measured,
        torch.empty(batch, hidden, dtype=dtype) if wanted.c0 and is_lstm else None,
        torch.empty(rows, dtype=dtype) if wanted.bias and not is_lstm else None,
    )
    problem.grad_x, problem.grad_h0, problem.grad_c0 = made(grads.inputs), made(grads.h0), made(grads.c0)
    problem.grad_weight_ih, problem.grad_weight_hh = made(grads.weight_ih), made(grads.weight_hh)
    problem.grad_bias, problem.grad_bias_hh = made(grads.bias), made(grads.bias_hh)
    native.call("steadygrad_gated_backward", problem, dtype)
    return grads


def _problem(saved: Saved, options: Options, memory: Memory) -> GatedProblem:
    """The fields both directions share."""
    inputs, h0, weight_ih, weight_hh, lengths, output, activation, c0, inner = saved
    (steps, batch, *_), (rows, hidden), dtype = inputs.shape, weight_hh.shape, weight_hh.dtype
    width, sequence = weight_ih.shape[1], (steps, batch, hidden)
    x = tokens = None
    if inputs.is_floating_point():
        x = memory.address("input", inputs, (steps, batch, width), dtype)
    else:
        tokens = memory.address("input", inputs, (steps, batch), torch.int64)
    # In the order of the fields: filled one by one, they would take three times as long.
    return GatedProblem(
        *(steps, batch, hidden, width, 0, options.reverse, 0.0, torch.get_num_threads()),
        *(memory.address("lengths", lengths, (batch,), torch.int64), x, tokens),
        memory.address("h0", h0, (batch, hidden), dtype),
        memory.address("weight_ih", weight_ih, (rows, width), dtype),
        memory.address("weight_hh", weight_hh, (rows, hidden), dtype),
        *(None, None, memory.address("output", output, sequence, dtype)),
        memory.address("activation", activation, (steps, batch, rows), dtype),
        *(None, 0, 0.0, math.inf, *[None] * 9, GATES[options.mode]),
        memory.address("c0", c0, (batch, hidden), dtype) if options.mode == "LSTM" else None,
        memory.address("memory", inner, sequence, dtype),
    )

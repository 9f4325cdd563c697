"""GRU and LSTM through the C++ kernel (kernel/gated.cpp), called by ctypes. CPU, float32 and float64.

The equations are in kernel/gated_cells.hpp; the headers kernel/problem.hpp and kernel/gated.hpp describe what is passed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..flow import Recorder
from .native import CONVENTIONS, GATED_PROBLEM, NO_GRADIENTS, call, made, shared_fields
from .options import GATES, STATES, Given, Gradients, Options, Saved, Wanted
from .strange import Memory


def forward(given: Given, options: Options) -> tuple[Saved, tuple[Tensor, ...]]:
    """What the backward pass needs; and the last state, each part [1, B, H]."""
    inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, c0 = given
    (steps, batch, *_), (rows, hidden), dtype = inputs.shape, weight_hh.shape, weight_hh.dtype
    output = torch.empty(steps, batch, hidden, dtype=dtype)
    activation, inner = torch.empty(steps, batch, rows, dtype=dtype), torch.empty_like(output)
    last = tuple([torch.empty(1, batch, hidden, dtype=dtype) for _ in range(STATES[options.mode])])
    memory = Memory()
    problem = GATED_PROBLEM.pack(
        *shared_fields(inputs, h0, weight_ih, weight_hh, lengths, options, memory),
        memory.address("bias_ih", bias_ih, (rows,), dtype),
        memory.address("bias_hh", bias_hh, (rows,), dtype),
        *(made(output), made(activation), made(last[0]), *NO_GRADIENTS, GATES[options.mode]),
        memory.address("c0", c0, (batch, hidden), dtype),
        *(made(inner), made(last[1]) if len(last) > 1 else 0, True, 0, 0, 0),
    )
    call("steadygrad_gated_forward", problem, inputs, weight_ih, weight_hh)
    return Saved(inputs, h0, weight_ih, weight_hh, lengths, output, activation, c0, inner), last


def backward(
    saved: Saved,
    grad_output: Tensor | None,
    grad_last: tuple[Tensor | None, ...],
    options: Options,
    wanted: Wanted,
    recorder: Recorder | None,
) -> Gradients:
    """Gradients of what is wanted; Ω's immediate derivative is part of weight_hh's."""
    inputs, h0, weight_ih, weight_hh, lengths, output, activation, c0, inner, by_slice = saved
    (steps, batch, *_), (rows, hidden), dtype = inputs.shape, weight_hh.shape, weight_hh.dtype
    is_lstm, memory, sequence = options.mode == "LSTM", Memory(), (steps, batch, hidden)
    alpha = options.alpha if wanted.weight_hh else 0.0
    measured = recorder.room(batch, steps) if recorder is not None else None
    if measured is None and alpha > 0:
        measured = torch.empty(2, batch, steps, dtype=torch.float64)
    errors = made(measured)
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
    problem = GATED_PROBLEM.pack(
        *shared_fields(inputs, h0, weight_ih, weight_hh, lengths, options, memory),
        *(0, 0, memory.address("output", output, sequence, dtype)),
        memory.address("activation", activation, (steps, batch, rows), dtype),
        *(0, CONVENTIONS[options.convention], alpha, math.inf if options.clip_error is None else options.clip_error),
        memory.address("grad_output", grad_output, sequence, dtype),
        memory.address("grad_last", grad_last[0], (1, batch, hidden), dtype),
        *[made(grad) for grad in grads[:5]],
        *(errors, errors + 8 * batch * steps if errors else 0, GATES[options.mode]),
        memory.address("c0", c0, (batch, hidden), dtype),
        *(memory.address("memory", inner, sequence, dtype), 0, by_slice),
        memory.address("grad_last_c", grad_last[1], (1, batch, hidden), dtype) if is_lstm else 0,
        *(made(grads.c0), made(grads.bias_hh)),
    )
    call("steadygrad_gated_backward", problem, inputs, weight_ih, weight_hh)
    return grads

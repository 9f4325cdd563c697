"""GRU and LSTM through the C++ kernel (kernel/gated.cpp), called by ctypes. CPU, float32 and float64.

The equations are in kernel/gated_cells.hpp; the headers kernel/problem.hpp and kernel/gated.hpp describe what is passed.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from ctypes import c_double, c_int, c_int32, c_int64, c_void_p
from typing import overload

import torch
from torch import Tensor

from ..flow import Recorder
from . import native
from .options import Given, Gradients, Options, Saved, Wanted

_GATES = {"GRU": 3, "LSTM": 4}
_CONVENTIONS = {"paper": 0, "program": 1, "proceedings": 2}
_TOKEN_OUT_OF_RANGE, _NO_MEMORY = 1, 2


class _GatedProblem(ctypes.Structure):
    """Mirror of steadygrad::GatedProblem, field by field: those of steadygrad::Problem, then its own."""

    _fields_ = [
        *[(name, c_int64) for name in ("steps", "batch", "hidden", "inputs")],
        *[(name, c_int32) for name in ("nonlinearity", "reverse")],
        ("leak", c_double),
        ("threads", c_int64),
        *[(name, c_void_p) for name in ("lengths", "x", "tokens", "h0", "weight_ih", "weight_hh")],
        *[(name, c_void_p) for name in ("bias_ih", "bias_hh", "output", "activation", "last")],
        ("convention", c_int64),
        *[(name, c_double) for name in ("alpha", "clip_error")],
        *[(name, c_void_p) for name in ("grad_output", "grad_last", "grad_x", "grad_h0", "grad_weight_ih")],
        *[(name, c_void_p) for name in ("grad_weight_hh", "grad_bias", "error_sq", "back_sq")],
        ("gates", c_int64),
        *[(name, c_void_p) for name in ("c0", "memory", "last_c", "grad_last_c", "grad_c0", "grad_bias_hh")],
    ]


@functools.cache
def library() -> ctypes.CDLL | None:
    """The kernel, or None where it was not built, or before gated cells were in it."""
    found = native.library()
    if found is None or not hasattr(found, "steadygrad_gated_bytes"):
        return None
    found.steadygrad_gated_bytes.restype = c_int64
    for call in (found.steadygrad_gated_forward, found.steadygrad_gated_backward):
        call.argtypes, call.restype = [ctypes.POINTER(_GatedProblem), c_int], c_int
    return found if found.steadygrad_gated_bytes() == ctypes.sizeof(_GatedProblem) else None


def forward(given: Given, options: Options) -> tuple[Saved, tuple[Tensor, Tensor | None]]:
    """What the backward pass needs; and the last h and c [1, B, H], of the first step where `options.reverse`."""
    inputs, weight_hh, gates = given.inputs, given.weight_hh, _GATES[options.mode]
    (steps, batch, *_), hidden, dtype = inputs.shape, weight_hh.shape[1], weight_hh.dtype
    output, last = torch.empty(steps, batch, hidden, dtype=dtype), torch.empty(1, batch, hidden, dtype=dtype)
    last_c = torch.empty_like(last) if options.mode == "LSTM" else None
    saved = Saved(
        _row_major(inputs),
        _row_major(given.h0),
        _row_major(given.weight_ih),
        _row_major(weight_hh),
        _row_major(given.lengths),
        output,
        torch.empty(steps, batch, gates * hidden, dtype=dtype),
        _row_major(given.c0),
        torch.empty_like(output),
    )
    problem = _problem(saved, options)
    bias_ih, bias_hh = _row_major(given.bias_ih), _row_major(given.bias_hh)
    if bias_ih is not None and bias_hh is not None:
        problem.bias_ih = _pointer("bias_ih", bias_ih, (gates * hidden,), dtype)
        problem.bias_hh = _pointer("bias_hh", bias_hh, (gates * hidden,), dtype)
    problem.last = _pointer("the last h", last, (1, batch, hidden), dtype)
    problem.last_c = _pointer("the last c", last_c, (1, batch, hidden), dtype)
    _call("steadygrad_gated_forward", problem, dtype)
    return saved, (last, last_c)


def backward(
    saved: Saved,
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    grad_last_c: Tensor | None,
    options: Options,
    wanted: Wanted,
    recorder: Recorder | None,
) -> Gradients:
    """Gradients of what is wanted; Ω's immediate derivative is part of weight_hh's."""
    is_lstm, gates = options.mode == "LSTM", _GATES[options.mode]
    inputs, weight_ih, weight_hh, dtype = saved.inputs, saved.weight_ih, saved.weight_hh, saved.weight_hh.dtype
    (steps, batch, *_), hidden = inputs.shape, weight_hh.shape[1]
    sequence, state = (steps, batch, hidden), (1, batch, hidden)
    problem = _problem(saved, options)
    grad_output, grad_last, grad_last_c = _row_major(grad_output), _row_major(grad_last), _row_major(grad_last_c)
    problem.grad_output = _pointer("the output's gradient", grad_output, sequence, dtype)
    problem.grad_last = _pointer("the last h's gradient", grad_last, state, dtype)
    problem.grad_last_c = _pointer("the last c's gradient", grad_last_c, state, dtype) if is_lstm else None
    problem.alpha = options.alpha if wanted.weight_hh else 0.0
    problem.convention = _CONVENTIONS[options.convention]
    problem.clip_error = math.inf if options.clip_error is None else options.clip_error

    measured = recorder.room(batch, steps) if recorder is not None else None
    if measured is None and problem.alpha > 0:
        measured = torch.empty(2, batch, steps, dtype=torch.float64)
    if measured is not None:
        start = _pointer("the recorder's room", measured, (2, batch, steps), torch.float64)
        assert start is not None
        problem.error_sq, problem.back_sq = start, start + 8 * steps * batch
    rows = gates * hidden
    grads = Gradients(
        torch.empty_like(inputs) if wanted.inputs else None,
        torch.empty(batch, hidden, dtype=dtype) if wanted.h0 else None,
        torch.empty_like(weight_ih) if wanted.weight_ih else None,
        torch.empty_like(weight_hh) if wanted.weight_hh else None,
        torch.empty(rows, dtype=dtype) if wanted.bias else None,
        measured,
        torch.empty(batch, hidden, dtype=dtype) if wanted.c0 and is_lstm else None,
        torch.empty(rows, dtype=dtype) if wanted.bias and not is_lstm else None,
    )
    problem.grad_x = _pointer("grad inputs", grads.inputs, inputs.shape, dtype)
    problem.grad_h0 = _pointer("grad h0", grads.h0, (batch, hidden), dtype)
    problem.grad_c0 = _pointer("grad c0", grads.c0, (batch, hidden), dtype)
    problem.grad_weight_ih = _pointer("grad weight_ih", grads.weight_ih, weight_ih.shape, dtype)
    problem.grad_weight_hh = _pointer("grad weight_hh", grads.weight_hh, weight_hh.shape, dtype)
    problem.grad_bias = _pointer("grad bias", grads.bias, (rows,), dtype)
    problem.grad_bias_hh = _pointer("grad bias_hh", grads.bias_hh, (rows,), dtype)
    _call("steadygrad_gated_backward", problem, dtype)
    return grads


def _problem(saved: Saved, options: Options) -> _GatedProblem:
    """The fields both directions share. Whoever calls keeps `saved`, whose memory they point to."""
    gates = _GATES[options.mode]
    (steps, batch, *_), hidden, dtype = saved.inputs.shape, saved.weight_hh.shape[1], saved.weight_hh.dtype
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"backend='native' computes in torch.float32 or torch.float64, not in {dtype}")
    width, rows, is_lstm = saved.weight_ih.shape[1], gates * hidden, options.mode == "LSTM"
    x = tokens = None
    if saved.inputs.is_floating_point():
        x = _pointer("the layer's input", saved.inputs, (steps, batch, width), dtype)
    else:
        tokens = _pointer("the layer's input", saved.inputs, (steps, batch), torch.int64)
    # In the order of the fields: filled one by one, they would take three times as long.
    return _GatedProblem(
        *(steps, batch, hidden, width, 0, options.reverse, 0.0, torch.get_num_threads()),
        *(_pointer("lengths", saved.lengths, (batch,), torch.int64), x, tokens),
        _pointer("h0", saved.h0, (batch, hidden), dtype),
        _pointer("weight_ih", saved.weight_ih, (rows, width), dtype),
        _pointer("weight_hh", saved.weight_hh, (rows, hidden), dtype),
        *(None, None, _pointer("output", saved.output, (steps, batch, hidden), dtype)),
        _pointer("the saved gates", saved.activation, (steps, batch, rows), dtype),
        *(None, 0, 0.0, math.inf, *[None] * 9, gates),
        _pointer("c0", saved.c0, (batch, hidden), dtype) if is_lstm else None,
        _pointer("the saved memory", saved.memory, (steps, batch, hidden), dtype),
    )


@overload
def _row_major(tensor: Tensor) -> Tensor: ...
@overload
def _row_major(tensor: None) -> None: ...
def _row_major(tensor: Tensor | None) -> Tensor | None:
    if tensor is None:
        return None
    return (tensor.resolve_neg() if tensor.is_neg() else tensor).contiguous()


def _pointer(name: str, tensor: Tensor | None, shape: Sequence[int], dtype: torch.dtype) -> int | None:
    """Where a tensor's memory begins, once it is certain that the kernel may read or write as much of it as `shape` says."""
    if tensor is None:
        return None
    size = math.prod(shape) * tensor.element_size()
    if (
        type(tensor)
        in (Tensor, torch.nn.Parameter)  # another type may have no memory, or memory that means something else
        and tensor.shape == shape
        and tensor.dtype == dtype
        and tensor.is_cpu
        and tensor.is_contiguous()
        and not tensor.is_neg()  # its numbers are kept with the other sign
        and tensor.untyped_storage().nbytes() >= tensor.storage_offset() * tensor.element_size() + size
    ):
        return tensor.data_ptr()
    raise ValueError(
        f"{name} must be a contiguous torch.Tensor of {dtype} and shape {tuple(shape)} on the CPU for backend='native', "
        f"not {type(tensor).__name__} of {tensor.dtype} and shape {tuple(tensor.shape)} on {tensor.device}"
    )


def _call(name: str, problem: _GatedProblem, dtype: torch.dtype) -> None:
    kernel = library()
    if kernel is None:
        raise RuntimeError(native.HOW_TO_GET_IT)
    outcome = getattr(kernel, name)(ctypes.byref(problem), int(dtype == torch.float64))
    if outcome == _TOKEN_OUT_OF_RANGE:
        raise IndexError(f"input holds a token outside 0 … {problem.inputs - 1} (input_size is {problem.inputs})")
    if outcome == _NO_MEMORY:
        raise MemoryError(
            f"no memory for a layer of {problem.hidden} units over {problem.steps} steps and {problem.batch} sequences"
        )

"""The recurrence through the C++ kernel (kernel/recurrence.cpp), called by ctypes. CPU, float32 and float64.

Same equations, same signature as bptt.py; the header kernel/problem.hpp describes what is passed.
"""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from ..flow import Recorder
from .options import Given, Gradients, Options, Saved, Wanted
from .strange import Memory

_SUFFIXES = (".so", ".dylib", ".dll")
NONLINEARITIES = {"tanh": 0, "relu": 1, "sigmoid": 2, "identity": 3}
CONVENTIONS = {"paper": 0, "program": 1, "proceedings": 2}
_TOKEN_OUT_OF_RANGE, _NO_MEMORY, NOT_FINITE = 1, 2, 3
"""Outcomes of the kernel. NOT_FINITE is one of a backward pass that is done: a squared norm is infinite or NaN."""

HOW_TO_GET_IT = (
    "backend='native' needs the C++ kernel, which was not built when steadygrad was installed: install a C++17 compiler "
    "(g++ or clang++) and run 'pip install --force-reinstall --no-deps steadygrad'"
)


# steadygrad::Problem (kernel/problem.hpp) and steadygrad::GatedProblem (kernel/gated.hpp), field by field, to be filled in one
# go: a ctypes structure takes several times as long, as long as a small layer's step. 0 is C's null.
_FIELDS = "=4q2idq8q3qq2d9q"
PROBLEM, GATED_PROBLEM = struct.Struct(_FIELDS), struct.Struct(_FIELDS + "8q")


@functools.cache
def library() -> ctypes.CDLL | None:
    """The kernel, or None where it was not built."""
    folder = Path(__file__).parent.parent / "kernel"
    for path in (folder / f"recurrence{suffix}" for suffix in _SUFFIXES):
        if not path.exists():
            continue
        found = ctypes.CDLL(str(path))
        if not hasattr(found, "steadygrad_infer"):  # left over from an earlier version
            continue
        found.steadygrad_isa.restype = ctypes.c_char_p
        sizes = (found.steadygrad_problem_bytes, found.steadygrad_gated_bytes)
        for size in sizes:
            size.restype = ctypes.c_int64
        for name in ("forward", "backward", "gated_forward", "gated_backward", "infer"):
            call = getattr(found, f"steadygrad_{name}")
            call.argtypes, call.restype = [ctypes.c_char_p, ctypes.c_int], ctypes.c_int
        if [size() for size in sizes] == [PROBLEM.size, GATED_PROBLEM.size]:
            return found
    return None


@cast(Any, torch.compiler).assume_constant_result
def is_built() -> bool:
    """Whether the kernel is there. A compiled graph takes the answer for granted."""
    return library() is not None


def instruction_set() -> str | None:
    """'avx512', 'avx2' or 'baseline': what the kernel uses on this machine; None where it was not built."""
    kernel = library()
    return kernel.steadygrad_isa().decode() if kernel else None


def forward(given: Given, options: Options) -> tuple[Saved, tuple[Tensor]]:
    inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, _ = given
    (steps, batch, *_), (hidden, _), dtype = inputs.shape, weight_hh.shape, weight_hh.dtype
    output, last = torch.empty(steps, batch, hidden, dtype=dtype), torch.empty(1, batch, hidden, dtype=dtype)
    activation = torch.empty_like(output) if options.leak > 0 else None
    memory = Memory()
    problem = PROBLEM.pack(
        *shared_fields(inputs, h0, weight_ih, weight_hh, lengths, options, memory),
        memory.address("bias_ih", bias_ih, (hidden,), dtype),
        memory.address("bias_hh", bias_hh, (hidden,), dtype),
        *(made(output), made(activation), made(last), *NO_GRADIENTS),
    )
    call("steadygrad_forward", problem, inputs, weight_ih, weight_hh)
    return Saved(inputs, h0, weight_ih, weight_hh, lengths, output, activation), (last,)


NO_GRADIENTS = (0, 0.0, math.inf, *[0] * 9)
"""What the backward pass has of its own, in a forward pass: convention, α, clip_error, and addresses."""


def backward(
    saved: Saved,
    grad_output: Tensor | None,
    grad_last: tuple[Tensor | None, ...],
    options: Options,
    wanted: Wanted,
    recorder: Recorder | None,
) -> Gradients:
    inputs, h0, weight_ih, weight_hh, lengths, output, activation, *_ = saved
    (steps, batch, *_), (hidden, width), dtype = inputs.shape, weight_ih.shape, weight_hh.dtype
    memory, sequence = Memory(), (steps, batch, hidden)
    alpha = options.alpha if wanted.weight_hh else 0.0
    measured = recorder.room(batch, steps) if recorder is not None else None
    if measured is None and alpha > 0:
        measured = torch.empty(2, batch, steps, dtype=torch.float64)
    errors = made(measured)
    grads = Gradients(
        torch.empty(inputs.shape, dtype=dtype) if wanted.inputs else None,
        torch.empty(batch, hidden, dtype=dtype) if wanted.h0 else None,
        torch.empty(hidden, width, dtype=dtype) if wanted.weight_ih else None,
        torch.empty(hidden, hidden, dtype=dtype) if wanted.weight_hh else None,
        torch.empty(hidden, dtype=dtype) if wanted.bias else None,
        measured,
    )
    problem = PROBLEM.pack(
        *shared_fields(inputs, h0, weight_ih, weight_hh, lengths, options, memory),
        *(0, 0, memory.address("output", output, sequence, dtype)),
        *(memory.address("activation", activation, sequence, dtype), 0, CONVENTIONS[options.convention], alpha),
        math.inf if options.clip_error is None else options.clip_error,
        memory.address("grad_output", grad_output, sequence, dtype),
        memory.address("grad_last", grad_last[0], (1, batch, hidden), dtype),
        *[made(grad) for grad in grads[:5]],
        *(errors, errors + 8 * batch * steps if errors else 0),
    )
    call("steadygrad_backward", problem, inputs, weight_ih, weight_hh)
    return grads


def shared_fields(
    inputs: Tensor,
    h0: Tensor | None,
    weight_ih: Tensor,
    weight_hh: Tensor,
    lengths: Tensor | None,
    options: Options,
    memory: Memory,
) -> tuple[Any, ...]:
    """The first fields, up to weight_hh, which both directions and all cells share."""
    (steps, batch, *_), (rows, hidden), width = inputs.shape, weight_hh.shape, weight_ih.shape[1]
    dtype, x, tokens = weight_hh.dtype, 0, 0
    if inputs.is_floating_point():
        x = memory.address("input", inputs, (steps, batch, width), dtype)
    else:
        tokens = memory.address("input", inputs, (steps, batch), torch.int64)
    return (
        *(steps, batch, hidden, width, NONLINEARITIES[options.nonlinearity], options.reverse, options.leak),
        *(torch.get_num_threads(), memory.address("lengths", lengths, (batch,), torch.int64), x, tokens),
        memory.address("h0", h0, (batch, hidden), dtype),
        memory.address("weight_ih", weight_ih, (rows, width), dtype),
        memory.address("weight_hh", weight_hh, (rows, hidden), dtype),
    )


def made(tensor: Tensor | None) -> int:
    """The address of a tensor that was made for this call alone; 0 for None."""
    return 0 if tensor is None else tensor.data_ptr()


def call(name: str, problem: bytes, inputs: Tensor, weight_ih: Tensor, weight_hh: Tensor) -> None:
    """Runs one function of the kernel; its outcome, where it failed, as an exception."""
    dtype = weight_hh.dtype
    outcome = getattr(_library_for(dtype), name)(problem, dtype is torch.float64)
    if outcome:
        refuse(outcome, weight_ih.shape[1], weight_hh.shape[1], *inputs.shape[:2])


def _library_for(dtype: torch.dtype) -> ctypes.CDLL:
    kernel = library()
    if kernel is None:
        raise RuntimeError(HOW_TO_GET_IT)
    if dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f"backend='native' computes in torch.float32 or torch.float64, not in {dtype}")
    return kernel


def refuse(outcome: int, inputs: int, hidden: int, steps: int, batch: int) -> None:
    """The exception that an outcome of the kernel other than 0 stands for."""
    if outcome == _TOKEN_OUT_OF_RANGE:
        raise IndexError(f"input holds a token outside 0 … {inputs - 1} (input_size is {inputs})")
    if outcome == _NO_MEMORY:
        raise MemoryError(f"no memory for a layer of {hidden} units over {steps} steps and {batch} sequences")

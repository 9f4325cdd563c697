"""The recurrence through the C++ kernel (kernel/recurrence.cpp), called by ctypes. CPU, float32 and float64.

Same equations, same signature as bptt.py; the header kernel/problem.hpp describes what is passed.
"""

from __future__ import annotations

import ctypes
import functools
import math
from ctypes import c_double, c_int, c_int32, c_int64, c_void_p
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
_TOKEN_OUT_OF_RANGE, _NO_MEMORY = 1, 2

HOW_TO_GET_IT = (
    "backend='native' needs the C++ kernel, which was not built when steadygrad was installed: install a C++17 compiler "
    "(g++ or clang++) and run 'pip install --force-reinstall --no-deps steadygrad'"
)


FIELDS: list[tuple[str, Any]] = [
    *[(name, c_int64) for name in ("steps", "batch", "hidden", "inputs")],
    ("nonlinearity", c_int32),
    ("reverse", c_int32),
    ("leak", c_double),
    ("threads", c_int64),
    *[(name, c_void_p) for name in ("lengths", "x", "tokens", "h0", "weight_ih", "weight_hh", "bias_ih", "bias_hh")],
    ("output", c_void_p),
    ("activation", c_void_p),
    ("last", c_void_p),
    ("convention", c_int64),
    ("alpha", c_double),
    ("clip_error", c_double),
    *[(name, c_void_p) for name in ("grad_output", "grad_last", "grad_x", "grad_h0", "grad_weight_ih")],
    *[(name, c_void_p) for name in ("grad_weight_hh", "grad_bias", "error_sq", "back_sq")],
]
"""Of steadygrad::Problem (kernel/problem.hpp), one by one."""


class _Problem(ctypes.Structure):
    """Mirror of steadygrad::Problem."""

    _fields_ = FIELDS


class GatedProblem(ctypes.Structure):
    """Mirror of steadygrad::GatedProblem (kernel/gated.hpp): the fields of steadygrad::Problem, then its own."""

    _fields_ = [
        *FIELDS,
        ("gates", c_int64),
        *[(name, c_void_p) for name in ("c0", "memory", "last_c", "grad_last_c", "grad_c0", "grad_bias_hh")],
    ]


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
            size.restype = c_int64
        for call, problem in (
            (found.steadygrad_forward, _Problem),
            (found.steadygrad_backward, _Problem),
            (found.steadygrad_gated_forward, GatedProblem),
            (found.steadygrad_gated_backward, GatedProblem),
        ):
            call.argtypes, call.restype = [ctypes.POINTER(problem), c_int], c_int
        # What inference.py packs number by number.
        found.steadygrad_infer.argtypes, found.steadygrad_infer.restype = [ctypes.c_char_p, c_int], c_int
        if [size() for size in sizes] == [ctypes.sizeof(_Problem), ctypes.sizeof(GatedProblem)]:
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
    saved = Saved(inputs, h0, weight_ih, weight_hh, lengths, output, activation)
    memory = Memory()
    problem = _problem(saved, options, memory)
    if bias_ih is not None and bias_hh is not None:
        problem.bias_ih = memory.address("bias_ih", bias_ih, (hidden,), dtype)
        problem.bias_hh = memory.address("bias_hh", bias_hh, (hidden,), dtype)
    problem.last = memory.address("last", last, last.shape, dtype)
    call("steadygrad_forward", problem, dtype)
    return saved, (last,)


def backward(
    saved: Saved,
    grad_output: Tensor | None,
    grad_last: tuple[Tensor | None, ...],
    options: Options,
    wanted: Wanted,
    recorder: Recorder | None,
) -> Gradients:
    memory = Memory()
    problem = _problem(saved, options, memory)
    inputs, _, weight_ih, weight_hh, _, output, *_ = saved
    problem.grad_output = memory.address("grad_output", grad_output, output.shape, weight_hh.dtype)
    problem.grad_last = memory.address("grad_last", grad_last[0], (1, *output.shape[1:]), weight_hh.dtype)
    problem.alpha = options.alpha if wanted.weight_hh else 0.0
    problem.convention = CONVENTIONS[options.convention]
    problem.clip_error = math.inf if options.clip_error is None else options.clip_error

    (steps, batch, *_), hidden, dtype = inputs.shape, problem.hidden, weight_hh.dtype
    measured = recorder.room(batch, steps) if recorder is not None else None
    if measured is None and problem.alpha > 0:
        measured = torch.empty(2, batch, steps, dtype=torch.float64)
    if measured is not None:
        problem.error_sq = memory.address("measured", measured, (2, batch, steps), torch.float64)
        problem.back_sq = memory.address("measured", measured[1], (batch, steps), torch.float64)
    grads = Gradients(
        torch.empty(inputs.shape, dtype=dtype) if wanted.inputs else None,
        torch.empty(batch, hidden, dtype=dtype) if wanted.h0 else None,
        torch.empty(weight_ih.shape, dtype=dtype) if wanted.weight_ih else None,
        torch.empty(hidden, hidden, dtype=dtype) if wanted.weight_hh else None,
        torch.empty(hidden, dtype=dtype) if wanted.bias else None,
        measured,
    )
    problem.grad_x, problem.grad_h0 = made(grads.inputs), made(grads.h0)
    problem.grad_weight_ih, problem.grad_weight_hh = made(grads.weight_ih), made(grads.weight_hh)
    problem.grad_bias = made(grads.bias)
    call("steadygrad_backward", problem, dtype)
    return grads


def _problem(saved: Saved, options: Options, memory: Memory) -> _Problem:
    """The fields both directions share."""
    inputs, h0, weight_ih, weight_hh, lengths, output, activation, *_ = saved
    (steps, batch, *_), (hidden, width), dtype = inputs.shape, weight_ih.shape, weight_hh.dtype
    x = tokens = None
    if inputs.is_floating_point():
        x = memory.address("input", inputs, (steps, batch, width), dtype)
    else:
        tokens = memory.address("input", inputs, (steps, batch), torch.int64)
    # In the order of the fields: filled one by one, they would take three times as long.
    return _Problem(
        *(steps, batch, hidden, width, NONLINEARITIES[options.nonlinearity], options.reverse, options.leak),
        *(torch.get_num_threads(), memory.address("lengths", lengths, (batch,), torch.int64), x, tokens),
        memory.address("h0", h0, (batch, hidden), dtype),
        memory.address("weight_ih", weight_ih, (hidden, width), dtype),
        memory.address("weight_hh", weight_hh, (hidden, hidden), dtype),
        *(None, None, memory.address("output", output, (steps, batch, hidden), dtype)),
        memory.address("activation", activation, (steps, batch, hidden), dtype),
    )


def made(tensor: Tensor | None) -> int | None:
    """The address of a tensor that was made for this call alone."""
    return None if tensor is None else tensor.data_ptr()


def call(name: str, problem: Any, dtype: torch.dtype) -> None:
    """Runs one function of the kernel; its outcome, where it failed, as an exception."""
    kernel = library()
    if kernel is None:
        raise RuntimeError(HOW_TO_GET_IT)
    if dtype not in (torch.float32, torch.float64):
        raise RuntimeError(f"backend='native' computes in torch.float32 or torch.float64, not in {dtype}")
    outcome = getattr(kernel, name)(ctypes.byref(problem), int(dtype == torch.float64))
    if outcome:
        refuse(outcome, problem.inputs, problem.hidden, problem.steps, problem.batch)


def refuse(outcome: int, inputs: int, hidden: int, steps: int, batch: int) -> None:
    """The exception that an outcome of the kernel other than 0 stands for."""
    if outcome == _TOKEN_OUT_OF_RANGE:
        raise IndexError(f"input holds a token outside 0 … {inputs - 1} (input_size is {inputs})")
    if outcome == _NO_MEMORY:
        raise MemoryError(f"no memory for a layer of {hidden} units over {steps} steps and {batch} sequences")

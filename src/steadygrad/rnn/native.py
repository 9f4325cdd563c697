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

from .options import Given, Gradients, Options, Saved, Wanted

_SUFFIXES = (".so", ".dylib", ".dll")
_NONLINEARITIES = {"tanh": 0, "relu": 1, "sigmoid": 2, "identity": 3}
_CONVENTIONS = {"paper": 0, "program": 1}
_TOKEN_OUT_OF_RANGE, _NO_MEMORY = 1, 2

HOW_TO_GET_IT = (
    "backend='native' needs the C++ kernel, which was not built when steadygrad was installed: install a C++17 compiler "
    "(g++ or clang++) and run 'pip install --force-reinstall --no-deps steadygrad'"
)


class _Problem(ctypes.Structure):
    """Mirror of steadygrad::Problem, field by field."""

    _fields_ = [
        *[(name, c_int64) for name in ("steps", "batch", "hidden", "inputs")],
        ("nonlinearity", c_int32),
        ("reverse", c_int32),
        ("leak", c_double),
        ("threads", c_int64),
        *[
            (name, c_void_p)
            for name in ("lengths", "x", "tokens", "h0", "weight_ih", "weight_hh", "bias_ih", "bias_hh")
        ],
        ("output", c_void_p),
        ("activation", c_void_p),
        ("convention", c_int64),
        ("alpha", c_double),
        ("clip_error", c_double),
        *[(name, c_void_p) for name in ("grad_output", "grad_last", "grad_x", "grad_h0", "grad_weight_ih")],
        *[(name, c_void_p) for name in ("grad_weight_hh", "grad_bias", "error_sq", "back_sq")],
    ]


@functools.cache
def library() -> ctypes.CDLL | None:
    """The kernel, or None where it was not built."""
    folder = Path(__file__).parent.parent / "kernel"
    for path in (folder / f"recurrence{suffix}" for suffix in _SUFFIXES):
        if not path.exists():
            continue
        found = ctypes.CDLL(str(path))
        found.steadygrad_isa.restype = ctypes.c_char_p
        found.steadygrad_problem_bytes.restype = c_int64
        for call in (found.steadygrad_forward, found.steadygrad_backward):
            call.argtypes, call.restype = [ctypes.POINTER(_Problem), c_int], c_int
        if found.steadygrad_problem_bytes() == ctypes.sizeof(_Problem):  # else: left over from another version
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


def forward(given: Given, options: Options) -> Saved:
    inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths = given
    steps, batch = inputs.shape[:2]
    hidden = weight_hh.shape[0]
    output = torch.empty(steps, batch, hidden, dtype=weight_hh.dtype)
    activation = torch.empty_like(output) if options.leak > 0 else None
    saved = Saved(inputs.contiguous(), h0, weight_ih.contiguous(), weight_hh.contiguous(), lengths, output, activation)
    problem, kept = _problem(saved, options)
    bias_ih, bias_hh = _row_major(bias_ih), _row_major(bias_hh)
    problem.bias_ih, problem.bias_hh = _address(bias_ih), _address(bias_hh)
    _call("steadygrad_forward", problem, weight_hh.dtype)
    del kept
    return saved


def backward(
    saved: Saved, grad_output: Tensor | None, grad_last: Tensor | None, options: Options, wanted: Wanted, measure: bool
) -> Gradients:
    problem, kept = _problem(saved, options)
    weight_ih, weight_hh = saved.weight_ih, saved.weight_hh
    grad_output, grad_last = _row_major(grad_output), _row_major(grad_last)
    problem.grad_output, problem.grad_last = _address(grad_output), _address(grad_last)
    problem.alpha = options.alpha if wanted.weight_hh else 0.0
    problem.convention = _CONVENTIONS[options.convention]
    problem.clip_error = math.inf if options.clip_error is None else options.clip_error

    steps, batch = saved.inputs.shape[:2]
    measured = torch.empty(2, steps, batch, dtype=torch.float64) if measure or problem.alpha > 0 else None
    if measured is not None:
        problem.error_sq = measured.data_ptr()
        problem.back_sq = problem.error_sq + 8 * steps * batch
    grads = Gradients(
        inputs=torch.empty_like(saved.inputs) if wanted.inputs else None,
        h0=torch.empty(batch, weight_hh.shape[0], dtype=weight_hh.dtype) if wanted.h0 else None,
        weight_ih=torch.empty_like(weight_ih) if wanted.weight_ih else None,
        weight_hh=torch.empty_like(weight_hh) if wanted.weight_hh else None,
        bias=torch.empty_like(weight_hh[0]) if wanted.bias else None,
        measured=measured,
    )
    problem.grad_x, problem.grad_h0 = _address(grads.inputs), _address(grads.h0)
    problem.grad_weight_ih, problem.grad_weight_hh = _address(grads.weight_ih), _address(grads.weight_hh)
    problem.grad_bias = _address(grads.bias)
    _call("steadygrad_backward", problem, weight_hh.dtype)
    del kept
    return grads


def _problem(saved: Saved, options: Options) -> tuple[_Problem, list[Tensor | None]]:
    """The fields both directions share, and the tensors that must outlive the call."""
    steps, batch = saved.inputs.shape[:2]
    problem = _Problem(steps, batch, saved.weight_hh.shape[0], saved.weight_ih.shape[1])
    problem.nonlinearity = _NONLINEARITIES[options.nonlinearity]
    problem.reverse, problem.leak = options.reverse, options.leak
    problem.threads = torch.get_num_threads()
    h0 = _row_major(saved.h0)
    problem.lengths, problem.h0 = _address(saved.lengths), _address(h0)
    if saved.inputs.is_floating_point():
        problem.x = saved.inputs.data_ptr()
    else:
        problem.tokens = saved.inputs.data_ptr()
    problem.weight_ih, problem.weight_hh = saved.weight_ih.data_ptr(), saved.weight_hh.data_ptr()
    problem.output, problem.activation = saved.output.data_ptr(), _address(saved.activation)
    return problem, [h0]


def _row_major(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _call(name: str, problem: _Problem, dtype: torch.dtype) -> None:
    kernel = library()
    if kernel is None:
        raise RuntimeError(HOW_TO_GET_IT)
    outcome = getattr(kernel, name)(ctypes.byref(problem), int(dtype == torch.float64))
    if outcome == _TOKEN_OUT_OF_RANGE:
        raise IndexError(f"input holds a token outside 0 … {problem.inputs - 1} (input_size is {problem.inputs})")
    if outcome == _NO_MEMORY:
        raise MemoryError(
            f"no memory for a layer of {problem.hidden} units over {problem.steps} steps and {problem.batch} sequences"
        )

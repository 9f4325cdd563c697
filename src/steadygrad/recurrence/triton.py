"""The recurrence of the plain layer through Triton (triton_kernels.py): for GPUs, float32 and float64, up to 128 units.

Same equations and signature as bptt.py. Each of the two loops over time is one launch, with W_hh in registers; what does not
depend on the order of steps is shared with bptt.py, in torch's products over all steps: W_ih x before the loop, after it the
norms of the errors, Ω's factors and the weight gradients, dW_hh = Σ_k δ_k ⊗ (h_{k−1} + α f_k u_k).

It was never run on a device: it is tested by Triton's interpreter, which computes with the CPU what the kernels say, and
compiled for devices that are not there. So nobody knows how fast it is, and `auto` does not take it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
from typing import Any, cast

import torch
from torch import Tensor

from ..checks import WrongInputError
from ..flow import Recorder
from . import bptt
from .options import Given, Gradients, Options, Saved, Wanted

MOST_UNITS = 128
"""A thread keeps one column of W_hh in its registers (in float64 a half): 128 numbers of 4 bytes, of 255 registers it has."""
ROWS_INTERPRETED = 16
"""Sequences per program in the interpreter, whose time goes by programs. On a device it is 1: the most programs at once."""

HOW_TO_GET_IT = "backend='triton' needs Triton, which is not installed: pip install 'steadygrad[triton]'"
NEVER_TIMED = "tested by Triton's interpreter, never run or timed on a device"


@functools.cache
def _is_found() -> bool:
    return importlib.util.find_spec("triton") is not None


@cast(Any, torch.compiler).assume_constant_result
def is_installed() -> bool:
    """Whether Triton is there. A compiled graph takes the answer for granted."""
    return _is_found()


@cast(Any, torch.compiler).assume_constant_result
def is_interpreted() -> bool:
    """Whether the kernels are interpreted on the CPU: TRITON_INTERPRET=1 was set before Triton was first imported."""
    if not os.environ.get("TRITON_INTERPRET"):
        return False
    from . import triton_kernels  # loads Triton, which takes seconds

    return triton_kernels.are_interpreted()


def check_mode(mode: str) -> None:
    """Refuses cells that have no kernel, and a machine without Triton."""
    if mode != "RNN":
        raise WrongInputError(
            f"backend must be 'auto', 'reference', 'torch' or 'native' for {mode}, not 'triton', which computes sg.RNN alone"
        )
    if not is_installed():
        raise RuntimeError(HOW_TO_GET_IT)


def check_device(weight_hh: Tensor) -> None:
    """Refuses a layer that is not on a GPU, unless the kernels are interpreted."""
    if not (weight_hh.is_cuda or (weight_hh.is_cpu and is_interpreted()) or weight_hh.is_meta):
        raise RuntimeError(
            f"backend='triton' needs the layer on a CUDA device, and it is on {weight_hh.device}: move it there with "
            "layer.to('cuda'), or take backend='auto'"
        )


def fits(weight_hh: Tensor) -> bool:
    """Whether the kernels compute this layer; if not, torch operations do."""
    small = weight_hh.shape[1] <= MOST_UNITS and not weight_hh.is_meta
    return small and weight_hh.dtype in (torch.float32, torch.float64)


def warps(units: int, number_bytes: int) -> int:
    """How many warps of 32 threads hold a matrix of `units` by `units`: one column for each 4 bytes of a number."""
    return max(1, units * number_bytes // 4 // 32)


def forward(given: Given, options: Options) -> tuple[Saved, tuple[Tensor]]:
    inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, _ = given
    bias = bias_ih + bias_hh if bias_ih is not None and bias_hh is not None else None
    projected = bptt.project(inputs, weight_ih, bias)
    output = torch.empty_like(projected)
    activation = torch.empty_like(projected) if options.leak > 0 else None
    last = projected.new_empty(1, *projected.shape[1:])
    steps, batch, hidden = projected.shape
    stride = batch * hidden
    _launch(
        "forward_kernel",
        weight_hh,
        batch,
        projected=projected,
        output=output,
        activation=activation,
        last=last,
        h0=_plain_or_none(h0),
        weight=_plain(weight_hh.T),
        lengths=_plain_or_none(lengths),
        steps=steps,
        first=(steps - 1) * stride if options.reverse else 0,
        stride=-stride if options.reverse else stride,
        SIGMA=options.nonlinearity,
        LEAK=float(options.leak),
        REVERSE=options.reverse,
    )
    return Saved(inputs, h0, weight_ih, weight_hh, lengths, output, activation), (last,)


def backward(
    saved: Saved,
    grad_output: Tensor | None,
    grad_last: tuple[Tensor | None, ...],
    options: Options,
    wanted: Wanted,
    recorder: Recorder | None,
) -> Gradients:
    measure = recorder is not None or (options.alpha > 0 and wanted.weight_hh)
    values = _plain(saved.output if saved.activation is None else saved.activation)
    deltas, h0_error = torch.empty_like(values), torch.empty_like(values[0])
    arrived = torch.empty_like(values) if measure else None
    # Where the state is x, its error is δ.
    errors = torch.empty_like(values) if measure and options.state_is_after else None
    steps, batch, hidden = values.shape
    stride = batch * hidden
    _launch(
        "backward_kernel",
        saved.weight_hh,
        batch,
        values=values,
        grad_output=_plain_or_none(grad_output),
        grad_last=_plain_or_none(grad_last[0]),
        deltas=deltas,
        arrived=arrived,
        errors=errors,
        h0_error=h0_error,
        weight=_plain(saved.weight_hh),
        lengths=_plain_or_none(saved.lengths),
        steps=steps,
        first=0 if options.reverse else (steps - 1) * stride,
        stride=stride if options.reverse else -stride,
        SIGMA=options.nonlinearity,
        LEAK=float(options.leak),
        CLIP=None if options.clip_error is None else float(options.clip_error),
        REVERSE=options.reverse,
        AFTER=options.state_is_after,
    )
    norms = bptt.norm(deltas if errors is None else errors) if measure else None
    return bptt.gradients(saved, bptt.Errors(deltas, arrived, norms, h0_error), options, wanted)


def _plain(tensor: Tensor) -> Tensor:
    """Row by row without gaps, as the kernels read it: a gradient may come expanded or negated lazily."""
    return tensor.detach().resolve_neg().contiguous()


def _plain_or_none(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else _plain(tensor)


def _launch(name: str, weight_hh: Tensor, batch: int, **arguments: Any) -> None:
    from . import triton_kernels

    hidden = weight_hh.shape[1]
    units = 1 << (hidden - 1).bit_length()
    rows = min(ROWS_INTERPRETED, 1 << (batch - 1).bit_length()) if is_interpreted() else 1
    kernel: Any = getattr(triton_kernels, name)
    with torch.cuda.device(weight_hh.device) if weight_hh.is_cuda else contextlib.nullcontext():
        kernel[(-(-batch // rows),)](
            **arguments,
            batch=batch,
            hidden=hidden,
            ROWS=rows,
            UNITS=units,
            num_warps=warps(units, weight_hh.element_size()),
        )

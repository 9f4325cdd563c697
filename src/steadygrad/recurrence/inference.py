"""A forward pass without gradients, through all layers and directions in one call of the C++ kernel (kernel/inference.cpp).

For one step at a time (generation, control, reinforcement learning) and other short passes: no autograd node, nothing kept for
a way back, and weights that are read where they lie. Nothing is remembered between calls, so that weights may be changed in any
way. Whatever is not plain memory on the CPU, or is watched or transformed, is left to the general way (run.py): `run` answers
None and has done nothing.
"""

# pyright: reportUnknownVariableType=false
# (much of what is used of torch here is not annotated)

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from . import native
from .options import GATES, Given, Options
from .strange import plain_address

_C: Any = torch._C  # pyright: ignore[reportPrivateUsage]
_functorch: Any = getattr(_C, "_functorch", None)
_forward_ad: Any = torch.autograd.forward_ad
_jit: Any = torch.jit
_dispatch_modes: Any = getattr(_C, "_len_torch_dispatch_stack", None)
_function_modes: Any = getattr(_C, "_len_torch_function_stack", None)

MOST_ROWS = 64
"""Passes of gated, leaky or bidirectional layers over more (step, sequence) pairs are left to the kernel of training (run.py),
which lays the weights out first: there it pays. For the others kernel/dispatch.cpp makes that choice itself."""

WIDE, MANY_ROWS, FEW_STEPS = 512, 16, 4
"""Plain layers from this width on, with at least so many sequences and at most so many steps, are left to torch's products:
laying the weights out does not pay there, and torch's products cut large matrices to the sizes of the caches better."""

WIDE_OF_DOUBLES, SOME_ROWS, SOME_STEPS = 1024, 8, 16
"""In float64 they are, too, from this width on with so many sequences, up to `MANY_ROWS`, and at most so many steps; and from
twice this width on with any number of steps."""


class Network(NamedTuple):
    """What the layer is; its tensors are given apart."""

    mode: str
    nonlinearity: str
    leak: float
    inputs: int
    hidden: int
    layers: int
    directions: int


class Sequences(NamedTuple):
    """What the layer is given: [T, B, I] or [T, B], or packed [N, I] or [N]; N (step, sequence) pairs."""

    values: Tensor
    steps: int
    batch: int
    pairs: int
    reached: Tensor | None = None
    """[T]: how many sequences reach each step, the longest first; None: all of them."""


def is_for(network: Network, pairs: int) -> bool:
    """Whether a pass of so many (step, sequence) pairs is for this file."""
    plain = network.mode == "RNN" and network.leak == 0 and network.directions == 1
    return pairs > 0 and (plain or pairs <= MOST_ROWS)


def takes_products(network: Network, steps: int, batch: int, size: int) -> bool:
    """Whether torch's products compute the pass, in numbers of `size` bytes. Threads have no part in it: they must not change
    results."""
    plain = network.mode == "RNN" and network.leak == 0 and network.directions == 1
    if not plain or network.hidden < WIDE:
        return False
    if batch >= MANY_ROWS and steps <= FEW_STEPS:
        return True
    # a matrix as large as the caches: float64, and several sequences to use it for, but too few to share out
    if size < 8 or batch < SOME_ROWS or network.hidden < WIDE_OF_DOUBLES:
        return False
    return network.hidden >= 2 * WIDE_OF_DOUBLES or (batch < MANY_ROWS and steps <= SOME_STEPS)


def is_undisturbed() -> bool:
    """Whether nobody watches, traces or transforms what is computed now. (Who compiles never asks: layers/base.py.)"""
    if _dispatch_modes is None or _function_modes is None or _functorch is None:
        return False
    return not (
        _dispatch_modes()
        or _function_modes()
        or _functorch.peek_interpreter_stack() is not None
        or _forward_ad._current_level >= 0
        or torch.is_autocast_enabled("cpu")
        or _jit.is_tracing()
    )


def run(
    network: Network, given: Sequences, state: Sequence[Tensor], weights: Sequence[Any]
) -> tuple[Tensor, list[Tensor]] | None:
    """Output [T, B, D H] or packed [N, D H], and the last state, each part [cells, B, H]; None where it is not for this file.

    Args:
        network, given: what is computed, from what.
        state: the first state, each part [cells, B, H]; empty for zeros.
        weights: weight_ih, weight_hh and, where there are any, bias_ih and bias_hh of every layer and direction.
    """
    mode, nonlinearity, leak, inputs, hidden, layers, directions = network
    values, steps, batch, pairs, reached = given
    dtype = weights[0].dtype
    if dtype is torch.float32:
        size = 4
    elif dtype is torch.float64:
        size = 8
    else:
        return None
    kernel, parts, cells = native.library(), 2 if mode == "LSTM" else 1, layers * directions
    per_cell = len(weights) // cells
    if kernel is None or len(state) not in (0, parts) or per_cell not in (2, 4) or len(weights) != per_cell * cells:
        return None
    tokens = values.dtype is torch.int64
    before = (pairs,) if reached is not None else (steps, batch)
    at_x = plain_address(
        values, before if tokens else (*before, inputs), pairs * (1 if tokens else inputs), *_KINDS[tokens, size]
    )
    of_state = (cells, batch, hidden)
    first = [plain_address(part, of_state, cells * batch * hidden, dtype, size) for part in state]
    found = [
        plain_address(weight, *wanted, dtype, size)
        for weight, wanted in zip(weights, _shapes(network, per_cell), strict=True)
    ]
    if at_x is None or None in first or None in found:
        return None
    if reached is None and takes_products(network, steps, batch, size):
        return _by_products(network, values, state, weights)
    shape = (*before, directions * hidden)
    # Memory like a tensor's at hand is the quickest to get.
    like = state[0] if state else None
    last = [torch.empty(of_state, dtype=dtype) if like is None else torch.empty_like(like) for _ in range(parts)]
    output = torch.empty(shape, dtype=dtype) if like is None or shape != of_state else torch.empty_like(like)
    problem = _packer(len(found)).pack(
        *(steps, batch, hidden, inputs, GATES[mode], native.NONLINEARITIES[nonlinearity], layers, directions),
        *(torch.get_num_threads(), leak, 0 if reached is None else reached.data_ptr()),
        *((0, at_x) if tokens else (at_x, 0)),
        *(first[0] if first else 0, first[1] if len(first) == 2 else 0, output.data_ptr()),
        *(last[0].data_ptr(), last[1].data_ptr() if parts == 2 else 0, per_cell),
        *found,
    )
    outcome = kernel.steadygrad_infer(problem, size == 8)
    if outcome:
        native.refuse(outcome, inputs, hidden, steps, batch)
    return output, last


def _by_products(
    network: Network, values: Tensor, state: Sequence[Tensor], weights: Sequence[Any]
) -> tuple[Tensor, list[Tensor]]:
    from . import bptt  # of wide layers alone

    options, per_cell = Options(network.nonlinearity), len(weights) // network.layers
    lasts: list[Tensor] = []
    for layer in range(network.layers):
        ih, hh, *biases = weights[layer * per_cell : (layer + 1) * per_cell]
        bias_ih, bias_hh = biases or (None, None)
        h0 = state[0][layer] if state else None
        if len(values) == 1 and values.is_floating_point():
            values = _one_step(values, h0, ih, hh, biases, network.nonlinearity)
            lasts.append(values.clone())
            continue
        saved, last = bptt.forward(Given(values, h0, ih, hh, bias_ih, bias_hh, None), options)
        values = saved.output
        lasts.append(last[0])
    return values, [lasts[0] if len(lasts) == 1 else torch.cat(lasts)]


def _one_step(x: Tensor, h0: Tensor | None, ih: Tensor, hh: Tensor, biases: Sequence[Tensor], name: str) -> Tensor:
    """[1, B, H], by the very operations of torch.nn.RNN: there are no further steps to be prepared for."""
    from . import nonlinearity  # of wide layers alone

    bias_ih, bias_hh = biases or (None, None)
    a = linear(x[0], ih, bias_ih)
    if h0 is not None:
        a += linear(h0, hh, bias_hh)
    elif bias_hh is not None:
        a += bias_hh
    return nonlinearity.get(name).value_(a).unsqueeze(0)


_KINDS = {(tokens, size): (torch.int64, 8) if tokens else (torch.float32 if size == 4 else torch.float64, size)
          for tokens in (False, True) for size in (4, 8)}  # fmt: skip


@functools.cache
def _packer(addresses: int) -> struct.Struct:
    """Of steadygrad::Inference (kernel/inference.hpp), number by number, and the weights' addresses behind it."""
    return struct.Struct(f"=9qd9q{addresses}q")


@functools.lru_cache(maxsize=256)
def _shapes(network: Network, per_cell: int) -> list[tuple[tuple[int, ...], int]]:
    """Of every weight, and how many numbers that are."""
    rows, wide = GATES[network.mode] * network.hidden, network.directions * network.hidden
    found: list[tuple[tuple[int, ...], int]] = []
    for cell in range(network.layers * network.directions):
        width = network.inputs if cell < network.directions else wide
        shapes = [(rows, width), (rows, network.hidden), (rows,), (rows,)][:per_cell]
        found += [(shape, math.prod(shape)) for shape in shapes]
    return found

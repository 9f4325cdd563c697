"""One recurrent layer, read from a model and run in float64 on the CPU, without touching the model.

    s_t = F(s_{t-1}, d_t),   t = 1 … T          s [B, n],  d_t = drive(u_t)         (layer.py)

The layers below run first and supply the inputs u. Dropout is never applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..checks import whole
from .initial import initial_states, own_state
from .layer import Layer
from .own_cell import OwnCellLayer
from .plain import PlainLayer
from .reading import Source, finite, read_layer, understand


@dataclass(frozen=True)
class Trajectory:
    """A layer along T steps: inputs u [T, B, D] and drives for steps 1 … T, states s [T+1, B, n] for steps 0 … T.

    `batch` is the number of sequences that were given, of which `run` may have picked one.
    """

    layer: Layer
    u: Tensor
    drives: Tensor
    s: Tensor
    batch: int

    @property
    def steps(self) -> int:
        return self.u.shape[0]

    def slopes(self) -> Tensor:
        """σ'(a_t) of a plain layer for steps 1 … T: [T, B, H]."""
        if not isinstance(self.layer, PlainLayer):
            raise TypeError(f"slopes belong to plain layers, not to {self.layer.name}")
        return torch.stack([self.layer.slopes(s, d) for s, d in zip(self.s[:-1], self.drives, strict=True)])


@torch.no_grad()
def run(rnn: nn.Module, inputs: Tensor, h0: Any, layer: int | None, *, sample: int | None = None) -> Trajectory:
    """Layer `layer` (None: the last) along `inputs`, driven by the layers below it.

    Args:
        rnn: a layer, a cell or a wrapper around a cell (reading.py).
        inputs: [T, B, D], unbatched [T, D], or whole numbers (tokens) [T, B] or [T]; batch first if the model is. Of a
            cell of the user's: [T, B, …].
        h0: the initial state as the model takes it, or the same for all sequences of the batch; None: zeros.
        layer: which layer.
        sample: run this sequence of the batch alone.
    """
    source = understand(rnn)
    top = source.pick(layer)
    u = _time_first(source, inputs)
    if source.reverse:
        u = u.flip(0)
    batch = u.shape[1]
    if sample is not None and whole("sample", sample, low=0) >= batch:
        raise ValueError(f"sample must be below the batch size {batch}, not {sample}")
    rows = slice(None) if sample is None else slice(sample, sample + 1)
    if source.kind == "own":
        state = own_state(source.module, h0, batch)
        current = OwnCellLayer(source.module, state)
        start = finite("h0", current.join(state))
        current.check(start, u[0])
        return _along(current, 0, u[:, rows], start[rows], batch)
    starts = initial_states(source, h0, batch)
    u = u[:, rows]
    for below in range(top):
        lower = read_layer(source, below)
        u = _along(lower, below, u, starts[below][rows], batch).s[1:, :, : lower.hidden]
    return _along(read_layer(source, top), top, u, starts[top][rows], batch)


def _along(layer: Layer, place: int, u: Tensor, start: Tensor, batch: int) -> Trajectory:
    drives = layer.drive(u)
    s = [start]
    for drive in drives:
        s.append(layer.next(s[-1], drive))
    states = torch.stack(s)
    broken = ~states[1:].isfinite().flatten(1).all(1)
    if broken.any():
        first = int(broken.nonzero()[0]) + 1
        raise ValueError(
            f"the states of layer {place} must stay finite, but they overflow at step {first} of the inputs"
        )
    return Trajectory(layer, u, drives, states, batch)


def _time_first(source: Source, inputs: Tensor) -> Tensor:
    """The inputs as float64 [T, B, D], tokens as one-hot vectors (a cell of the user's gets them as they are)."""
    if not isinstance(inputs, Tensor):
        raise TypeError(f"inputs must be a torch.Tensor, not {type(inputs).__name__}")
    if source.kind == "own":
        return _time_first_of_own(source, inputs)
    size = source.weight(f"weight_ih{source.suffix(0)}").shape[1]
    tokens = not (inputs.is_floating_point() or inputs.is_complex() or inputs.dtype == torch.bool)
    dimensions = (1, 2) if tokens else (2, 3)
    if inputs.dim() not in dimensions or (not tokens and (not inputs.is_floating_point() or inputs.shape[-1] != size)):
        raise ValueError(
            f"inputs must be [T, B, {size}] or [T, {size}] of floats, or tokens [T, B] or [T], "
            f"not {str(inputs.dtype).removeprefix('torch.')} of shape {list(inputs.shape)}"
        )
    if inputs.numel() == 0:
        raise ValueError(f"inputs must hold at least one step and one sequence, not shape {list(inputs.shape)}")
    if inputs.dim() == dimensions[0]:
        inputs = inputs.unsqueeze(1)
    elif source.batch_first:
        inputs = inputs.transpose(0, 1)
    if not tokens:
        return finite("inputs", inputs)
    if int(inputs.min()) < 0 or int(inputs.max()) >= size:
        raise ValueError(
            f"inputs must hold tokens from 0 to {size - 1}, not {int(inputs.min())} to {int(inputs.max())}"
        )
    return nn.functional.one_hot(inputs.detach().cpu().long(), size).double()


def _time_first_of_own(source: Source, inputs: Tensor) -> Tensor:
    if inputs.dim() < 2 or 0 in inputs.shape or inputs.is_complex():
        raise ValueError(
            "inputs must be [T, B, …] with at least one step and one sequence, "
            f"not {str(inputs.dtype).removeprefix('torch.')} of shape {list(inputs.shape)}"
        )
    if source.batch_first:
        inputs = inputs.transpose(0, 1)
    return finite("inputs", inputs) if inputs.is_floating_point() else inputs.detach().to("cpu", copy=True)

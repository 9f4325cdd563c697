"""One recurrent layer, read from a model and run in float64 on the CPU, without touching the model.

    a_t = W_rec h_{t-1} + W_in u_t + b                  [B, H]     the paper's x_t (Pascanu et al. 2013, eq. 2)
    h_t = leak · h_{t-1} + (1 − leak) · σ(a_t)          [B, H]     leak = 0: h_t = σ(x_t)

A plain layer has two equivalent states, x_t and h_t; a leaky one only h_t, since a_t does not determine h_t. Their
Jacobians, in the column convention (the paper writes the transposes):

    ∂x_t/∂x_{t-1} = W_rec diag(σ'(x_{t-1}))
    ∂h_t/∂h_{t-1} = leak · I + (1 − leak) · diag(σ'(a_t)) W_rec
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..checks import number, whole
from .sigma import largest_slope, sigma, slope


@dataclass(frozen=True)
class Layer:
    """The numbers of one layer: W_rec [H, H], W_in [H, D], b [H] (both of torch's biases added)."""

    weight_hh: Tensor
    weight_ih: Tensor
    bias: Tensor
    nonlinearity: str
    leak: float

    def step(self, h: Tensor, drive: Tensor) -> tuple[Tensor, Tensor]:
        """(a_t, h_t) from h_{t-1} [B, H] and the drive W_in u_t + b [B, H]."""
        a = h @ self.weight_hh.T + drive
        return a, self.leak * h + (1 - self.leak) * sigma(a, self.nonlinearity)

    def jacobian(self, slopes: Tensor) -> Tensor:
        """∂h_t/∂h_{t-1} [..., H, H] where the slopes σ'(a_t) are [..., H]."""
        jacobian = (1 - self.leak) * slopes.unsqueeze(-1) * self.weight_hh
        if self.leak:
            jacobian = jacobian + self.leak * torch.eye(self.weight_hh.shape[0], dtype=jacobian.dtype)
        return jacobian

    def log_bound(self) -> float:
        """log of the bound on every Jacobian's norm: leak + (1 − leak) γ σ_max(W_rec); −inf for W_rec = 0."""
        sigma_max = torch.linalg.matrix_norm(self.weight_hh, 2).item()
        bound = self.leak + (1 - self.leak) * largest_slope(self.nonlinearity) * sigma_max
        return math.log(bound) if bound > 0 else -math.inf


@dataclass(frozen=True)
class Trajectory:
    """A layer along T steps: inputs u [T, B, D], a [T, B, H] for steps 1 … T, h [T+1, B, H] for steps 0 … T.

    `batch` is the number of sequences that were given, of which `run` may have picked one.
    """

    layer: Layer
    u: Tensor
    a: Tensor
    h: Tensor
    batch: int

    @property
    def steps(self) -> int:
        return self.a.shape[0]

    def slopes(self) -> Tensor:
        """σ'(a_t) for steps 1 … T: [T, B, H]."""
        return slope(self.a, self.layer.nonlinearity)


def square_weight(weight_hh: Tensor) -> Tensor:
    """`weight_hh` as a float64 copy on the CPU, if it is a finite square matrix."""
    if not isinstance(weight_hh, Tensor):
        raise TypeError(f"weight_hh must be a torch.Tensor, not {type(weight_hh).__name__}")
    if weight_hh.dim() != 2 or weight_hh.shape[0] != weight_hh.shape[1] or weight_hh.shape[0] == 0:
        raise ValueError(f"weight_hh must be a square matrix [H, H], not of shape {list(weight_hh.shape)}")
    return finite("weight_hh", weight_hh)


def pick_layer(rnn: nn.Module, layer: int | None) -> int:
    """The layer's number, the last one where `layer` is None."""
    layers = getattr(rnn, "num_layers", None)
    if not isinstance(getattr(rnn, "nonlinearity", None), str) or not isinstance(layers, int):
        raise TypeError(f"rnn must be a torch.nn.RNN or a steadygrad.RNN, not {type(rnn).__name__}")
    if getattr(rnn, "bidirectional", False):
        raise ValueError("rnn must run in one direction, not bidirectional: its two directions have no common state")
    chosen = layers - 1 if layer is None else whole("layer", layer, low=0)
    if chosen >= layers:
        raise ValueError(f"layer must be below num_layers = {layers}, not {layer!r}")
    return chosen


def read_layer(rnn: nn.Module, layer: int) -> Layer:
    """Layer number `layer` of `rnn`, copied."""
    weight_hh, weight_ih = _weight(rnn, f"weight_hh_l{layer}"), _weight(rnn, f"weight_ih_l{layer}")
    if weight_hh.dim() != 2 or weight_hh.shape[0] != weight_hh.shape[1]:
        raise ValueError(f"weight_hh_l{layer} must be a square matrix [H, H], not of shape {list(weight_hh.shape)}")
    bias = torch.zeros(weight_hh.shape[0], dtype=torch.float64)
    for name in (f"bias_ih_l{layer}", f"bias_hh_l{layer}"):
        if getattr(rnn, name, None) is not None:
            bias = bias + _weight(rnn, name)
    nonlinearity = str(getattr(rnn, "nonlinearity", ""))
    largest_slope(nonlinearity)
    leak = number("leak", getattr(rnn, "leak", 0.0), low=0.0, high=1.0, open_high=True)
    return Layer(weight_hh, weight_ih, bias, nonlinearity, leak)


@torch.no_grad()
def run(
    rnn: nn.Module, inputs: Tensor, h0: Tensor | None, layer: int | None, *, sample: int | None = None
) -> Trajectory:
    """Layer `layer` (None: the last) along `inputs`, driven by the layers below it; dropout is never applied.

    Args:
        rnn: a torch.nn.RNN or steadygrad.RNN.
        inputs: [T, B, D], unbatched [T, D], or whole numbers (tokens) [T, B] or [T]; batch first if the model is.
        h0: [num_layers, B, H], or [num_layers, H] for all sequences of the batch alike; None: zeros.
        layer: which layer.
        sample: run this sequence of the batch alone.
    """
    top = pick_layer(rnn, layer)
    u = _time_first(rnn, inputs)
    batch = u.shape[1]
    starts = _initial(rnn, h0, batch)
    if sample is not None:
        if whole("sample", sample, low=0) >= batch:
            raise ValueError(f"sample must be below the batch size {batch}, not {sample}")
        u, starts = u[:, sample : sample + 1], starts[:, sample : sample + 1]
    for below in range(top):
        _, h = _along(read_layer(rnn, below), below, u, starts[below])
        u = h[1:]
    current = read_layer(rnn, top)
    a, h = _along(current, top, u, starts[top])
    return Trajectory(current, u, a, h, batch)


def _along(layer: Layer, place: int, u: Tensor, h_0: Tensor) -> tuple[Tensor, Tensor]:
    drive = u @ layer.weight_ih.T + layer.bias
    h, a = [h_0], []
    for drive_t in drive:
        a_t, h_t = layer.step(h[-1], drive_t)
        a.append(a_t)
        h.append(h_t)
    states = torch.stack(h)
    broken = ~states[1:].isfinite().flatten(1).all(1)
    if broken.any():
        first = int(broken.nonzero()[0]) + 1
        raise ValueError(
            f"the states of layer {place} must stay finite, but they overflow at step {first} of the inputs"
        )
    return torch.stack(a), states


def _weight(rnn: nn.Module, name: str) -> Tensor:
    weight = getattr(rnn, name, None)
    if not isinstance(weight, Tensor):
        raise TypeError(f"rnn must have the weights of a torch.nn.RNN; {type(rnn).__name__} has no {name}")
    return finite(name, weight)


def finite(name: str, value: Tensor) -> Tensor:
    """`value` as a float64 copy on the CPU, if every entry is finite."""
    value = value.detach().to("cpu", torch.float64, copy=True)
    if not value.isfinite().all():
        count = int((~value.isfinite()).sum())
        raise ValueError(f"{name} must be finite, but {count} of its entries are infinite or NaN")
    return value


def _time_first(rnn: Any, inputs: Tensor) -> Tensor:
    """The inputs as float64 [T, B, D], tokens as one-hot vectors."""
    if not isinstance(inputs, Tensor):
        raise TypeError(f"inputs must be a torch.Tensor, not {type(inputs).__name__}")
    size = _weight(rnn, "weight_ih_l0").shape[1]
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
    elif getattr(rnn, "batch_first", False):
        inputs = inputs.transpose(0, 1)
    if not tokens:
        return finite("inputs", inputs)
    if int(inputs.min()) < 0 or int(inputs.max()) >= size:
        raise ValueError(
            f"inputs must hold tokens from 0 to {size - 1}, not {int(inputs.min())} to {int(inputs.max())}"
        )
    return nn.functional.one_hot(inputs.detach().cpu().long(), size).double()


def _initial(rnn: Any, h0: Tensor | None, batch: int) -> Tensor:
    """h_0 of every layer: [num_layers, B, H]."""
    layers, hidden = int(rnn.num_layers), _weight(rnn, "weight_hh_l0").shape[0]
    if h0 is None:
        return torch.zeros(layers, batch, hidden, dtype=torch.float64)
    if not isinstance(h0, Tensor):
        raise TypeError(f"h0 must be a torch.Tensor or None, not {type(h0).__name__}")
    if h0.dim() == 2:
        h0 = h0.unsqueeze(1).expand(-1, batch, -1)
    if list(h0.shape) != [layers, batch, hidden]:
        raise ValueError(
            f"h0 must be [num_layers, B, H] = [{layers}, {batch}, {hidden}] or [{layers}, {hidden}], "
            f"not {list(h0.shape)}"
        )
    return finite("h0", h0)

"""What a module is to the analysis, and the numbers of one of its layers. Nothing of the module is changed.

| module                                | layers     | weights                   | initial state                              |
|---------------------------------------|------------|---------------------------|--------------------------------------------|
| RNN, GRU of torch or steadygrad       | num_layers | weight_hh_l0, …           | [num_layers, B, H] or [num_layers, H]      |
| LSTM of torch or steadygrad           | num_layers | weight_hh_l0, …           | a pair of those, (h0, c0)                  |
| RNNCell, GRUCell, LSTMCell            | 1          | weight_hh, …              | [B, H] or [H]; a pair of those             |
| Recurrent(cell), anything with `.cell` | 1          | the cell's                | as the cell takes it, [B, …]               |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..checks import number, whole
from .gated import GRULayer, LSTMLayer
from .layer import Layer
from .plain import PlainLayer
from .sigma import largest_slope

_CELLS: dict[str, type[nn.RNNCellBase]] = {"RNN": nn.RNNCell, "GRU": nn.GRUCell, "LSTM": nn.LSTMCell}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@dataclass(frozen=True)
class Source:
    """A module, understood.

    Attributes:
        module: the layer, or the cell inside a wrapper.
        kind: "RNN", "GRU", "LSTM", or "own" for any other cell.
        is_cell: whether it is a single cell, whose weights have no number.
        layers: how many layers.
        batch_first: whether inputs are [B, T, …].
        reverse: whether it runs from the last step to the first.
    """

    module: Any
    kind: str
    is_cell: bool
    layers: int
    batch_first: bool
    reverse: bool

    def suffix(self, layer: int) -> str:
        """What follows the name of a weight of that layer."""
        return "" if self.is_cell else f"_l{layer}"

    def pick(self, layer: int | None) -> int:
        """The layer's number, the last one where `layer` is None."""
        chosen = self.layers - 1 if layer is None else whole("layer", layer, low=0)
        if chosen >= self.layers:
            raise ValueError(f"layer must be below num_layers = {self.layers}, not {layer!r}")
        return chosen

    def weight(self, name: str) -> Tensor:
        """A float64 copy."""
        weight = getattr(self.module, name, None)
        if not isinstance(weight, Tensor):
            raise TypeError(
                f"rnn must have the weights of a torch.nn.{self.kind}; {type(self.module).__name__} has no {name}"
            )
        return finite(name, weight)


def understand(rnn: nn.Module) -> Source:
    """What `rnn` is, or one sentence about what it must be."""
    inside = getattr(rnn, "cell", None)
    if isinstance(inside, nn.Module):  # steadygrad's layers have a `cell` that is a name
        batch_first, reverse = bool(getattr(rnn, "batch_first", False)), bool(getattr(rnn, "reverse", False))
        return Source(inside, _kind_of_cell(inside) or "own", True, 1, batch_first, reverse)
    if (kind := _kind_of_cell(rnn)) is not None:
        return Source(rnn, kind, True, 1, False, False)
    layers, mode = getattr(rnn, "num_layers", None), getattr(rnn, "mode", None)
    gated = mode in ("GRU", "LSTM")
    if not isinstance(layers, int) or not (gated or isinstance(getattr(rnn, "nonlinearity", None), str)):
        raise TypeError(
            f"rnn must be a torch.nn.RNN or a steadygrad.RNN, not {type(rnn).__name__} (or a GRU or LSTM of either, one of "
            "torch's cells, or a steadygrad.Recurrent around a cell of your own)"
        )
    if getattr(rnn, "bidirectional", False):
        raise ValueError("rnn must run in one direction, not bidirectional: its two directions have no common state")
    if getattr(rnn, "proj_size", 0):
        raise ValueError(f"rnn must have proj_size = 0, not {rnn.proj_size!r}: projections are not supported")
    return Source(rnn, str(mode) if gated else "RNN", False, layers, bool(getattr(rnn, "batch_first", False)), False)


def _kind_of_cell(module: nn.Module) -> str | None:
    """ "RNN", "GRU" or "LSTM" for torch's own cells; a subclass that computes something else is a cell of its own."""
    for kind, torchs in _CELLS.items():
        if isinstance(module, torchs):
            return kind if type(module).forward is torchs.forward else "own"
    return None


def read_layer(source: Source, layer: int) -> Layer:
    """Layer number `layer` of an RNN, GRU or LSTM, copied."""
    end = source.suffix(layer)
    weight_hh, weight_ih = source.weight(f"weight_hh{end}"), source.weight(f"weight_ih{end}")
    gates = _GATES[source.kind]
    if weight_hh.dim() != 2 or weight_hh.shape[0] != gates * weight_hh.shape[1]:
        wanted = "a square matrix [H, H]" if gates == 1 else f"[{gates} H, H]"
        raise ValueError(f"weight_hh{end} must be {wanted}, not of shape {list(weight_hh.shape)}")
    biases = [
        source.weight(name) if getattr(source.module, name, None) is not None else None
        for name in (f"bias_ih{end}", f"bias_hh{end}")
    ]
    if source.kind == "GRU":
        return GRULayer(weight_hh, weight_ih, *biases)
    if source.kind == "LSTM":
        return LSTMLayer(weight_hh, weight_ih, *biases)
    bias = torch.zeros(weight_hh.shape[0], dtype=torch.float64)
    for each in biases:
        bias = bias if each is None else bias + each
    nonlinearity = str(getattr(source.module, "nonlinearity", ""))
    largest_slope(nonlinearity)
    leak = number("leak", getattr(source.module, "leak", 0.0), low=0.0, high=1.0, open_high=True)
    return PlainLayer(weight_hh, weight_ih, bias, nonlinearity, leak)


def square_weight(weight_hh: Tensor) -> Tensor:
    """`weight_hh` as a float64 copy on the CPU, if it is a finite square matrix."""
    if not isinstance(weight_hh, Tensor):
        raise TypeError(f"weight_hh must be a torch.Tensor, not {type(weight_hh).__name__}")
    if weight_hh.dim() != 2 or weight_hh.shape[0] != weight_hh.shape[1] or weight_hh.shape[0] == 0:
        gated = weight_hh.dim() == 2 and weight_hh.shape[0] in (3 * weight_hh.shape[1], 4 * weight_hh.shape[1])
        hint = "; of a GRU or LSTM, give the layer itself" if gated and weight_hh.numel() else ""
        raise ValueError(f"weight_hh must be a square matrix [H, H], not of shape {list(weight_hh.shape)}{hint}")
    return finite("weight_hh", weight_hh)


def finite(name: str, value: Tensor) -> Tensor:
    """`value` as a float64 copy on the CPU, if every entry is finite."""
    value = value.detach().to("cpu", torch.float64, copy=True)
    if not value.isfinite().all():
        count = int((~value.isfinite()).sum())
        raise ValueError(f"{name} must be finite, but {count} of its entries are infinite or NaN")
    return value

"""The state before the first step, as one vector for each sequence and layer: s_0 [B, n].

A layer takes what its module takes, or the same without the batch: then every sequence begins alike.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .own_cell import parts_of
from .reading import Source, finite


def initial_states(source: Source, h0: Any, batch: int) -> list[Tensor]:
    """s_0 [B, n] of every layer of an RNN, GRU or LSTM."""
    hidden = source.weight(f"weight_hh{source.suffix(0)}").shape[1]
    if source.kind != "LSTM":
        return list(_part("h0", h0, source, batch, hidden))
    if h0 is not None and (not isinstance(h0, (tuple, list)) or len(h0) != 2):
        came = f"{len(h0)} of them" if isinstance(h0, (tuple, list)) else type(h0).__name__
        raise TypeError(f"h0 must be a pair of tensors (h0, c0) or None for an LSTM, not {came}")
    h, c = (None, None) if h0 is None else h0
    parts = [_part(name, part, source, batch, hidden) for name, part in (("h0", h), ("c0", c))]
    return list(torch.cat(parts, -1))


def _part(name: str, value: Tensor | None, source: Source, batch: int, hidden: int) -> Tensor:
    """[num_layers, B, H]."""
    if value is None:
        return torch.zeros(source.layers, batch, hidden, dtype=torch.float64)
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor or None, not {type(value).__name__}")
    given = list(value.shape)
    if source.is_cell:
        value = value.unsqueeze(0)
    if value.dim() == 2:
        value = value.unsqueeze(1).expand(-1, batch, -1)
    if list(value.shape) != [source.layers, batch, hidden]:
        if source.is_cell:
            raise ValueError(f"{name} must be [B, H] = [{batch}, {hidden}] or [{hidden}], not {given}")
        raise ValueError(
            f"{name} must be [num_layers, B, H] = [{source.layers}, {batch}, {hidden}] or [{source.layers}, {hidden}], "
            f"not {list(value.shape)}"
        )
    return finite(name, value)


def own_state(cell: nn.Module, h0: Any, batch: int) -> Any:
    """The initial state of a user's cell, in float64 and as the cell takes it: a tensor [B, …], a tuple or a list.

    Where none is given, as `steadygrad.Recurrent` has it: the cell's `initial_state(batch)`, or zeros [B, hidden_size].
    """
    name = type(cell).__name__
    if h0 is None:
        h0 = _zeros(cell, name, batch)
    is_state = isinstance(h0, (Tensor, tuple, list)) and (isinstance(h0, Tensor) or len(h0) > 0)
    if not is_state or not all(isinstance(part, Tensor) for part in parts_of(h0)):
        raise TypeError(f"h0 must be a state as {name} takes it, a tensor or a tuple of tensors, not {h0!r}")
    for part in parts_of(h0):
        if part.dim() == 0 or part.shape[0] != batch or not part.is_floating_point():
            raise ValueError(
                f"h0 must be made of floats of shape [B, …] with B = {batch}, "
                f"not {str(part.dtype).removeprefix('torch.')} of shape {list(part.shape)}"
            )
    parts = [part.detach().to("cpu", torch.float64, copy=True) for part in parts_of(h0)]
    return parts[0] if isinstance(h0, Tensor) else parts if isinstance(h0, list) else tuple(parts)


def _zeros(cell: nn.Module, name: str, batch: int) -> Any:
    initial: Any = getattr(cell, "initial_state", None)
    if callable(initial):
        return initial(batch)
    units = getattr(cell, "hidden_size", None)
    if not isinstance(units, int):
        raise ValueError(
            f"rnn's cell {name} must have a hidden_size or an initial_state(batch) where no h0 is given, and has neither"
        )
    zeros = torch.zeros(batch, units, dtype=torch.float64)
    return (zeros, zeros) if isinstance(cell, nn.LSTMCell) else zeros

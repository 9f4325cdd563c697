"""Every error of every step of a torch or steadygrad layer, by autograd through torch's own one-step cells."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

CELLS: dict[str, Any] = {"RNN_TANH": nn.RNNCell, "RNN_RELU": nn.RNNCell, "GRU": nn.GRUCell, "LSTM": nn.LSTMCell}


def cell_of(layer: Any, number: int, reverse: bool) -> Any:
    """torch's cell with the weights of a layer and direction."""
    suffix = f"_l{number}" + ("_reverse" if reverse else "")
    weights = [getattr(layer, f"{name}{suffix}").detach() for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    kind = CELLS[layer.mode]
    extra = {"nonlinearity": layer.mode.removeprefix("RNN_").lower()} if kind is nn.RNNCell else {}
    cell = kind(weights[0].shape[1], layer.hidden_size, dtype=weights[0].dtype, **extra)
    for name, weight in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), weights, strict=True):
        getattr(cell, name).data.copy_(weight)
    return cell


def error_norms(layer: Any, x: Tensor, loss: Any, states: tuple[Tensor, ...] = ()) -> dict[str, Tensor]:
    """By cell, [T, B]: the norm of the error of the state. x is [T, B, I]; loss takes (output, last h).

    Plain cells: the state is what goes into the nonlinearity. LSTM: (h, c), with c as the next step reads it.
    """
    kept: dict[str, list[tuple[Tensor, ...]]] = {}
    lasts: list[Tensor] = []
    sequence = x
    for number in range(layer.num_layers):
        outputs: list[Tensor] = []
        for reverse in (False, True) if layer.bidirectional else (False,):
            cell = cell_of(layer, number, reverse)
            index = len(lasts)
            h = states[0][index] if states else x.new_zeros(x.shape[1], layer.hidden_size)
            c = states[1][index] if len(states) > 1 else x.new_zeros(x.shape[1], layer.hidden_size)
            after: list[Tensor] = [x] * len(x)
            seen: list[tuple[Tensor, ...]] = [()] * len(x)
            for time in reversed(range(len(x))) if reverse else range(len(x)):
                if layer.mode == "LSTM":
                    h, c = cell(sequence[time], (h, c))
                    c = c * 1
                    watched = (h, c)
                elif layer.mode == "GRU":
                    h = cell(sequence[time], h)
                    watched = (h,)
                else:
                    a = sequence[time] @ cell.weight_ih.T + cell.bias_ih + h @ cell.weight_hh.T + cell.bias_hh
                    h = a.tanh() if layer.mode == "RNN_TANH" else a.relu()
                    watched = (a,)
                for each in watched:
                    each.retain_grad()
                after[time], seen[time] = h, watched
            kept[f"l{number}" + ("_reverse" if reverse else "")] = seen
            lasts.append(h)
            outputs.append(torch.stack(after))
        sequence = torch.cat(outputs, -1)
    loss(sequence, torch.stack(lasts)).backward()
    return {name: torch.stack([_norm(step) for step in seen]) for name, seen in kept.items()}


def _norm(parts: tuple[Tensor, ...]) -> Tensor:
    grads = [torch.zeros_like(part) if part.grad is None else part.grad for part in parts]
    return torch.stack([grad.square().sum(-1) for grad in grads]).sum(0).sqrt()

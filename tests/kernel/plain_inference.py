"""A forward pass of stacked recurrent layers in numpy, one row at a time: what drive_inference.py compares the kernel with.

RNN    h' = leak h + (1 - leak) s(W_ih x + b_ih + W_hh h + b_hh)
GRU    r, z = S(…), n = tanh(W_ih x + b_ih + r (W_hh h + b_hh)), h' = (1 - z) n + z h
LSTM   i, f, o = S(…), g = tanh(…), c' = f c + i g, h' = o tanh(c')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from plain_bptt import NONLINEARITIES, Array


@dataclass(frozen=True)
class Pass:
    """The options of one call; the gates are 1 (plain), 3 (GRU) or 4 (LSTM)."""

    hidden: int
    inputs: int
    gates: int
    layers: int
    directions: int
    sizes: tuple[int, ...]  # how many sequences reach each step, the longest first
    nonlinearity: str = "tanh"
    leak: float = 0.0
    threads: int = 1

    def width(self, layer: int) -> int:
        return self.directions * self.hidden if layer else self.inputs


def sigma(name: str, a: Array) -> Array:
    assert name in NONLINEARITIES
    if name == "sigmoid":
        return 1 / (1 + np.exp(-a))
    return np.maximum(a, 0) if name == "relu" else np.tanh(a) if name == "tanh" else a


def step(p: Pass, weights: list[Array], x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """h and c after one step of one row."""
    ih, hh, *biases = weights
    b_ih, b_hh = biases or (np.zeros(len(ih)), np.zeros(len(ih)))
    of_x, of_h = np.split(ih @ x + b_ih, p.gates), np.split(hh @ h + b_hh, p.gates)
    if p.gates == 1:
        return p.leak * h + (1 - p.leak) * sigma(p.nonlinearity, of_x[0] + of_h[0]), c
    if p.gates == 3:
        r, z = (sigma("sigmoid", of_x[gate] + of_h[gate]) for gate in (0, 1))
        return (1 - z) * np.tanh(of_x[2] + r * of_h[2]) + z * h, c
    i, f, o = (sigma("sigmoid", of_x[gate] + of_h[gate]) for gate in (0, 1, 3))
    c = f * c + i * np.tanh(of_x[2] + of_h[2])
    return o * np.tanh(c), c


def plain_inference(
    p: Pass, x: Array, h0: Array | None, c0: Array | None, weights: list[list[Array]]
) -> dict[str, Any]:
    """Output [N, D H] and last states [cells, B, H], for x [N, I]; N pairs, packed step after step."""
    batch, steps = p.sizes[0], len(p.sizes)
    starts = np.cumsum((0, *p.sizes))
    shape = (p.layers * p.directions, batch, p.hidden)
    first = {"last": h0, "last_c": c0}
    last = {name: np.zeros(shape) if state is None else state.astype("f8") for name, state in first.items()}
    for layer in range(p.layers):
        output = np.zeros((len(x), p.directions * p.hidden))
        for direction in range(p.directions):
            cell = layer * p.directions + direction
            columns = slice(direction * p.hidden, (direction + 1) * p.hidden)
            own = [each.astype("f8") for each in weights[cell]]
            for time in range(steps - 1, -1, -1) if direction else range(steps):
                for row in range(p.sizes[time]):
                    at = starts[time] + row
                    h, c = step(p, own, x[at], last["last"][cell, row], last["last_c"][cell, row])
                    last["last"][cell, row], last["last_c"][cell, row], output[at, columns] = h, c, h
        x = output
    return {"output": x} | last

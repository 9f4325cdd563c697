"""Drives the kernel's pass without gradients through its C function alone and compares with plain_inference.py. Needs no torch.

python drive_inference.py LIBRARY INFERENCE_HPP                 every case; the last line says how many
python drive_inference.py LIBRARY INFERENCE_HPP overrun         an output one entry too short: must not end well
python drive_inference.py LIBRARY INFERENCE_HPP overrun-wall    the same, with the arrays before an unreadable page
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
from drive import DONE, TOKEN_OUT_OF_RANGE, before_a_wall, fields_of
from plain_bptt import NONLINEARITIES, Array
from plain_inference import Pass, plain_inference


class Given:
    """Random weights, inputs and first states of a pass."""

    def __init__(self, p: Pass, draw: np.random.Generator, dtype: Any) -> None:
        def normal(*shape: int, scale: float = 0.5) -> Array:
            return (scale * draw.standard_normal(shape)).astype(dtype)

        tokens, state, bias = draw.integers(2, size=3)
        pairs, rows, cells = sum(p.sizes), p.gates * p.hidden, p.layers * p.directions
        self.tokens = draw.integers(0, p.inputs, pairs) if tokens else None
        self.x = normal(pairs, p.inputs)
        self.h0 = normal(cells, p.sizes[0], p.hidden) if state else None
        self.c0 = normal(cells, p.sizes[0], p.hidden) if state and p.gates == 4 else None
        self.reached = np.array(p.sizes) if len(set(p.sizes)) > 1 or draw.integers(2) else None
        self.weights: list[list[Array]] = []
        for cell in range(cells):
            width = p.width(cell // p.directions)
            of_cell = [normal(rows, width, scale=width**-0.5), normal(rows, p.hidden, scale=p.hidden**-0.5)]
            self.weights.append(of_cell + ([normal(rows), normal(rows)] if bias else []))

    def dense_inputs(self, inputs: int) -> Array:
        return self.x if self.tokens is None else np.eye(inputs)[self.tokens]


def run(kernel: Any, header: type[Any], p: Pass, given: Given, walls: bool, missing: int = 0) -> dict[str, Array]:
    """The pass through the kernel; the output is `missing` entries too short."""
    dtype, state = given.weights[0][0].dtype, (p.layers * p.directions, p.sizes[0], p.hidden)
    # Filled with a number that no result may keep.
    made = {"output": np.full(sum(p.sizes) * p.directions * p.hidden - missing, 1e30, dtype)}
    made |= {name: np.full(state, 1e30, dtype) for name in (("last", "last_c") if p.gates == 4 else ("last",))}
    arrays = {"tokens": given.tokens, "h0": given.h0, "c0": given.c0, "reached": given.reached}
    arrays |= {} if given.tokens is not None else {"x": given.x}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    weights = [array for of_cell in given.weights for array in of_cell]
    if walls:
        made, arrays = ({name: before_a_wall(array) for name, array in each.items()} for each in (made, arrays))
        weights = [before_a_wall(array) for array in weights]

    class Call(ctypes.Structure):
        _fields_ = [("problem", header), ("weights", ctypes.c_void_p * len(weights))]

    call = Call()
    call.weights = (ctypes.c_void_p * len(weights))(*[array.ctypes.data for array in weights])
    numbers = {
        name: getattr(p, name) for name in ("hidden", "inputs", "gates", "layers", "directions", "leak", "threads")
    }
    numbers |= {"steps": len(p.sizes), "batch": p.sizes[0], "per_cell": len(given.weights[0])}
    numbers |= {"nonlinearity": NONLINEARITIES.index(p.nonlinearity)}
    for name, number in numbers.items():
        setattr(call.problem, name, number)
    for name, array in (arrays | made).items():
        setattr(call.problem, name, array.ctypes.data)
    assert kernel.steadygrad_infer(ctypes.byref(call), int(dtype == np.float64)) == DONE
    return made


def passes(draw: np.random.Generator) -> list[Pass]:
    """Small ones of every kind, and wide ones whose units two threads share."""
    found: list[Pass] = []
    for gates, layers, directions, hidden in itertools.product((1, 3, 4), (1, 2, 3), (1, 2), (1, 5, 16, 18)):
        sizes = [(1,), (3,), (70,), (2, 2, 2), (5, 2, 1), (3, 3, 1, 1)][int(draw.integers(6))]
        options = {"nonlinearity": str(draw.choice(NONLINEARITIES)), "leak": float(draw.choice([0.0, 0.3]))}
        found.append(
            Pass(
                hidden,
                int(draw.choice([1, 3, 18])),
                gates,
                layers,
                directions,
                sizes,
                **(options if gates == 1 else {}),
            )
        )
    return [*found, Pass(523, 7, 1, 1, 1, (5, 4), threads=2), Pass(301, 7, 4, 1, 2, (3,), threads=2)]


def main(library: str, header: str, mode: str = "") -> None:
    kernel: Any = ctypes.CDLL(library)
    kernel.steadygrad_isa.restype = ctypes.c_char_p
    fields = fields_of(Path(header).read_text(), "Inference")
    problem = type("Inference", (ctypes.Structure,), {"_fields_": fields})
    draw = np.random.default_rng(0)
    if mode:
        p = Pass(5, 3, 1, 1, 1, (2, 2))
        run(kernel, problem, p, Given(p, draw, np.float64), walls=mode == "overrun-wall", missing=1)
        sys.exit("the overrun went unnoticed")
    every = passes(draw)
    for number, p in enumerate(every):
        dtype = (np.float32, np.float64)[number % 2]
        given = Given(p, draw, dtype)
        wanted = plain_inference(p, given.dense_inputs(p.inputs), given.h0, given.c0, given.weights)
        for name, found in run(kernel, problem, p, given, walls=number % 4 > 1).items():
            # Of 7 or 16 digits, sums over at most 523 units and 4 steps lose two or three.
            room = 1e-4 if dtype == np.float32 else 1e-10
            assert np.abs(found - wanted[name].reshape(found.shape)).max() <= room, f"{name} differs: {p}"

    p, tokens = problem(), np.array([0, 3, -1])
    p.steps, p.batch, p.hidden, p.inputs, p.gates, p.layers, p.directions = 1, 3, 1, 3, 1, 1, 1
    p.tokens = tokens.ctypes.data
    assert kernel.steadygrad_infer(ctypes.byref(p), 1) == TOKEN_OUT_OF_RANGE
    print(f"{kernel.steadygrad_isa().decode()}: {len(every)} passes agree")


if __name__ == "__main__":
    main(*sys.argv[1:])

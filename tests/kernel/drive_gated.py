"""Drives the kernel's gated cells through its C functions alone, on cases that test_sanitized.py wrote. Needs no torch.

python drive_gated.py LIBRARY PROBLEM_HPP GATED_HPP FOLDER                 every case; the last line says how many
python drive_gated.py LIBRARY PROBLEM_HPP GATED_HPP FOLDER overrun         an output one entry too short: must not end well
python drive_gated.py LIBRARY PROBLEM_HPP GATED_HPP FOLDER overrun-wall    the same, with the arrays before an unreadable page
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np
from drive import DONE, before_a_wall, fields_of
from plain_bptt import Array

NUMBERS = ("reverse", "alpha", "clip_error", "convention", "threads", "gates")
GIVEN = ("h0", "c0", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "lengths")
LOSS = {"loss output": "grad_output", "loss last": "grad_last", "loss last_c": "grad_last_c"}


def run(
    kernel: Any, problem: type[Any], case: dict[str, Array], walls: bool, by_slice: bool = True, missing: int = 0
) -> dict[str, Array]:
    """Forward and backward through the kernel, by the reference's names; the output is `missing` entries too short."""
    (T, B), (N, H), I, dtype = (
        case["inputs"].shape[:2],
        case["weight_hh"].shape,
        case["weight_ih"].shape[1],
        case["weight_hh"].dtype,
    )
    is_lstm, tokens = N == 4 * H, case["inputs"].dtype.kind == "i"
    shapes: dict[str, tuple[int, ...]] = {"output": (T * B * H - missing,), "last": (B, H), "activation": (T, B, N)}
    shapes |= {
        "memory": (T, B, H),
        "grad_h0": (B, H),
        "grad_weight_ih": (N, I),
        "grad_weight_hh": (N, H),
        "grad_bias": (N,),
    }
    shapes |= {"last_c": (B, H), "grad_c0": (B, H)} if is_lstm else {"grad_bias_hh": (N,)}
    shapes |= {} if tokens else {"grad_x": (T, B, I)}
    # Filled with a number that no result may keep.
    made = {name: np.full(shape, 1e30, dtype) for name, shape in shapes.items()}
    made |= {name: np.full((B, T), 1e30) for name in ("error_sq", "back_sq")}
    given = {name: case[name] for name in GIVEN if name in case} | {"tokens" if tokens else "x": case["inputs"]}
    given |= {field: case[name] for name, field in LOSS.items() if name in case}
    if walls:
        made, given = ({name: before_a_wall(array) for name, array in each.items()} for each in (made, given))
    p = problem()
    p.steps, p.batch, p.hidden, p.inputs = T, B, H, I
    p.by_slice = by_slice
    for name in NUMBERS:
        setattr(p, name, case[name].item())
    for name, array in (given | made).items():
        setattr(p, name, array.ctypes.data)
    for call in (kernel.steadygrad_gated_forward, kernel.steadygrad_gated_backward):
        assert call(ctypes.byref(p), int(dtype == np.float64)) == DONE
    found = {name: made[name] for name in ("output", "last", "last_c") if name in made}
    found |= {
        f"grad {name}": made[f"grad_{name}"]
        for name in ("h0", "c0", "weight_ih", "weight_hh")
        if f"grad_{name}" in made
    }
    found |= {"grad bias_ih": made["grad_bias"], "grad bias_hh": made["grad_bias" if is_lstm else "grad_bias_hh"]}
    found |= {} if tokens else {"grad inputs": made["grad_x"]}
    return found | {"measured": np.stack([made["error_sq"], made["back_sq"]])}


def main(library: str, header: str, gated_header: str, folder: str, mode: str = "") -> None:
    kernel: Any = ctypes.CDLL(library)
    kernel.steadygrad_isa.restype = ctypes.c_char_p
    kernel.steadygrad_gated_bytes.restype = ctypes.c_int64
    fields = fields_of(Path(header).read_text(), "Problem") + fields_of(Path(gated_header).read_text(), "GatedProblem")
    problem = type("GatedProblem", (ctypes.Structure,), {"_fields_": fields})
    assert kernel.steadygrad_gated_bytes() == ctypes.sizeof(problem), "the headers were read wrongly"
    files = sorted(Path(folder).glob("*.npz"), key=lambda file: int(file.stem))
    if mode:
        run(kernel, problem, dict(np.load(files[40])), walls=mode == "overrun-wall", missing=1)
        sys.exit("the overrun went unnoticed")
    for done, file in enumerate(files):
        case = dict(np.load(file))
        found = run(kernel, problem, case, walls=done % 4 > 1, by_slice=done % 3 > 0)
        expected = {
            name.removeprefix("expected "): value for name, value in case.items() if name.startswith("expected ")
        }
        assert expected.keys() <= found.keys()
        for name, wanted in expected.items():
            # Of 7 or 16 digits, sums over at most 130 units and 3 steps lose three.
            room = (2e-4 if case["weight_hh"].dtype == np.float32 else 1e-10) * max(np.abs(wanted).max(), 1e-6)
            assert np.abs(found[name].reshape(wanted.shape) - wanted).max() <= room, f"{name} differs in {file.name}"
    print(f"{kernel.steadygrad_isa().decode()}: {len(files)} cases agree")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Drives the C++ kernel through its C functions alone and compares with plain_bptt.py. Needs neither torch nor pytest.

    python drive.py LIBRARY PROBLEM_HPP                 every case; the last line says how many
    python drive.py LIBRARY PROBLEM_HPP overrun         a call whose output is one entry too short: must not end well
    python drive.py LIBRARY PROBLEM_HPP overrun-wall    the same, with the arrays before an unreadable page

test_sanitized.py runs it on a library built with AddressSanitizer. The sanitizer does not see the masked loads and stores of
AVX, so every other case has its arrays end where an unreadable page begins.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from plain_bptt import NONLINEARITIES, Array, Case, Values, plain_bptt

DONE, TOKEN_OUT_OF_RANGE = 0, 1
PLAIN_TYPES = {"int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32, "double": ctypes.c_double}


def fields_of(header: str, name: str) -> list[tuple[str, Any]]:
    """The fields that a header's structure declares itself."""
    (body,) = re.findall(rf"struct {name}(?: : \w+)? \{{(.*?)\n\}};", header, re.DOTALL)
    fields: list[tuple[str, Any]] = []
    for kind, names in re.findall(r"((?:const )?\w+\*?)\s+(\w[\w, ]*);", re.sub(r"//.*", "", body)):
        fields += [(name, ctypes.c_void_p if "*" in kind else PLAIN_TYPES[kind]) for name in names.split(", ")]
    return fields


def problem_type(header: str) -> type[Any]:
    """The structure that problem.hpp declares."""
    return type("Problem", (ctypes.Structure,), {"_fields_": fields_of(header, "Problem")})


def before_a_wall(array: Array) -> Array:
    """A copy whose last byte is the last before a page that can be neither read nor written. Never unmapped."""
    libc = ctypes.CDLL(None)
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.mmap.restype = ctypes.c_void_p
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start = libc.mmap(None, size + mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE, anonymous, -1, 0)
    assert libc.mprotect(start + size, mmap.PAGESIZE, 0) == 0
    place: Any = (ctypes.c_char * array.nbytes).from_address(start + size - array.nbytes)
    copy = np.frombuffer(place, array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def random_case(draw: np.random.Generator, steps: int, batch: int, hidden: int, nonlinearity: str) -> Case:
    return Case(
        *(steps, batch, hidden, nonlinearity),
        inputs=int(draw.choice([1, 3, 18])),
        leak=float(draw.choice([0.0, 0.3])),
        reverse=bool(draw.integers(2)),
        alpha=float(draw.choice([0.0, 0.7])),
        clip_error=float(draw.choice([np.inf, 0.05])),
        convention=int(draw.integers(2)),
        threads=int(draw.integers(1, 3)),
    )


def random_values(case: Case, draw: np.random.Generator, dtype: Any) -> Values:
    T, B, H, I = case.steps, case.batch, case.hidden, case.inputs

    def normal(*shape: int, scale: float) -> Array:
        return (scale * draw.standard_normal(shape)).astype(dtype)

    tokens, h0, bias, every_step, last, lengths = draw.integers(2, size=6)
    # Small weights: the slope of a unit near its end has few digits in float32.
    return Values(
        x=None if tokens else normal(T, B, I, scale=1.0),
        tokens=draw.integers(0, I, (T, B)) if tokens else None,
        h0=normal(B, H, scale=0.5) if h0 else None,
        weight_ih=normal(H, I, scale=0.5 * I**-0.5),
        weight_hh=normal(H, H, scale=0.7 * H**-0.5),
        bias_ih=normal(H, scale=0.2) if bias else None,
        bias_hh=normal(H, scale=0.2) if bias else None,
        lengths=draw.integers(1, T + 1, B) if lengths else None,
        grad_output=normal(T, B, H, scale=0.1) if every_step else None,
        grad_last=normal(B, H, scale=0.1) if last or not every_step else None,
    )


def run(kernel: Any, problem: type[Any], case: Case, values: Values, walls: bool, missing: int = 0) -> dict[str, Array]:
    """Forward and backward through the kernel; the output is `missing` entries too short."""
    T, B, H, I, dtype = case.steps, case.batch, case.hidden, case.inputs, values.weight_hh.dtype
    shapes: dict[str, tuple[int, ...]] = {
        "output": (T * B * H - missing,),
        "last": (B, H),
        "error_sq": (B, T),
        "back_sq": (B, T),
    }
    shapes |= {"grad_weight_ih": (H, I), "grad_weight_hh": (H, H), "grad_bias": (H,), "grad_h0": (B, H)}
    shapes |= {"activation": (T, B, H)} if case.leak > 0 else {}
    shapes |= {"grad_x": (T, B, I)} if values.tokens is None else {}
    # Filled with a number that no result may keep.
    made = {name: np.full(shape, 1e30, "f8" if name.endswith("_sq") else dtype) for name, shape in shapes.items()}
    given: dict[str, Array] = {name: array for name, array in vars(values).items() if array is not None}
    if walls:
        made, given = ({name: before_a_wall(array) for name, array in each.items()} for each in (made, given))
    p = problem()
    for name, value in (vars(case) | {"nonlinearity": NONLINEARITIES.index(case.nonlinearity)}).items():
        setattr(p, name, value)
    for name, array in (given | made).items():
        setattr(p, name, array.ctypes.data)
    for call in (kernel.steadygrad_forward, kernel.steadygrad_backward):
        assert call(ctypes.byref(p), int(dtype == np.float64)) == DONE
    return {name: array for name, array in made.items() if name != "activation"}


def main(library: str, header: str, mode: str = "") -> None:
    kernel: Any = ctypes.CDLL(library)
    kernel.steadygrad_isa.restype = ctypes.c_char_p
    kernel.steadygrad_problem_bytes.restype = ctypes.c_int64
    problem = problem_type(Path(header).read_text())
    assert kernel.steadygrad_problem_bytes() == ctypes.sizeof(problem), "problem.hpp was read wrongly"
    draw = np.random.default_rng(0)
    if mode:
        case = random_case(draw, 3, 2, 5, "tanh")
        run(kernel, problem, case, random_values(case, draw, np.float64), walls=mode == "overrun-wall", missing=1)
        sys.exit("the overrun went unnoticed")

    done = 0
    shapes = itertools.product((1, 3), (1, 2, 17), (1, 5, 17), NONLINEARITIES)
    for shape, dtype in itertools.product(shapes, (np.float32, np.float64)):
        case = random_case(draw, *shape)
        values = random_values(case, draw, dtype)
        expected = plain_bptt(case, values)
        for name, found in run(kernel, problem, case, values, walls=done % 4 > 1).items():
            wanted = expected[name].reshape(found.shape)
            # Of 7 or 16 digits, sums over 18 inputs and 3 steps lose two or three.
            room = (1e-4 if dtype == np.float32 else 1e-10) * max(np.abs(wanted).max(), 1e-6)
            assert np.abs(found - wanted).max() <= room, f"{name} differs in {dtype.__name__}: {case}"
        done += 1

    p, tokens = problem(), np.array([0, 3, -1])
    p.steps, p.batch, p.hidden, p.inputs, p.tokens = 1, 3, 1, 3, tokens.ctypes.data
    assert kernel.steadygrad_forward(ctypes.byref(p), 1) == TOKEN_OUT_OF_RANGE
    print(f"{kernel.steadygrad_isa().decode()}: {done} cases agree")


if __name__ == "__main__":
    main(*sys.argv[1:])

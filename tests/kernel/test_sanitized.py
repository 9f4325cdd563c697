"""The kernel under AddressSanitizer and UndefinedBehaviorSanitizer, on the smallest cases, on every instruction set.

The sanitizer is loaded into a process without torch: what the gated cells must find is worked out here and passed in files.
"""

from __future__ import annotations

import ast
import itertools
import os
import platform
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gated_kernel_cases import CHOICES, Case, values
from gated_reference import reference

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "src/steadygrad/kernel"
HERE = Path(__file__).parent
COMPILER = shutil.which("g++")
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="the sanitized kernel is built with g++, which is not installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="the sanitizer is preloaded the way Linux does it"),
]
# Without optimisation the sanitizers see every access the source makes, and the compiler is five times as quick.
SANITIZE = ["-O0", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def build_settings() -> dict[str, Any]:
    """The constants of setup.py: its flags and its instruction sets."""
    tree = ast.parse((ROOT / "setup.py").read_text())
    tree.body = [node for node in tree.body if isinstance(node, (ast.Assign, ast.AugAssign))]
    found: dict[str, Any] = {"Path": Path}
    exec(compile(tree, "setup.py", "exec"), found)
    return found


def instruction_sets() -> list[str]:
    flags = set(Path("/proc/cpuinfo").read_text().split())
    sets = ["baseline"]
    sets += ["avx2"] if {"avx2", "fma"} <= flags else []
    return sets + (["avx512"] if {"avx512f", "avx512dq", "avx512vl"} <= flags else [])


def write_gated_cases(folder: Path) -> int:
    """Small layers of gated cells with random options, each with what it is given and what must be found; how many."""
    draw = random.Random(0)
    shapes = [*itertools.product(("GRU", "LSTM"), (1, 3), (1, 2, 17), (1, 3, 18), (1, 5, 17)), ("GRU", 2, 17, 130, 130)]
    shapes += [("LSTM", 2, 3, 13, 130), ("LSTM", 2, 33, 130, 17)]
    for number, shape in enumerate(shapes):
        chosen = [draw.choice(options) for options in list(CHOICES.values())[len(shape) :]]
        case, dtype = Case(*shape, *chosen), (torch.float32, torch.float64)[number // 2 % 2]
        if dtype == torch.float32:
            case = replace(case, clip_error=None)  # an error at the threshold may be rounded to either side
        given, loss = values(case, dtype, scale=0.1)
        in_double, loss_in_double = values(case, scale=0.1)
        arrays = {name: value for name, value in given._asdict().items() if value is not None}
        arrays |= {f"loss {name}": value for name, value in vars(loss).items() if value is not None}
        expected = reference(in_double, case.options, loss_in_double)
        arrays |= {f"expected {name}": value for name, value in expected.items()}
        numbers = {"reverse": case.reverse, "alpha": case.alpha, "clip_error": case.clip_error or np.inf}
        numbers |= {"convention": ("paper", "program", "proceedings").index(case.convention)}
        numbers |= {"threads": draw.choice((1, 2)), "gates": 4 if case.mode == "LSTM" else 3}
        np.savez(folder / f"{number}.npz", **{name: value.numpy() for name, value in arrays.items()}, **numbers)
    return len(shapes)


def run(library: Path, isa: str, script: str, *more: str) -> subprocess.CompletedProcess[str]:
    preload = subprocess.run(
        [COMPILER or "", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    )
    settings = {
        "LD_PRELOAD": preload.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter's own
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "OPENBLAS_NUM_THREADS": "1",
        "STEADYGRAD_ISA": isa,
    }
    header = "inference.hpp" if script == "drive_inference.py" else "problem.hpp"
    command = [sys.executable, str(HERE / script), str(library), str(KERNEL / header), *more]
    return subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)


def test_no_access_outside_and_nothing_undefined_on_any_instruction_set(tmp_path: Path) -> None:
    settings = build_settings()
    x86 = platform.machine() in ("x86_64", "amd64")
    flags = [*settings["FLAGS"], *SANITIZE]
    objects: list[str] = []
    parts = [
        (source, isa, [f"-DSG_ISA={isa}", f"-DSG_VECTOR_BYTES={width}", f"-DSG_ROWS={rows}", *more])
        for isa, width, rows, more in (settings["X86"] if x86 else [settings["BASELINE"]])
        for source in settings["SOURCES"]
    ]
    for source, name, more in [*parts, ("dispatch.cpp", "dispatch", ["-DSG_WITH_X86=1"] if x86 else [])]:
        objects.append(str(tmp_path / f"{source}.{name}.o"))
        subprocess.run([COMPILER or "", *flags, *more, "-c", str(KERNEL / source), "-o", objects[-1]], check=True)
    library = tmp_path / "recurrence.so"
    subprocess.run([COMPILER or "", *flags, "-shared", "-pthread", *objects, "-o", str(library)], check=True)

    cases = tmp_path / "cases"
    cases.mkdir()
    count = write_gated_cases(cases)
    available = instruction_sets() if x86 else ["baseline"]
    for isa in available:
        done = run(library, isa, "drive.py")
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        assert f"{isa}: 144 cases agree" in done.stdout
        done = run(library, isa, "drive_gated.py", str(KERNEL / "gated.hpp"), str(cases))
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        assert f"{isa}: {count} cases agree" in done.stdout
        done = run(library, isa, "drive_inference.py")
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        assert f"{isa}: 74 passes agree" in done.stdout

    # And it would have been seen: an output one entry too short, in the heap and before an unreadable page.
    gated: list[str] = [str(KERNEL / "gated.hpp"), str(cases)]
    for script, more in (("drive.py", []), ("drive_gated.py", gated), ("drive_inference.py", [])):
        assert "heap-buffer-overflow" in run(library, "baseline", script, *more, "overrun").stderr
        assert "SEGV" in run(library, available[-1], script, *more, "overrun-wall").stderr

"""The kernel under AddressSanitizer and UndefinedBehaviorSanitizer, on the smallest cases, on every instruction set."""

from __future__ import annotations

import ast
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "src/steadygrad/kernel"
DRIVE = Path(__file__).with_name("drive.py")
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


def run(library: Path, isa: str, *mode: str) -> subprocess.CompletedProcess[str]:
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
    command = [sys.executable, str(DRIVE), str(library), str(KERNEL / "problem.hpp"), *mode]
    return subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)


def test_no_access_outside_and_nothing_undefined_on_any_instruction_set(tmp_path: Path) -> None:
    settings = build_settings()
    x86 = platform.machine() in ("x86_64", "amd64")
    flags = [*settings["FLAGS"], *SANITIZE]
    objects: list[str] = []
    parts = [
        ("recurrence.cpp", isa, [f"-DSG_ISA={isa}", f"-DSG_VECTOR_BYTES={width}", f"-DSG_ROWS={rows}", *more])
        for isa, width, rows, more in (settings["X86"] if x86 else [settings["BASELINE"]])
    ]
    for source, name, more in [*parts, ("dispatch.cpp", "dispatch", ["-DSG_WITH_X86=1"] if x86 else [])]:
        objects.append(str(tmp_path / f"{name}.o"))
        subprocess.run([COMPILER or "", *flags, *more, "-c", str(KERNEL / source), "-o", objects[-1]], check=True)
    library = tmp_path / "recurrence.so"
    subprocess.run([COMPILER or "", *flags, "-shared", "-pthread", *objects, "-o", str(library)], check=True)

    available = instruction_sets() if x86 else ["baseline"]
    for isa in available:
        done = run(library, isa)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        assert f"{isa}: 144 cases agree" in done.stdout

    # And it would have been seen: an output one entry too short, in the heap and before an unreadable page.
    assert "heap-buffer-overflow" in run(library, "baseline", "overrun").stderr
    assert "SEGV" in run(library, available[-1], "overrun-wall").stderr

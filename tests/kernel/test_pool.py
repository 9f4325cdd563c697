"""The threads that the kernel's calls share (kernel/pool.hpp), driven by a program of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERNEL = HERE.parents[1] / "src/steadygrad/kernel"
COMPILER = shutil.which("g++")


SANITIZER = "-fsanitize=thread"
pytestmark = pytest.mark.skipif(COMPILER is None, reason="the program is built with g++, which is not installed")


def built(source: Path, program: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [str(COMPILER), "-std=c++17", "-O1", "-pthread", *flags, f"-I{KERNEL}", str(source), "-o", str(program)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def sanitizer_runs(folder: Path) -> bool:
    """Whether this machine builds and runs a program under the thread sanitizer: a package of its own on some systems."""
    source, program = folder / "nothing.cpp", folder / "nothing"
    source.write_text("int main() { return 0; }")
    if sys.platform != "linux" or built(source, program, SANITIZER).returncode:
        return False
    return subprocess.run([str(program)], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("flags", [[], [SANITIZER]], ids=["plain", "sanitized"])
def test_each_piece_of_a_round_is_done_once_whatever_the_round_before_was(flags: list[str], tmp_path: Path) -> None:
    if flags and not sanitizer_runs(tmp_path):
        pytest.skip("g++ builds no program here that runs under the thread sanitizer (libtsan)")
    program = tmp_path / "rounds"
    compiler = built(HERE / "pool_rounds.cpp", program, *flags)
    assert compiler.returncode == 0, compiler.stderr[-4000:]
    run = subprocess.run([str(program), "100000"], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr[-4000:]

"""The threads that the kernel's calls share (kernel/pool.hpp), driven by a program of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERNEL = HERE.parents[1] / "src/steadygrad/kernel"
COMPILER = shutil.which("g++")


@pytest.mark.skipif(COMPILER is None, reason="the program is built with g++, which is not installed")
@pytest.mark.parametrize("sanitizer", [[], ["-fsanitize=thread"]], ids=["plain", "sanitized"])
def test_each_piece_of_a_round_is_done_once_whatever_the_round_before_was(sanitizer: list[str], tmp_path: Path) -> None:
    program = tmp_path / "rounds"
    flags = ["-std=c++17", "-O1", "-pthread", *sanitizer, f"-I{KERNEL}"]
    built = [str(COMPILER), *flags, str(HERE / "pool_rounds.cpp"), "-o", str(program)]
    subprocess.run(built, check=True, capture_output=True)
    run = subprocess.run([str(program), "100000"], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr[-4000:]

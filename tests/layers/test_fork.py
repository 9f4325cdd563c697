"""A child forked while other threads are inside the layer does not hang, and computes the same (fork_stress.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from steadygrad.recurrence import native

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork() is POSIX's alone")
SCRIPT = Path(__file__).with_name("fork_stress.py")


# With several threads torch's own operations hang in a forked child (OpenMP does): there the kernel alone is tried.
needs_kernel = pytest.mark.skipif(native.library() is None, reason="the C++ kernel is not built")


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=needs_kernel)])
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_thirty_children_forked_from_a_busy_process_all_end(cell: str, threads: int) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), cell, str(threads)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=2000,
        check=False,
    )
    assert (run.stdout, run.returncode) == ("0 of 30 children failed\n", 0), run.stderr[-1000:]


def test_a_child_that_hangs_is_seen() -> None:
    run = subprocess.run([sys.executable, str(SCRIPT), "hang"], capture_output=True, text=True, check=True)
    assert run.stdout == "a hang was seen\n"

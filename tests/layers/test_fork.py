"""A child forked while other threads are inside the layer does not hang, and computes the same (fork_stress.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork() is POSIX's alone")
SCRIPT = Path(__file__).with_name("fork_stress.py")


# With several threads torch's own operations hang in a forked child (OpenMP does): of those, only the kernel's layer is tried.
@pytest.mark.parametrize(("cell", "threads"), [("RNN", 1), ("RNN", 2), ("GRU", 1), ("LSTM", 1)])
def test_thirty_children_forked_from_a_busy_process_all_end(cell: str, threads: int) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), cell, str(threads)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert (run.stdout, run.returncode) == ("0 of 30 children failed\n", 0), run.stderr[-1000:]

"""The programs in benchmarks/ fit the library: each can be imported. (They measure; nothing of that is a test.)"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_a_benchmark_can_be_imported(name: str) -> None:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(FOLDER)!r}); import {name}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr

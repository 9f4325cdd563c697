"""Help is quick: no command loads torch before it is run. And a run loads what it uses, not the rest of the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
from steadygrad import cli
try:
    cli.main(sys.argv[1:])
except SystemExit:
    pass
print(sorted({"torch", "numpy", "matplotlib"} & sys.modules.keys()))
"""


def test_no_command_loads_torch_to_print_its_help() -> None:
    for words in (["--help"], ["data", "--help"], ["train", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", CODE, *words], capture_output=True, text=True, check=True, timeout=60
        )
        *help_text, loaded = done.stdout.splitlines()
        assert help_text[0].startswith("usage: steadygrad")
        assert loaded == "[]"


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="the time of a child is not known here")
def test_help_takes_less_than_half_a_second() -> None:
    seconds = []
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-m", "steadygrad.cli", "--help"], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        seconds.append(usage.ru_utime + usage.ru_stime)  # of the processor: other programs may be busy
    assert min(seconds) < 0.5


TRAINING = """
import sys
from steadygrad import cli
cli.main(["train", "temporal-order", "--max-updates", "3", "--check-every", "3", "--out", sys.argv[1]])
print("loaded", *sorted(name for name in sys.modules if name.partition(".")[0] == "steadygrad"))
"""


def test_training_on_a_task_loads_at_most_fifty_modules_of_the_package(tmp_path: Path) -> None:
    words = [sys.executable, "-c", TRAINING, str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    _, *loaded = done.stdout.splitlines()[-1].split()
    assert "steadygrad.experiments.loop" in loaded
    assert len(loaded) <= 50, "\n".join(loaded)
    unused = (
        "steadygrad.baselines",
        "steadygrad.data",
        "steadygrad.analysis",
        "steadygrad.sweep",
        "steadygrad.plotting",
    )
    assert not [name for name in loaded if name.startswith(unused)]

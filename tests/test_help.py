"""Help is quick: no command loads torch before it is run. And a run loads what it uses, not the rest of the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from steadygrad import cli
from steadygrad.commands import sweep
from steadygrad.experiments.presets import PRESETS
from steadygrad.sweep import GRIDS

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
    for words in (["--help"], *([name, "--help"] for name in ("data", "train", "sweep", "reproduce"))):
        done = subprocess.run(
            [sys.executable, "-c", CODE, *words], capture_output=True, text=True, check=True, timeout=60
        )
        *help_text, loaded = done.stdout.splitlines()
        assert help_text[0].startswith("usage: steadygrad")
        assert loaded == "[]"


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_can_be_read_where_the_terminal_knows_no_greek(command: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    words = [sys.executable, "-m", "steadygrad.cli", command, "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60, env=environment)
    assert "?" not in done.stdout


def _listed(command: str, argument: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The words of what a command's help says of an argument."""
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    found = re.search(rf"^  {argument}\s\s+(.*?)\n(?:\n|  -)", capsys.readouterr().out, re.DOTALL | re.MULTILINE)
    assert found is not None
    return re.findall(r"[\w-]+", found[1])


@pytest.mark.parametrize("command", ["train", "sweep", "reproduce"])
def test_help_names_every_preset(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    listed = _listed(command, "--preset (?:NAME|LIST)", capsys)
    assert [name for name in PRESETS if name not in listed] == []


def test_help_names_every_grid_that_a_sweep_can_run(capsys: pytest.CaptureFixture[str]) -> None:
    listed = _listed("sweep", "NAME", capsys)
    assert [name for name in GRIDS if name not in listed] == ["comparison"]
    with pytest.raises(ValueError, match="NAME must not be comparison"):
        sweep.run_sweep(Namespace(name="comparison"))


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

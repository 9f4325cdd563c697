"""The help of the commands is quick: none of them loads torch before it is run."""

from __future__ import annotations

import subprocess
import sys

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

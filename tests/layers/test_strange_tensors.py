"""Tensors that are not plain memory give torch's numbers or one sentence, and never end the process (strange_tensors.py)."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("strange_tensors.py")
RIGHT = [
    *("fake_mode", "fake_input", "two_input", "two_parameters", "logging_input", "logging_mode", "zero_gradient"),
    *("zero_input", "negated_input", "negated_gradient", "freed_output_before_backward", "distributed_parameters"),
]
FREED = r"must hold its numbers, and its storage was freed( or is too small)?"
REFUSED = {
    "masked": r"WrongInputError: input and parameters must not be MaskedTensors.*: give sequences .* as a PackedSequence",
    "freed_input": f"[A-Za-z]+: input {FREED}",
    "freed_tokens": f"[A-Za-z]+: input {FREED}",
    "freed_weight": f"[A-Za-z]+: weight_hh {FREED}",
    # the reference leaves this to autograd, which has its own words for it
    "freed_weight_before_backward": f"[A-Za-z]+: weight_hh {FREED}|RuntimeError: .*(not allocated yet|out of bounds).*",
    "distributed_parameters_and_omega": "WrongInputError: alpha must be 0 where parameters are DTensors.*",
    "sparse_input": r"WrongInputError: input must be a dense tensor, not of layout torch.sparse_coo: .*",
    "nested_input": r"WrongInputError: input must be a dense tensor, not a nested tensor: .*",
}


@functools.cache
def outcomes(backend: str) -> tuple[dict[tuple[str, str], str], str]:
    run = subprocess.run(
        [sys.executable, str(SCRIPT), backend], capture_output=True, text=True, timeout=500, check=False
    )
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("[")]
    last = f"it ended with {run.returncode} after {lines[-1][:2] if lines else 'nothing'}: {run.stderr[-500:]}"
    return {(cell, name): outcome for cell, name, outcome in lines}, last


@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("name", [*RIGHT, *REFUSED])
def test_a_strange_tensor_gives_torchs_numbers_or_one_sentence(backend: str, cell: str, name: str) -> None:
    found, last = outcomes(backend)
    assert (cell, name) in found, last
    assert re.fullmatch(REFUSED.get(name, "right"), found[cell, name]), found[cell, name]


def test_every_case_of_the_script_is_expected_here(backend: str) -> None:
    assert {name for _, name in outcomes(backend)[0]} == {*RIGHT, *REFUSED}

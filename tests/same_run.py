"""When two runs are the same: all numbers, but for those that the clock decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from steadygrad.experiments import files

SMALL: dict[str, Any] = {
    "length": (10, 12),
    "hidden": 6,
    "batch": 4,
    "check_every": 20,
    "check_sequences": 50,
    "test_sequences": 100,
    "max_updates": 100,
}
OF_THE_CLOCK = ("seconds", "updates_per_second", "tokens_per_second")


def metrics(directory: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, without what the clock decides."""
    lines = [json.loads(line) for line in (directory / files.METRICS).read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in OF_THE_CLOCK} for line in lines]


def tensors(directory: Path) -> dict[str, torch.Tensor]:
    """All tensors of the newest checkpoint, and the best weights."""
    newest = max((directory / files.CHECKPOINTS).iterdir())
    return {**load_file(newest), **load_file(directory / files.WEIGHTS)}


def assert_same_run(one: Path, other: Path) -> None:
    """Both left the very same numbers: all tensors bit for bit, all lines of metrics and flow."""
    mine, theirs = tensors(one), tensors(other)
    assert mine.keys() == theirs.keys()
    for name, tensor in mine.items():
        assert torch.equal(tensor, theirs[name]), name
    assert metrics(one) == metrics(other)
    assert (one / files.FLOW).read_bytes() == (other / files.FLOW).read_bytes()

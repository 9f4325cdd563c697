"""What the tests of models of music and text share: tiny data, tiny settings, and when two runs are the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from steadygrad.natural import NaturalConfig
from steadygrad.training import files

TEXT = "a rat sat at a bat " * 126 + "nine\n" + "x"
SMALL: dict[str, Any] = {"hidden": 7, "steps": 8, "threshold": 1.0, "alpha": 0.5, "lr": 0.1, "epochs": 3}
OF_THE_CLOCK = ("seconds", "updates_per_second", "tokens_per_second")


def tune(steps: int, generator: torch.Generator) -> Tensor:
    """A piece of `steps` steps, with at least one note in the last."""
    roll = (torch.rand(steps, 88, generator=generator) < 0.05).to(torch.uint8)
    roll[-1, 40] = 1
    return roll


def of_text(path: str, **fields: Any) -> NaturalConfig:
    """A run on the tiny text: 17 updates an epoch."""
    return NaturalConfig("text", "sgd-cr", path=path, **{**SMALL, "batch": 16, **fields})


def of_music(path: str, **fields: Any) -> NaturalConfig:
    """A run on the tiny tunes, three side by side."""
    return NaturalConfig("music", "sgd-cr", path=path, **{**SMALL, "batch": 3, **fields})


def metrics(directory: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, without what the clock decides."""
    lines = [json.loads(line) for line in (directory / files.METRICS).read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in OF_THE_CLOCK} for line in lines]


def assert_same_run(one: Path, other: Path) -> None:
    """Both left the very same numbers: all tensors bit for bit, all lines of metrics and flow."""

    def tensors(directory: Path) -> dict[str, Tensor]:
        newest = max((directory / files.CHECKPOINTS).iterdir())
        return {**load_file(newest), **load_file(directory / files.WEIGHTS)}

    mine, theirs = tensors(one), tensors(other)
    assert mine.keys() == theirs.keys()
    for name, tensor in mine.items():
        assert torch.equal(tensor, theirs[name]), name
    assert metrics(one) == metrics(other)
    assert (one / files.FLOW).read_bytes() == (other / files.FLOW).read_bytes()

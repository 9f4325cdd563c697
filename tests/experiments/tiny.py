"""What the tests of models of music and text share: tiny data and tiny settings."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from steadygrad.experiments import Config

TEXT = "a rat sat at a bat " * 126 + "nine\n" + "x"
SMALL: dict[str, Any] = {
    "nonlinearity": "sigmoid",
    "init": "sigmoid",
    "hidden": 7,
    "steps": 8,
    "threshold": 1.0,
    "alpha": 0.5,
    "lr": 0.1,
    "epochs": 3,
}


def tune(steps: int, generator: torch.Generator) -> Tensor:
    """A piece of `steps` steps, with at least one note in the last."""
    roll = (torch.rand(steps, 88, generator=generator) < 0.05).to(torch.uint8)
    roll[-1, 40] = 1
    return roll


def of_text(path: str, **fields: Any) -> Config:
    """A run on the tiny text: 17 updates an epoch."""
    return Config("text", "sgd-cr", path=path, **{**SMALL, "batch": 16, **fields})


def of_music(path: str, **fields: Any) -> Config:
    """A run on the tiny tunes, three side by side."""
    return Config("music", "sgd-cr", path=path, **{**SMALL, "batch": 3, **fields})

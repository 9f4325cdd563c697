"""Runs and data small enough to be repeated in every test."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny import TEXT, tune

from same_run import SMALL
from steadygrad.data import write_midi
from steadygrad.experiments import Config


@pytest.fixture
def small() -> Config:
    """100 updates that take a tenth of a second and do not solve the task."""
    return Config("temporal-order", "sgd-cr", threshold=1.0, alpha=2.0, **SMALL)


@pytest.fixture
def text_path(tmp_path: Path) -> str:
    """A text of 2,400 characters, 12 of them different."""
    path = tmp_path / "rhyme.txt"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture
def music_path(tmp_path: Path) -> str:
    """A folder of seven tunes of 9 to 33 steps."""
    pytest.importorskip("mido")
    folder = tmp_path / "tunes"
    folder.mkdir()
    generator = torch.Generator().manual_seed(0)
    for number in range(7):
        write_midi(tune(9 + 4 * number, generator), folder / f"{number}.mid", step_seconds=0.25)
    return str(folder)

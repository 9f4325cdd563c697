"""What the tests of sweeps share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pretended import evaluated, pretend, tiny

from steadygrad.sweep import Grid


@pytest.fixture
def grid() -> Callable[..., Grid]:
    return tiny


@pytest.fixture
def fake() -> dict[str, Callable[..., Any]]:
    """Arguments of `sweep.run` that replace training by `pretend`."""
    return {"train": pretend, "evaluate": evaluated}


@pytest.fixture
def calls(tmp_path: Path) -> Callable[[], list[str]]:
    """The cells that `pretend` was called for, in turn."""

    def read() -> list[str]:
        path = tmp_path / "out" / "calls.txt"
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    return read

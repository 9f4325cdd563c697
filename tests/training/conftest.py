"""A run small enough to be repeated in every test."""

from __future__ import annotations

import pytest

from same_run import SMALL
from steadygrad.training import RunConfig


@pytest.fixture
def small() -> RunConfig:
    """100 updates that take a tenth of a second and do not solve the task."""
    return RunConfig("temporal-order", "sgd-cr", threshold=1.0, alpha=2.0, **SMALL)

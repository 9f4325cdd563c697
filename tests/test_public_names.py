"""The names a user is promised are there, and the rooms open when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import steadygrad as sg


@pytest.mark.parametrize("room", ["analysis", "data", "dynamics", "experiments", "init", "schedules", "tasks"])
def test_every_room_is_an_attribute(room: str) -> None:
    code = f"import steadygrad as sg; print(sg.{room}.__name__, {room!r} in dir(sg))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [f"steadygrad.{room}", "True"]


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'analysys'"):
        _ = sg.analysys  # pyright: ignore[reportAttributeAccessIssue]


def test_every_promised_name_is_there_and_is_listed() -> None:
    promised = ["RNN", "LearnedState", "omega", "NormClipper", "Auto", "Percentile", "ClipStats", "GradientFlow"]
    promised += ["clip_grad_norm_", "grad_norm", "nonfinite_parameters", "__version__"]
    assert all(hasattr(sg, name) and name in dir(sg) for name in promised)

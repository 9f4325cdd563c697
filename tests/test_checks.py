"""The sentences that bad arguments are answered with."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from steadygrad import checks


def test_a_name_that_is_allowed_comes_back() -> None:
    assert checks.one_of("backend", "torch", iter(["native", "torch"])) == "torch"


@pytest.mark.parametrize(
    ("value", "ending"),
    [("nativ", " (did you mean 'native'?)"), ("Torch", " (did you mean 'torch'?)"), ("cuda", ""), (3, ""), (None, "")],
)
def test_another_name_is_refused_with_the_nearest(value: Any, ending: str) -> None:
    with pytest.raises(ValueError, match="backend") as refused:
        checks.one_of("backend", value, ("native", "torch"))
    assert str(refused.value) == f"backend must be one of 'native', 'torch', not {value!r}{ending}"


@given(st.floats(0, 1) | st.integers(0, 1))
def test_numbers_between_the_ends_come_back_as_floats(value: float) -> None:
    found = checks.number("p", value, low=0, high=1)
    assert found == value
    assert isinstance(found, float)


INTERVALS: list[tuple[dict[str, Any], Any, str]] = [
    ({}, math.nan, "a finite number"),
    ({}, math.inf, "a finite number"),
    ({}, True, "a finite number"),
    ({}, "1", "a finite number"),
    ({}, None, "a finite number"),
    ({"low": 0}, -1e-300, "a finite number of at least 0"),
    ({"low": 0, "open_low": True}, 0, "a finite number above 0"),
    ({"low": 0, "high": 1}, 1.0000001, "a number in [0, 1]"),
    ({"low": 0, "high": 1, "open_high": True}, 1, "a number in [0, 1)"),
    ({"low": -1, "high": 2.5, "open_low": True}, -1, "a number in (-1, 2.5]"),
    ({"low": 0, "high": 1, "open_low": True, "open_high": True}, math.nan, "a number in (0, 1)"),
]


@pytest.mark.parametrize(("interval", "value", "allowed"), INTERVALS)
def test_other_numbers_are_refused_with_the_interval(interval: dict[str, Any], value: Any, allowed: str) -> None:
    with pytest.raises(ValueError, match="rate") as refused:
        checks.number("rate", value, **interval)
    assert str(refused.value) == f"rate must be {allowed}, not {value!r}"


def test_open_ends_are_excluded_and_closed_ends_are_not() -> None:
    assert checks.number("p", 0, low=0, high=1, open_high=True) == 0
    assert checks.number("p", 1, low=0, high=1, open_low=True) == 1


def test_whole_numbers_from_the_lowest_on_come_back() -> None:
    assert checks.whole("batch", 1) == 1
    assert checks.whole("batch", 0, low=0) == 0


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "1", None])
def test_other_values_are_no_whole_numbers(value: Any) -> None:
    with pytest.raises(ValueError, match="batch") as refused:
        checks.whole("batch", value)
    assert str(refused.value) == f"batch must be a whole number of at least 1, not {value!r}"


def test_lengths_between_one_and_all_steps_are_allowed() -> None:
    checks.lengths(torch.tensor([1, 5, 3]), steps=5, batch=3)
    with pytest.raises(ValueError, match=r"lengths must lie in 1 … 5, the number of steps, not in 1 … 6"):
        checks.lengths(torch.tensor([1, 6, 3]), steps=5, batch=3)
    with pytest.raises(ValueError, match=r"lengths must be 2 whole numbers, not torch.int64 of shape \(3,\)"):
        checks.lengths(torch.tensor([1, 5, 3]), steps=5, batch=2)


def test_a_whole_number_that_torch_cannot_hold_is_refused() -> None:
    assert checks.whole("length", 2**63 - 1) == 2**63 - 1
    with pytest.raises(
        ValueError, match=r"length must be a whole number of at most 9,223,372,036,854,775,807, not 9223"
    ):
        checks.whole("length", 2**63)

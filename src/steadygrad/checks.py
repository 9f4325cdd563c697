"""What an argument must be, said in one sentence: its name, what is allowed, and what came.

Every public function checks its arguments here, before it changes anything. Where torch raises TypeError or RuntimeError for
the same mistake, what is raised here is that and a ValueError: code that catches either works.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


LARGEST = 2**63 - 1  # that torch can hold


class WrongTypeError(ValueError, TypeError):
    """An argument of the wrong type."""


class WrongInputError(ValueError, RuntimeError):
    """A tensor that does not fit the layer."""


def flag(name: str, value: Any) -> bool:
    """`value`, if it is True or False.

    >>> flag("bias", "False")
    Traceback (most recent call last):
    steadygrad.checks.WrongTypeError: bias must be True or False, not 'False'
    """
    if not isinstance(value, bool):
        raise WrongTypeError(f"{name} must be True or False, not {value!r}")
    return value


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    """`value`, if it is one of `allowed`; otherwise a ValueError that names the nearest match.

    >>> one_of("omega", "papr", ("paper", "program"))
    Traceback (most recent call last):
    ValueError: omega must be one of 'paper', 'program', not 'papr' (did you mean 'paper'?)
    """
    choices = list(allowed)
    if value in choices:
        return value
    near = near_match(str(value), choices)
    raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}{near}")


def near_match(value: str, allowed: list[str]) -> str:
    """What to add to a complaint about `value`: the one of `allowed` that may have been meant, if there is one."""
    near = difflib.get_close_matches(value, allowed, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def number(
    name: str,
    value: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """`value` as a finite float between `low` and `high` (ends excluded where `open_…`).

    >>> number("leak", 1.0, low=0, high=1, open_high=True)
    Traceback (most recent call last):
    ValueError: leak must be a number in [0, 1), not 1.0
    """
    wrong_type = isinstance(value, bool) or not isinstance(value, (int, float))
    bad = wrong_type or not math.isfinite(value)
    if not bad:
        bad = value < low or value > high or (open_low and value == low) or (open_high and value == high)
    if bad:
        error = WrongTypeError if wrong_type else ValueError
        raise error(f"{name} must be {_interval(low, high, open_low, open_high)}, not {value!r}")
    return float(value)


def whole(name: str, value: Any, *, low: int = 1) -> int:
    """`value` as an int of at least `low`, which 64 bits can hold.

    >>> whole("hidden_size", 0)
    Traceback (most recent call last):
    ValueError: hidden_size must be a whole number of at least 1, not 0
    """
    wrong_type = isinstance(value, bool) or not isinstance(value, int)
    if wrong_type or value < low:
        error = WrongTypeError if wrong_type else ValueError
        raise error(f"{name} must be a whole number of at least {low}, not {value!r}")
    if value > LARGEST:
        raise ValueError(f"{name} must be a whole number of at most {LARGEST:,}, not {value}")
    return value


def _interval(low: float, high: float, open_low: bool, open_high: bool) -> str:
    if low == -math.inf and high == math.inf:
        return "a finite number"
    if high == math.inf:
        return f"a finite number {'above' if open_low else 'of at least'} {low:g}"
    return f"a number in {'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"


def lengths(value: Tensor, steps: int, batch: int) -> None:
    """Whether `value` [batch] holds a length in 1 … steps for every sequence."""
    if value.shape != (batch,) or value.is_floating_point():
        raise ValueError(f"lengths must be {batch} whole numbers, not {value.dtype} of shape {tuple(value.shape)}")
    low, high = int(value.min()), int(value.max())
    if low < 1 or high > steps:
        raise ValueError(f"lengths must lie in 1 … {steps}, the number of steps, not in {low} … {high}")

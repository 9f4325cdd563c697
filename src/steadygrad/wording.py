"""Numbers and times as people read them."""

from __future__ import annotations

from collections.abc import Sequence


def duration(seconds: float) -> str:
    """A time in words that fit it.

    >>> duration(42), duration(200), duration(9000)
    ('42 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def percent(share: float) -> str:
    """A share of 10,000 sequences, with as many digits as that gives.

    >>> percent(0.0003), percent(0.758), percent(0.0)
    ('0.03 %', '75.8 %', '0 %')
    """
    if share == 0:
        return "0 %"
    return f"{100 * share:.2f} %" if share < 0.1 else f"{100 * share:.1f} %"


def minutes(seconds: float) -> str:
    """Seconds as minutes, to two digits.

    >>> minutes(4), minutes(90), minutes(1234)
    ('0.067', '1.5', '21')
    """
    return f"{seconds / 60:.2g}" if seconds < 600 else f"{seconds / 60:,.0f}"


def span(length: Sequence[int]) -> str:
    """A range of lengths.

    >>> span((50, 200)), span((50, 50))
    ('50–200', '50')
    """
    low, high = length
    return f"{low}" if low == high else f"{low}–{high}"

"""The axes of a grid as one types them: `50:200` is a range, `10,20,50` a list, and both may be mixed."""

from __future__ import annotations

import re


def lengths(text: str) -> list[tuple[int, int]]:
    """Lengths of sequences: `50:200` is one model for all of 50 to 200, `10,20` a model for each.

    >>> lengths("10,20,50:200")
    [(10, 10), (20, 20), (50, 200)]
    >>> lengths("200:50")
    Traceback (most recent call last):
    ValueError: length must be LOW:HIGH with LOW below HIGH, such as 50:200, not '200:50'
    """
    pairs = []
    for part in _parts(text):
        low, high = _ends("length", part, "T or LOW:HIGH, such as 50 or 50:200")
        if ":" in part and low >= high:
            raise ValueError(f"length must be LOW:HIGH with LOW below HIGH, such as 50:200, not {part!r}")
        pairs.append((low, high))
    return pairs


def seeds(text: str) -> list[int]:
    """Seeds: `1:5` are the five seeds from 1 to 5, `1,7` these two.

    >>> seeds("1:3,7")
    [1, 2, 3, 7]
    """
    found: dict[int, None] = {}
    for part in _parts(text):
        first, last = _ends("seeds", part, "S or FIRST:LAST, such as 1 or 1:5")
        if first > last:
            raise ValueError(f"seeds must be FIRST:LAST in this order, such as 1:5, not {part!r}")
        found |= dict.fromkeys(range(first, last + 1))
    return list(found)


def names(text: str) -> list[str]:
    """Names: a list with commas between.

    >>> names("sgd, sgd-c")
    ['sgd', 'sgd-c']
    """
    return list(dict.fromkeys(_parts(text)))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _ends(name: str, part: str, allowed: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)(?::(\d+))?", part)
    if not found:
        raise ValueError(f"{name} must be {allowed}, not {part!r}")
    return int(found[1]), int(found[2] or found[1])

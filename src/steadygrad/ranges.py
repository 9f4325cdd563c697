"""Lists of numbers as people type them: '10,20,50:200', '1:5'."""

from __future__ import annotations

import re
from collections.abc import Iterable


def lengths(text: str) -> list[tuple[int, int]]:
    """Lengths of sequences: `50:200` is one model for all of 50 to 200, `10,20` a model for each.

    >>> lengths("10,20,50:200")
    [(10, 10), (20, 20), (50, 200)]
    """
    pairs = _ranges("length", text, "T or LOW:HIGH, such as 50 or 50:200")
    for part, (low, high) in pairs:
        if ":" in part and low >= high:
            raise ValueError(f"length must be LOW:HIGH with LOW below HIGH, such as 50:200, not {part!r}")
    return [pair for _, pair in pairs]


def seeds(text: str) -> list[int]:
    """Seeds: `1:5` are the five seeds from 1 to 5, `1,7` these two.

    >>> seeds("1:3,7")
    [1, 2, 3, 7]
    """
    found: dict[int, None] = {}
    for part, (first, last) in _ranges("seeds", text, "S or FIRST:LAST, such as 1 or 1:5"):
        if first > last:
            raise ValueError(f"seeds must be FIRST:LAST in this order, such as 1:5, not {part!r}")
        found |= dict.fromkeys(range(first, last + 1))
    return list(found)


def written(numbers: Iterable[int]) -> str:
    """The numbers as `seeds` reads them, as short as can be.

    >>> written([1, 2, 3, 7])
    '1:3,7'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}:{run[-1]}" for run in runs)


def _ranges(name: str, text: str, allowed: str) -> list[tuple[str, tuple[int, int]]]:
    """The parts of a list, and the two ends of each."""
    found: list[tuple[str, tuple[int, int]]] = []
    for part in filter(None, map(str.strip, text.split(","))):
        ends = re.fullmatch(r"(\d+)(?::(\d+))?", part)
        if not ends:
            raise ValueError(f"{name} must be {allowed}, not {part!r}")
        found.append((part, (int(ends[1]), int(ends[2] or ends[1]))))
    return found

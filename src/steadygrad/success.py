"""How often something succeeds, and how sure that is: k of n seeds.

    p̂ = k / n                                                           the rate of success
    low, high = (k + z²/2 ± z √(k (n − k)/n + z²/4)) / (n + z²)          Wilson's interval (1927), z = 1.959964 for 95 %

It is right where the usual p̂ ± z √(p̂ (1 − p̂)/n) is worst: few seeds, and rates of 0 or 100 %, which is where every claim
of Pascanu et al. 2013 lies. 5 of 5 means 57 to 100 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from .checks import number, whole


def wilson(solved: int, seeds: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval for a rate of which `solved` of `seeds` trials were seen; `confidence` is in (0, 1).

    >>> low, high = wilson(5, 5)
    >>> f"{low:.3f} {high:.3f}"
    '0.566 1.000'

    Reference: E. B. Wilson 1927, "Probable inference, the law of succession, and statistical inference", JASA 22.
    """
    n, k = whole("seeds", seeds), whole("solved", solved, low=0)
    if k > n:
        raise ValueError(f"solved must be at most the number of seeds, {n}, not {k}")
    confidence = number("confidence", confidence, low=0, high=1, open_low=True, open_high=True)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    centre, reach = k + z * z / 2, z * math.sqrt(k * (n - k) / n + z * z / 4)
    # At k = 0 and k = n an end is exactly 0 or 1; rounding must not push it past.
    low = 0.0 if k == 0 else (centre - reach) / (n + z * z)
    high = 1.0 if k == n else (centre + reach) / (n + z * z)
    return low, high


@dataclass(frozen=True)
class SuccessRate:
    """So many of so many seeds solved it.

    >>> print(SuccessRate.of([True, True, False]))
    2/3
    >>> SuccessRate.of([]).rate is None
    True
    """

    solved: int
    seeds: int

    @classmethod
    def of(cls, verdicts: Iterable[bool]) -> SuccessRate:
        """Of one verdict for each seed."""
        each = [bool(verdict) for verdict in verdicts]
        return cls(sum(each), len(each))

    @property
    def rate(self) -> float | None:
        """k / n; None where there is no seed."""
        return self.solved / self.seeds if self.seeds else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval; without a seed nothing is known: 0 to 1."""
        return wilson(self.solved, self.seeds) if self.seeds else (0.0, 1.0)

    def __str__(self) -> str:
        return f"{self.solved}/{self.seeds}" if self.seeds else "–"


def p_of_pairs(pairs: Sequence[Sequence[float]]) -> float:
    """How likely a mean difference of pairs as large as theirs is where there is none: Student's paired t-test, two-sided.

    >>> f"{p_of_pairs([[7.0, 6.9], [7.1, 7.0], [7.2, 7.2]]):.2f}"
    '0.18'
    """
    from scipy.stats import ttest_1samp

    apart = [one - other for one, other in pairs]
    if math.isclose(min(apart), max(apart)):  # no spread at all: the test would divide by it
        return 1.0 if apart[0] == 0 else 0.0
    found: Any = ttest_1samp(apart, 0.0)
    return float(found.pvalue)


def grouped(items: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    """The items of each key, in the order in which they come.

    >>> grouped([1, 2, 3], lambda number: number % 2)
    {1: [1, 3], 0: [2]}
    """
    found: dict[Any, list[Any]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found

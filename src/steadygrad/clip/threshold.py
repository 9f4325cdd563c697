"""Where to clip: a fixed threshold, or one taken from the norms ‖g_1‖, ‖g_2‖, … of the updates before.

    fixed:       θ_n = θ
    Auto:        θ_n = m · μ_n,    μ_n = mean(a_{n−w}, …, a_{n−1}),    a_i = min(‖g_i‖, 10 μ_i)
      warm-up:   θ_n = m · median(‖g_1‖, …, ‖g_{n−1}‖)
    Percentile:  θ_n = the smallest of the last w norms that at least p % of them do not exceed

θ_1 of the last two is infinite: there is nothing to compare the first gradient with. Norms that are not finite never
come here, and a norm of 0 is passed over, since it says nothing about the scale of the others.

"One good heuristic for setting this threshold is to look at statistics on the average norm over a sufficiently large
number of updates" (Pascanu et al. 2013, section "Scaling down the gradients").
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from steadygrad import checks

OUTLIER = 10.0


@dataclass(frozen=True)
class Auto:
    """The paper's heuristic: a multiple of the average norm of the recent updates.

        θ_n = multiple · μ_n,    μ_n = mean(a_{n−window}, …, a_{n−1}),    a_i = min(‖g_i‖, 10 μ_i)

    No norm counts for more than ten times the average it met, so that one explosion, however large, raises the
    threshold by at most 9/window of itself, while a lasting change of scale is followed within one window. An average
    of few norms would be at the mercy of one explosion; the first `warmup` updates are therefore clipped at `multiple`
    times their median so far, and enter the first average bounded by ten times that median. (The lower median of an
    even number, so that of two norms the smaller counts.)

    Args:
      warmup: how many updates make the first average.
      multiple: how many times the average a norm may be, above 0.
      window: over how many updates the average runs, at least `warmup`.

    Example:
      >>> Auto(multiple=3)
      Auto(warmup=100, multiple=3.0, window=1000)

    Reference: Pascanu, Mikolov & Bengio 2013, section "Scaling down the gradients".
    """

    warmup: int = 100
    multiple: float = 5.0
    window: int = 1000

    def __post_init__(self) -> None:
        checks.whole("warmup", self.warmup)
        object.__setattr__(self, "multiple", checks.number("multiple", self.multiple, low=0, open_low=True))
        checks.whole("window", self.window, low=self.warmup)


@dataclass(frozen=True)
class Percentile:
    """The p-th percentile of the last `window` norms, before clipping.

        θ_n = the smallest of ‖g_{n−window}‖, …, ‖g_{n−1}‖ that at least p % of them do not exceed

    It is always one of those norms (no interpolation: between an ordinary norm and an explosion lies no threshold).
    About (100 − p) % of the updates are clipped.

    Args:
      p: above 0 and at most 100, the largest norm of the window.
      window: how many updates are remembered.

    Example:
      >>> Percentile(90, window=200)
      Percentile(p=90.0, window=200)
    """

    p: float
    window: int = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", checks.number("p", self.p, low=0, high=100, open_low=True))
        checks.whole("window", self.window)


Threshold = float | Literal["auto"] | Auto | Percentile


class Tracker(Protocol):
    """A threshold at work: `value` is θ for the next update, `observe` takes in the norm of one."""

    value: float

    def observe(self, norm: float) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def track(threshold: Threshold) -> Tracker:
    """The tracker of a threshold as given by the user.

    >>> track("median")
    Traceback (most recent call last):
    ValueError: threshold must be a number, 'auto', Auto(...) or Percentile(...), not 'median'
    """
    if isinstance(threshold, Auto):
        return _RunningMean(threshold)
    if isinstance(threshold, Percentile):
        return _RunningPercentile(threshold)
    if threshold == "auto":
        return _RunningMean(Auto())
    if not isinstance(threshold, (int, float)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"threshold must be a number, 'auto', Auto(...) or Percentile(...), not {threshold!r}")
    return _Fixed(checks.number("threshold", threshold, low=0, open_low=True))


class _Fixed:
    def __init__(self, value: float) -> None:
        self.value = value

    def observe(self, norm: float) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {"rule": "fixed"}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        _same_rule(state, self.state_dict())


class _RunningMean:
    def __init__(self, rule: Auto) -> None:
        self.value = math.inf
        self._rule = rule
        self._norms: deque[float] = deque(maxlen=rule.window)  # ‖g_i‖ during the warm-up, a_i after it
        self._ordered: list[float] = []  # the same in order, during the warm-up
        self._sum = 0.0
        self._turn = 0

    def observe(self, norm: float) -> None:
        if norm == 0:
            return
        norms, rule = self._norms, self._rule
        if len(norms) < rule.warmup:
            norms.append(norm)
            insort(self._ordered, norm)
            median = self._ordered[(len(norms) - 1) // 2]
            self.value = rule.multiple * median
            if len(norms) < rule.warmup:
                return
            bounded = [min(known, OUTLIER * median) for known in norms]
            norms.clear()
            norms.extend(bounded)
            self._ordered.clear()
            self._sum = math.fsum(norms)
        else:
            a = min(norm, OUTLIER * self._sum / len(norms))
            self._sum += a - norms[0] if len(norms) == rule.window else a
            norms.append(a)
            self._turn += 1
            if self._turn == rule.window:
                # what rounding left of numbers long gone must not outlive them
                self._sum = math.fsum(norms)
                self._turn = 0
        self.value = rule.multiple * self._sum / len(norms)

    def state_dict(self) -> dict[str, Any]:
        return {
            "rule": "auto",
            **asdict(self._rule),
            "norms": list(self._norms),
            "sum": self._sum,
            "turn": self._turn,
            "value": None if math.isinf(self.value) else self.value,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        _same_rule(state, {"rule": "auto", **asdict(self._rule)})
        self._norms = deque(state["norms"], maxlen=self._rule.window)
        self._ordered = sorted(self._norms) if len(self._norms) < self._rule.warmup else []
        self._sum, self._turn = state["sum"], state["turn"]
        self.value = math.inf if state["value"] is None else state["value"]


class _RunningPercentile:
    def __init__(self, rule: Percentile) -> None:
        self.value = math.inf
        self._rule = rule
        self._norms: deque[float] = deque(maxlen=rule.window)
        self._ordered: list[float] = []

    def observe(self, norm: float) -> None:
        if norm == 0:
            return
        if len(self._norms) == self._rule.window:
            del self._ordered[bisect_left(self._ordered, self._norms[0])]
        self._norms.append(norm)
        insort(self._ordered, norm)
        self.value = self._rank()

    def _rank(self) -> float:
        return self._ordered[math.ceil(self._rule.p * len(self._ordered) / 100) - 1] if self._ordered else math.inf

    def state_dict(self) -> dict[str, Any]:
        return {"rule": "percentile", **asdict(self._rule), "norms": list(self._norms)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        _same_rule(state, {"rule": "percentile", **asdict(self._rule)})
        self._norms = deque(state["norms"], maxlen=self._rule.window)
        self._ordered = sorted(self._norms)
        self.value = self._rank()


def _same_rule(state: dict[str, Any], rule: dict[str, Any]) -> None:
    came = {key: state.get(key) for key in rule}
    if came != rule:
        raise ValueError(f"state must come from a clipper with the threshold {rule}, not {came}")

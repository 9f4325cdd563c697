"""Thresholds at work: what each rule of threshold.py gathers from the norms, and the θ it gives for the next update."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from dataclasses import asdict
from statistics import median_low
from typing import Any

from .threshold import Auto, Percentile, Spike, Threshold
from .units import Clipping, Fixed, Tracker, same_rule

OUTLIER = 10.0  # of the mean
START = 1.0  # the largest θ while a robust Auto warms up
SPREAD = 100.0  # norms of which a tenth is almost 0 must not pull θ to 0
GAUSSIAN = 1.4826  # a normal variable's deviation, in its median deviations
CLOSE = 0.01  # the least deviation, of the mean


def track(threshold: Threshold) -> Tracker:
    """The tracker of a threshold as given by the user.

    >>> track("median")
    Traceback (most recent call last):
    ValueError: threshold must be a number, 'auto', Auto(...), Percentile(...) or Spike(...), not 'median'
    """
    if isinstance(threshold, Auto):
        return _RunningMean(threshold) if threshold.statistic == "mean" else _RunningMedian(threshold)
    if isinstance(threshold, Percentile):
        return _RunningPercentile(threshold)
    if isinstance(threshold, Spike):
        return _RunningDeviation(threshold)
    if threshold == "auto":
        return _RunningMedian(Auto())
    if not isinstance(threshold, (int, float)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            f"threshold must be a number, 'auto', Auto(...), Percentile(...) or Spike(...), not {threshold!r}"
        )
    return Fixed(threshold)


class _RunningMean(Clipping):
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
        # before there was a choice of statistics, this was the only one
        same_rule({"statistic": "mean", **state}, {"rule": "auto", **asdict(self._rule)})
        self._norms = deque(state["norms"], maxlen=self._rule.window)
        self._ordered = sorted(self._norms) if len(self._norms) < self._rule.warmup else []
        self._sum, self._turn = state["sum"], state["turn"]
        self.value = math.inf if state["value"] is None else state["value"]


class _Window(Clipping):
    """The last norms as they came and in order, and a θ that depends on their order alone."""

    def __init__(self, name: str, rule: Auto | Percentile) -> None:
        self.value = math.inf
        self._named: dict[str, Any] = {"rule": name, **asdict(rule)}
        self._norms: deque[float] = deque(maxlen=rule.window)
        self._ordered: list[float] = []
        self.value = self._threshold()

    def _threshold(self) -> float:
        raise NotImplementedError

    def observe(self, norm: float) -> None:
        if norm == 0:
            return
        if len(self._norms) == self._norms.maxlen:
            del self._ordered[bisect_left(self._ordered, self._norms[0])]
        self._norms.append(norm)
        insort(self._ordered, norm)
        self.value = self._threshold()

    def state_dict(self) -> dict[str, Any]:
        return {**self._named, "norms": list(self._norms)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        same_rule({"statistic": "mean", **state} if self._named["rule"] == "auto" else state, self._named)
        self._norms = deque(state["norms"], maxlen=self._norms.maxlen)
        self._ordered = sorted(self._norms)
        self.value = self._threshold()


class _RunningMedian(_Window):
    def __init__(self, rule: Auto) -> None:
        self._rule = rule
        super().__init__("auto", rule)

    def _threshold(self) -> float:
        ordered, rule = self._ordered, self._rule
        last = len(ordered) - 1
        if last < 0:
            return START
        q50, q10 = ordered[last // 2], ordered[last // 10]
        # not as a product with q10: that may be as small as it likes, and the bound on the spread holds either way
        value = rule.multiple * q50 / min(q50 / q10, SPREAD)
        return min(value, START) if len(ordered) < rule.warmup else value


class _RunningPercentile(_Window):
    def __init__(self, rule: Percentile) -> None:
        self._p = rule.p
        super().__init__("percentile", rule)

    def _threshold(self) -> float:
        return self._ordered[math.ceil(self._p * len(self._ordered) / 100) - 1] if self._ordered else math.inf


class _RunningDeviation:
    watches_spikes = True

    def __init__(self, rule: Spike) -> None:
        self.value = math.inf
        self.skips = rule.action == "skip"
        self._rule = rule
        self._first: list[float] = []  # the norms of the warm-up
        self._mean = self._spread = 0.0

    def observe(self, norm: float) -> None:
        if norm == 0:
            return
        rule, first = self._rule, self._first
        if len(first) < rule.warmup:
            first.append(norm)
            if len(first) < rule.warmup:
                return
            self._mean = median_low(first)
            self._spread = GAUSSIAN * median_low([abs(known - self._mean) for known in first])
        else:
            off = min(norm, self.value) - self._mean
            self._mean += (1 - rule.decay) * off
            # √(d s² + (1−d) off²), whatever their size
            self._spread = math.hypot(math.sqrt(rule.decay) * self._spread, math.sqrt(1 - rule.decay) * off)
        self._set_value()

    def why(self, norm: float) -> str:
        return (
            f"a spike: norm {norm:.4g} above {self.value:.4g}, the mean {self._mean:.4g} + {self._rule.z:g} "
            f"deviations of {self._deviation():.4g}"
        )

    def state_dict(self) -> dict[str, Any]:
        gathered = {"first": list(self._first), "mean": self._mean, "deviation": self._spread}
        return {"rule": "spike", **asdict(self._rule), **gathered}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        same_rule(state, {"rule": "spike", **asdict(self._rule)})
        self._first = list(state["first"])
        self._mean, self._spread = state["mean"], state["deviation"]
        if len(self._first) == self._rule.warmup:
            self._set_value()
        else:
            self.value = math.inf

    def _deviation(self) -> float:
        return max(self._spread, CLOSE * self._mean)

    def _set_value(self) -> None:
        self.value = self._mean + self._rule.z * self._deviation()

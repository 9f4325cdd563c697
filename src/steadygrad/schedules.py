"""How a learning rate, or α, changes as training goes on (a factor of its first value), and how lengths grow.

    constant          1
    1/t               1/t,  t = 1 + ⌊updates / epoch⌋            the paper's α_t for music (Pascanu et al. 2013, supplement)
    half-when-worse   ½ for every epoch whose mean loss is above that of the epoch before it (the paper's rate for music)
    linear            1 − s,  s = min(1, updates / max_updates)
    cosine            (1 + cos πs)/2
    1/length          min(1, 50 / T),  T the longest length of now                of a rate alone, where lengths may grow
    1/length^1.5      min(1, 50 / T)^1.5

An epoch is a pass over the data. Problems that draw their sequences have none: there `epoch` updates make one.

What W_rec is changed by acts T times in a sequence of T steps: the longer they are, the finer the steps must be.

Curriculum (no part of the paper; a short sequence lets the error reach its start while W_rec is still small):

    [low, high] begins at the curriculum's; whenever the mean loss of the last `patience` updates, all of them at the
    lengths of now, is below `loss`:  low ← min(⌈growth · low⌉, target low),  high likewise

A network that could do shorter lengths can lose that again at longer ones. With `lost`, whenever the mean loss of the last
10 · `patience` updates since then is above it, the weights are those of the last growth again:

    lost:    θ ← θ at the last growth,  rate ← 0.7 rate           grown:    rate ← min(1, 1.1 rate)
"""

from __future__ import annotations

import math
from collections import deque
from itertools import islice
from typing import Any, Literal, get_args

from .checks import WrongTypeError, number, one_of, whole

ScheduleName = Literal["constant", "1/t", "half-when-worse", "linear", "cosine"]
ByLength = Literal["1/length", "1/length^1.5"]
SCHEDULES, SCHEDULES_BY_LENGTH = get_args(ScheduleName), get_args(ByLength)
OF_LENGTH = {"1/length": 1.0, "1/length^1.5": 1.5}  # name to power
SHORT = 50
LOOKS = 10  # how often in `patience` updates a curriculum takes the mean loss
LONG = 10  # times `patience`: how long the loss must be too high for a network to be lost
SLOWER, QUICKER = 0.7, 1.1
GROWN, LOST = "grown", "lost"


class Schedule:
    """The factor of a value as training goes on: one of `SCHEDULES`, or of `OF_LENGTH`.

    `epoch` is the number of updates in an epoch, and 'linear' and 'cosine' reach 0 at `max_updates`.

        >>> schedule = Schedule("1/t", epoch=100, max_updates=1000)
        >>> [schedule.factor(updates) for updates in (0, 99, 100, 350)]
        [1.0, 1.0, 0.5, 0.25]
    """

    def __init__(self, name: str, epoch: int, max_updates: int) -> None:
        self.name = one_of("schedule", name, (*SCHEDULES, *OF_LENGTH))
        self.epoch, self.max_updates = whole("epoch", epoch), whole("max_updates", max_updates)
        self._halvings, self._seen, self._sum = 0, 0, 0.0
        self._before: float | None = None

    def factor(self, updates: float, length: int = SHORT) -> float:
        """What to multiply the first value with in the update after `updates` of them, at lengths up to `length`."""
        if self.name == "constant":
            return 1.0
        if self.name in OF_LENGTH:
            return min(1.0, SHORT / length) ** OF_LENGTH[self.name]
        if self.name == "1/t":
            return 1.0 / (1 + updates // self.epoch)
        if self.name == "half-when-worse":
            return 0.5**self._halvings
        s = min(1.0, updates / self.max_updates)
        return 1.0 - s if self.name == "linear" else 0.5 * (1.0 + math.cos(math.pi * s))

    def observe(self, loss: float) -> None:
        """Take in the loss of one update. One that is not finite makes its epoch worse than any."""
        if self.name != "half-when-worse":
            return
        self._seen += 1
        self._sum += loss
        if self._seen < self.epoch:
            return
        mean = self._sum / self._seen
        if self._before is not None and not mean <= self._before:
            self._halvings += 1
        self._before = mean if math.isfinite(mean) else None
        self._seen, self._sum = 0, 0.0

    def state_dict(self) -> dict[str, Any]:
        # a sum that is no longer finite is spelled out: JSON has no such number
        total = self._sum if math.isfinite(self._sum) else str(self._sum)
        return {"halvings": self._halvings, "seen": self._seen, "sum": total, "before": self._before}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._halvings, self._seen = state["halvings"], state["seen"]
        self._sum, self._before = float(state["sum"]), state["before"]


class Curriculum:
    """The range of lengths to draw from `now`, and `rate`, the factor of the learning rate.

    It begins at `start`, or at `target` if that is None; `growth`, `patience`, `loss` and `lost` are as in the equations above.

        >>> lengths = Curriculum((20, 30), (50, 200), growth=1.5, patience=2, loss=0.1)
        >>> [lengths.observe(loss) for loss in (1.0, 0.05, 0.05, 0.05, 0.05)]
        [None, None, 'grown', None, 'grown']
        >>> lengths.now
        (45, 68)
    """

    def __init__(
        self,
        start: tuple[int, int] | None,
        target: tuple[int, int],
        growth: float,
        patience: int,
        loss: float,
        lost: float | None = None,
    ) -> None:
        self.target = _range("target", target)
        self.now, self.rate = self.target if start is None else _range("start", start), 1.0
        if any(first > last for first, last in zip(self.now, self.target, strict=True)):
            raise ValueError(f"start must begin and end no later than target, {self.target}, not {start!r}")
        self.growth = number("growth", growth, low=1, open_low=True)
        self.patience, self.loss = whole("patience", patience), number("loss", loss)
        self.lost = None if lost is None else number("lost", lost)
        self._has_grown = False
        self._losses: deque[float] = deque(maxlen=patience if lost is None else LONG * patience)
        self._look_every = max(1, patience // LOOKS)
        self._seen = 0

    def observe(self, loss: float) -> str | None:
        """Take in the loss of one update; say whether the lengths have grown by it, or the network is lost."""
        if self.now == self.target and self.lost is None:
            return None
        self._losses.append(loss)
        self._seen += 1
        if self._seen < self.patience or self._seen % self._look_every:
            return None
        if self._mean(self.patience) < self.loss:
            (low, high), (last_low, last_high) = self.now, self.target
            self.now = min(math.ceil(self.growth * low), last_low), min(math.ceil(self.growth * high), last_high)
            self.rate, self._has_grown = min(1.0, QUICKER * self.rate), True
            return self._begin(GROWN)
        long = LONG * self.patience
        # a loss that is not a number is no small one
        if self.lost is not None and self._has_grown and self._seen >= long and not self._mean(long) <= self.lost:
            self.rate *= SLOWER
            return self._begin(LOST)
        return None

    def _mean(self, number: int) -> float:
        return sum(islice(reversed(self._losses), number)) / number

    def _begin(self, why: str) -> str:
        self._losses.clear()
        self._seen = 0
        return why

    def state_dict(self) -> dict[str, Any]:
        losses = [loss if math.isfinite(loss) else str(loss) for loss in self._losses]
        state = {"now": list(self.now), "losses": losses, "seen": self._seen}
        return {**state, "rate": self.rate, "has_grown": self._has_grown}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.now, self._seen = tuple(state["now"]), state["seen"]
        self.rate, self._has_grown = state["rate"], state["has_grown"]
        self._losses = deque(map(float, state["losses"]), maxlen=self._losses.maxlen)


def _range(name: str, value: Any) -> tuple[int, int]:
    if not (isinstance(value, (tuple, list)) and len(value) == 2 and all(type(end) is int for end in value)):
        raise WrongTypeError(f"{name} must be a pair of whole numbers such as (50, 200), not {value!r}")
    low, high = value
    if not 1 <= low <= high:
        raise ValueError(f"{name} must be a pair of whole numbers from 1 on, low before high, not {value!r}")
    return low, high

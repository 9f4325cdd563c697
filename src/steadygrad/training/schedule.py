"""How a learning rate, or α, changes as training goes on: a factor of its first value.

    constant          1
    1/t               1/t,  t = 1 + ⌊updates / epoch⌋            the paper's α_t for music (supplement)
    half-when-worse   ½ for every epoch whose mean loss is above that of the epoch before it (the paper's rate for music)
    linear            1 − s,  s = min(1, updates / max_updates)
    cosine            (1 + cos πs)/2
    1/length          min(1, 50 / T),  T the longest length of now                of a rate alone, where lengths may grow
    1/length^1.5      min(1, 50 / T)^1.5

The synthetic tasks draw every sequence anew and have no epochs of their own: an epoch is `epoch` updates.

What W_rec is changed by acts T times in a sequence of T steps: the longer they are, the finer the steps must be.
"""

from __future__ import annotations

import math
from typing import Any

from ..checks import one_of

SCHEDULES = ("constant", "1/t", "half-when-worse", "linear", "cosine")
OF_EPOCHS = ("1/t", "half-when-worse")
OF_LENGTH = {"1/length": 1.0, "1/length^1.5": 1.5}
"""Name to power."""
SHORT = 50


class Schedule:
    """The factor of a value as training goes on.

    Args:
        name: one of `SCHEDULES`, or of `OF_LENGTH`.
        epoch: updates in an epoch, for '1/t' and 'half-when-worse'.
        max_updates: where 'linear' and 'cosine' reach 0.

    Example:
        >>> schedule = Schedule("1/t", epoch=100, max_updates=1000)
        >>> [schedule.factor(updates) for updates in (0, 99, 100, 350)]
        [1.0, 1.0, 0.5, 0.25]

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "Polyphonic music prediction".
    """

    def __init__(self, name: str, epoch: int, max_updates: int) -> None:
        self.name = one_of("schedule", name, (*SCHEDULES, *OF_LENGTH))
        self.epoch, self.max_updates = epoch, max_updates
        self._halvings = 0
        self._seen, self._sum = 0, 0.0
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
        """What it has seen, as plain numbers."""
        # a sum that is no longer finite is spelled out: JSON has no such number
        total = self._sum if math.isfinite(self._sum) else str(self._sum)
        return {"halvings": self._halvings, "seen": self._seen, "sum": total, "before": self._before}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict()`, to the very same numbers."""
        self._halvings, self._seen = state["halvings"], state["seen"]
        self._sum, self._before = float(state["sum"]), state["before"]

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
    lengths of now, is below `loss`:  low ← min(⌈growth · low⌉, low + most, target low),  high likewise

A network that could do shorter lengths can lose that again at longer ones. With `lost`, whenever the mean loss of the last
10 · `patience` updates since then is above it, the weights are those of the last growth again:

    lost:    θ ← θ at the last growth,  rate ← 0.7 rate           grown:    rate ← min(1, 1.1 rate)

Latch, stages that make a memory last (no part of the paper): Ω finds it, training without Ω makes it hold.

    learn    as it begins, with Ω; lengths grow                             until the longest is `share` of the target's
    hold     no Ω, half the noise, 2/3 of the rate; lengths grow to         until at most 1 % are wrong at 1, 2, 5 and 10 times
             twice the target's longest                                     that length, by the mean of the weights
    again    not so after 5,000 updates: the weights from before `hold`,    for 3,000 updates, and until the loss is below 0.25:
             Ω, noise and rate as in `learn`, at the lengths reached        then `hold` once more
    settle   as `hold`, lengths grow to four times the target's longest,    for 6,000 updates
             the rate falls linearly to 0

A state that latches forgets small differences, so the error that goes back through it shrinks: Ω, which asks for an error that
keeps its norm, is against it. But from small initial weights nothing is learned without Ω, as no error arrives. So Ω comes
first. Noise before the nonlinearity makes a memory that drifts cost something at any length, and at lengths above the target's
the same drift is seen in the loss.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
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

LEARN, HOLD, AGAIN, SETTLE, DONE = "learn", "hold", "again", "settle", "done"
WITH_OMEGA = (LEARN, AGAIN)
TESTED = (1, 2, 5, 10)  # times the longest length
HOLDS = 0.01  # at most this share is wrong at each of them
QUIETER, FINER = 1 / 2, 2 / 3  # factors of the noise, and of the rate and the curriculum's patience
HOLD_UPDATES, AGAIN_UPDATES, SETTLE_UPDATES = 5000, 3000, 6000
AGAIN_LOSS = 0.25
FURTHER = {HOLD: 2, SETTLE: 4, DONE: 4}  # times the longest length, where lengths grow to


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

    It begins at `start`, or at `target` if that is None; `growth`, `patience`, `loss`, `lost` and `most` are as in the
    equations above. Where every length needs a solution of its own, as memorization does, it is the number of steps that tells
    how far the next one is, not the factor.

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
        most: int | None = None,
    ) -> None:
        self.target = _range("target", target)
        self.now, self.rate = self.target if start is None else _range("start", start), 1.0
        if any(first > last for first, last in zip(self.now, self.target, strict=True)):
            raise ValueError(f"start must begin and end no later than target, {self.target}, not {start!r}")
        self.growth = number("growth", growth, low=1, open_low=True)
        self.patience, self.loss = whole("patience", patience), number("loss", loss)
        self.lost = None if lost is None else number("lost", lost)
        self.most = None if most is None else whole("most", most)
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
            low, high = (min(self._next(length), last) for length, last in zip(self.now, self.target, strict=True))
            self.now = low, high
            self.rate, self._has_grown = min(1.0, QUICKER * self.rate), True
            return self._begin(GROWN)
        long = LONG * self.patience
        # a loss that is not a number is no small one
        if self.lost is not None and self._has_grown and self._seen >= long and not self._mean(long) <= self.lost:
            self.rate *= SLOWER
            return self._begin(LOST)
        return None

    def _next(self, length: int) -> int:
        return min(math.ceil(self.growth * length), length + (self.most or self.target[1]))

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


class Latch:
    """The stage of training, `since` so many updates; `curriculum` has its lengths, `left_at` are those at which Ω was left.

    The training loop multiplies α, its noise and its rate with `alpha`, `noise` and `rate(updates)`. It calls `check` at every
    test, and when a stage begins it takes `curriculum` and changes the weights: at 'hold' to their mean over the last updates,
    of which it keeps a copy; at 'settle' to their mean; at 'again' to the copy.

        >>> lengths = Curriculum((40, 50), (50, 200), growth=1.15, patience=300, loss=0.1)
        >>> latch = Latch(lengths, share=0.6)
        >>> latch.alpha, latch.tested_lengths
        (1.0, [200, 400, 1000, 2000])
        >>> lengths.now = (50, 120)
        >>> latch.check(9000, wrong=[], loss=0.05, is_solved=False), latch.alpha, latch.curriculum.target
        ('hold', 0.0, (50, 400))
    """

    def __init__(self, curriculum: Curriculum, share: float) -> None:
        self.curriculum = self._first = curriculum
        self.share = number("share", share, low=0, open_low=True, high=1)
        self.stage, self.since, self.left_at = LEARN, 0, curriculum.now

    @property
    def is_done(self) -> bool:
        return self.stage == DONE

    @property
    def tested_lengths(self) -> list[int]:
        """Where the memory must last."""
        return [times * self._first.target[1] for times in TESTED]

    @property
    def alpha(self) -> float:
        """The factor of α."""
        return 1.0 if self.stage in WITH_OMEGA else 0.0

    @property
    def noise(self) -> float:
        """The factor of the noise."""
        return 1.0 if self.stage in WITH_OMEGA else QUIETER

    def rate(self, updates: int) -> float:
        """The factor of the learning rate in the update after `updates` of them."""
        left = 1 - (updates - self.since) / SETTLE_UPDATES if self.stage == SETTLE else 1.0
        return 1.0 if self.stage in WITH_OMEGA else FINER * max(0.0, left)

    def check(self, updates: int, wrong: Sequence[float], loss: float | None, is_solved: bool) -> str | None:
        """Go on to the next stage if it is time, and return its name.

        Args:
            updates: that were made so far.
            wrong: the error of the mean weights at each of `tested_lengths`; empty with Ω.
            loss: the mean since the check before; None where no loss was finite.
            is_solved: whether the problem was solved at the lengths of the target.
        """
        now, made = self.curriculum.now, updates - self.since
        if self.stage == LEARN and now[1] >= self.share * self._first.target[1]:
            return self._begin(HOLD, updates, now)
        if self.stage == AGAIN and made >= AGAIN_UPDATES and loss is not None and loss < AGAIN_LOSS:
            return self._begin(HOLD, updates, now)
        if self.stage == HOLD and max(wrong) <= HOLDS:
            return self._begin(SETTLE, updates)
        if (self.stage == HOLD and made >= HOLD_UPDATES) or (self.stage == SETTLE and made >= SETTLE_UPDATES):
            return self._begin(DONE if self.stage == SETTLE and is_solved else AGAIN, updates)
        return None

    def state_dict(self) -> dict[str, Any]:
        return {"stage": self.stage, "since": self.since, "lengths": list(self.left_at)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict()`; `curriculum` is then that of the stage, and has a state of its own to be loaded."""
        self.stage, self.since, self.left_at = state["stage"], state["since"], tuple(state["lengths"])
        self.curriculum = self._of_stage()

    def _begin(self, stage: str, updates: int, left_at: tuple[int, int] | None = None) -> str:
        before = self.curriculum.state_dict()
        self.stage, self.since, self.left_at = stage, updates, left_at or self.left_at
        self.curriculum = self._of_stage()
        if stage in (SETTLE, DONE):  # the lengths go on growing where they are
            self.curriculum.load_state_dict(before)
        return stage

    def _of_stage(self) -> Curriculum:
        first, (low, high) = self._first, self._first.target
        if self.stage == LEARN:
            return first
        if self.stage == AGAIN:
            return Curriculum(self.left_at, self.left_at, first.growth, first.patience, first.loss)  # does not grow
        further = low, FURTHER[self.stage] * high
        patience = round(FINER * first.patience)
        return Curriculum(self.left_at, further, first.growth, patience, first.loss, first.lost, first.most)


def _range(name: str, value: Any) -> tuple[int, int]:
    if not (isinstance(value, (tuple, list)) and len(value) == 2 and all(type(end) is int for end in value)):
        raise WrongTypeError(f"{name} must be a pair of whole numbers such as (50, 200), not {value!r}")
    low, high = value
    if not 1 <= low <= high:
        raise ValueError(f"{name} must be a pair of whole numbers from 1 on, low before high, not {value!r}")
    return low, high

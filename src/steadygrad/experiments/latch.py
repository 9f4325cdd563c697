"""Stages of training that make a memory last: Ω finds it, training without Ω makes it hold.

    learn    the settings as they are, with Ω; lengths grow                 until the longest is `latch` times the settings'
    hold     no Ω, half the noise, 2/3 of the rate; lengths grow to         until at most 1 % are wrong at 1, 2, 5 and 10 times
             twice the longest of the settings                              the longest length, by the mean of the weights
    again    not so after 5,000 updates: the weights from before `hold`,    for 3,000 updates, and until the loss is below 0.25:
             Ω, noise and rate as in `learn`, at the lengths reached        then `hold` once more
    settle   as `hold`, lengths grow to four times the longest,             for 6,000 updates
             the rate falls linearly to 0

A state that latches forgets small differences, so the error that goes back through it shrinks: Ω, which asks for an error that
keeps its norm, is against it. But from small initial weights nothing is learned without Ω, as no error arrives. So Ω comes
first. Noise before the nonlinearity makes a memory that drifts cost something at any length, and at lengths above those of the
settings the same drift is seen in the loss. Each stage begins with the mean of the weights (`average`) of the one before.
(No part of the paper.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..schedules import Curriculum

if TYPE_CHECKING:
    from .learner import Learner

LEARN, HOLD, AGAIN, SETTLE, DONE = "learn", "hold", "again", "settle", "done"
WITH_OMEGA = (LEARN, AGAIN)
TESTED = (1, 2, 5, 10)  # times the longest length
HOLDS = 0.01  # at most this share is wrong at each of them
QUIETER, FINER = 1 / 2, 2 / 3  # factors of the noise, and of the rate and the curriculum's patience
HOLD_UPDATES, AGAIN_UPDATES, SETTLE_UPDATES = 5000, 3000, 6000
AGAIN_LOSS = 0.25
FURTHER = {HOLD: 2, SETTLE: 4, DONE: 4}  # times the longest length, where lengths grow to


class Latch:
    """The stage that a learner is in, `since` so many updates; `lengths` are those at which Ω was left."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.config = learner, learner.config
        self.stage, self.since, self.lengths = LEARN, 0, learner.feed.lengths.now

    @property
    def is_done(self) -> bool:
        return self.stage == DONE

    @property
    def tested_lengths(self) -> list[int]:
        """Where the memory must last."""
        return [times * self.config.length[1] for times in TESTED]

    @property
    def alpha(self) -> float:
        """The factor of α."""
        return 1.0 if self.stage in WITH_OMEGA else 0.0

    @property
    def rate(self) -> float:
        """The factor of the learning rate."""
        left = 1 - (self.learner.updates - self.since) / SETTLE_UPDATES if self.stage == SETTLE else 1.0
        return 1.0 if self.stage in WITH_OMEGA else FINER * max(0.0, left)

    def check(self, wrong: Sequence[float], loss: float | None, is_solved: bool) -> str | None:
        """Go on to the next stage if it is time, and return what to tell the user of it.

        Args:
            wrong: the error of the mean weights at each of `TESTED`; empty with Ω.
            loss: the mean since the check before; None where no loss was finite.
            is_solved: whether the problem was solved at the lengths of the settings.
        """
        now, made = self.learner.feed.lengths.now, self.learner.updates - self.since
        if self.stage == LEARN and now[1] >= (self.config.latch or 1.0) * self.config.length[1]:
            return self._hold(now)
        if self.stage == AGAIN and made >= AGAIN_UPDATES and loss is not None and loss < AGAIN_LOSS:
            return self._hold(now)
        if self.stage == HOLD and max(wrong) <= HOLDS:
            self.learner.adopt()
            self._begin(SETTLE)
            return f"the memory lasts; the rate falls to 0 over {SETTLE_UPDATES:,} updates"
        if (self.stage == HOLD and made >= HOLD_UPDATES) or (self.stage == SETTLE and made >= SETTLE_UPDATES):
            if self.stage == SETTLE and is_solved:
                self._begin(DONE)
                return None
            self.learner.return_to_before()
            self._begin(AGAIN)
            return "the memory does not last yet: Ω again, from the weights it was left at"
        return None

    def state(self) -> dict[str, Any]:
        return {"stage": self.stage, "since": self.since, "lengths": list(self.lengths)}

    def load_state(self, state: dict[str, Any]) -> None:
        self.stage, self.since, self.lengths = state["stage"], state["since"], tuple(state["lengths"])
        self._set()

    def _hold(self, now: tuple[int, int]) -> str:
        self.lengths = now
        self.learner.adopt(before=True)
        self._begin(HOLD)
        return f"sequences of up to {now[1]} steps are learned; trains on without Ω until the memory lasts"

    def _begin(self, stage: str) -> None:
        before = self.learner.feed.lengths.state_dict()
        self.stage, self.since = stage, self.learner.updates
        self._set()
        if stage in (SETTLE, DONE):  # the lengths go on growing where they are
            self.learner.feed.lengths.load_state_dict(before)

    def _set(self) -> None:
        """Give the learner the lengths and the noise of the stage."""
        config = self.config
        if self.learner.network.noisy is not None:
            self.learner.network.noisy.scale(config.noise * (1.0 if self.stage in WITH_OMEGA else QUIETER))
        low, high = config.length
        if self.stage == AGAIN:
            self.learner.feed.lengths = Curriculum(
                self.lengths, self.lengths, config.growth, config.curriculum_patience, config.curriculum_loss
            )
        elif self.stage != LEARN:
            further = low, FURTHER[self.stage] * high
            growing = config.growth, round(FINER * config.curriculum_patience), config.curriculum_loss
            self.learner.feed.lengths = Curriculum(self.lengths, further, *growing, config.curriculum_lost)

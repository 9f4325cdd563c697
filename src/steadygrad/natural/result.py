"""The verdict of a run on music or text."""

from __future__ import annotations

from dataclasses import dataclass

from ..training.result import Verdict


@dataclass(frozen=True)
class NaturalResult(Verdict):
    """How a run on music or text ended.

    Attributes:
        train, valid, test: the figure of merit of the weights that were best on validation, over the whole of each part:
            nats a step (music) or bits a character (text). None where it is not known: the test set is read once, at
            the end, and a run that diverged in its first epoch has no best weights.
        best_epoch: the epoch they were validated at; 0 where there are none.
        epochs: how many were made, the last perhaps in part.
        updates, seconds: how many there were, validation included in the time.
        reason: why it ended: 'epochs', 'patience', 'max_seconds', 'interrupted' or 'diverged: …'.
        tokens_per_second: predictions learned from in a second of training, validation left out.
    """

    train: float | None
    valid: float | None
    test: float | None
    best_epoch: int
    epochs: int
    updates: int
    seconds: float
    reason: str
    tokens_per_second: float

"""Lengths that grow as the loss falls.

    [low, high] begins at the curriculum's; whenever the mean loss of the last `patience` updates, all of them at the
    lengths of now, is below `loss`:  low ← min(⌈growth · low⌉, target low),  high likewise

It is no part of the paper. A short sequence lets the error reach its start while W_rec is still small, and Ω keeps it
arriving there as the sequence grows.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

LOOKS = 10
"""How often in `patience` updates the mean is taken."""


class Curriculum:
    """The range of lengths to draw from, now.

    Args:
        start: the lengths to begin with; None for `target` from the start.
        target: the lengths to end with.
        growth, patience, loss: as in the equation above.

    Example:
        >>> lengths = Curriculum((20, 30), (50, 200), growth=1.5, patience=2, loss=0.1)
        >>> for loss in (1.0, 0.05, 0.05, 0.05, 0.05):
        ...     lengths.observe(loss)
        >>> lengths.now
        (45, 68)
    """

    def __init__(
        self, start: tuple[int, int] | None, target: tuple[int, int], growth: float, patience: int, loss: float
    ) -> None:
        self.now = start or target
        self.target = target
        self.growth, self.patience, self.loss = growth, patience, loss
        self._losses: deque[float] = deque(maxlen=patience)
        self._look_every = max(1, patience // LOOKS)
        self._seen = 0

    @property
    def finished(self) -> bool:
        """Whether the lengths are the target's."""
        return self.now == self.target

    def finish(self) -> None:
        """Go to the target at once."""
        self.now = self.target

    def observe(self, loss: float) -> None:
        """Take in the loss of one update, and grow if it is time."""
        if self.finished:
            return
        self._losses.append(loss)
        self._seen += 1
        if self._seen < self.patience or self._seen % self._look_every:
            return
        if sum(self._losses) / self.patience < self.loss:
            low, high = (
                min(math.ceil(self.growth * end), last) for end, last in zip(self.now, self.target, strict=True)
            )
            self.now = (low, high)
            self._losses.clear()
            self._seen = 0

    def state_dict(self) -> dict[str, Any]:
        """Where it is, as plain numbers."""
        losses = [loss if math.isfinite(loss) else str(loss) for loss in self._losses]
        return {"now": list(self.now), "losses": losses, "seen": self._seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict()`, to the very same numbers."""
        low, high = state["now"]
        self.now = (low, high)
        self._losses = deque(map(float, state["losses"]), maxlen=self.patience)
        self._seen = state["seen"]

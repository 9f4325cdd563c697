"""The weights that were best on validation, and how long none were better."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor


class Best:
    """What was found at the best validation so far.

    Attributes:
        epoch: when it was; 0 before the first.
        valid: the figure of merit; infinite before the first.
        weights: the weights then.
    """

    def __init__(self) -> None:
        self.epoch, self.updates, self.valid = 0, 0, math.inf
        self.weights: dict[str, Tensor] = {}

    def consider(self, valid: float, epoch: int, updates: int, weights: dict[str, Tensor]) -> bool:
        """Keep the weights if they are better than any before, and say whether they are."""
        better = valid < self.valid
        if better:
            self.epoch, self.updates, self.valid, self.weights = epoch, updates, valid, weights
        return better

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The weights by name, and the rest as plain values."""
        valid = self.valid if math.isfinite(self.valid) else None
        return self.weights, {"epoch": self.epoch, "updates": self.updates, "valid": valid}

    def load_state(self, weights: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from `state()`."""
        self.weights, self.epoch, self.updates = weights, values["epoch"], values["updates"]
        self.valid = math.inf if values["valid"] is None else values["valid"]

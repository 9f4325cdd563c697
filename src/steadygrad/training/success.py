"""Success as the supplement has it, and the best weights so far.

    solved: at most 1 % wrong of 10,000 fresh sequences        (Pascanu et al. 2013, supplement)

A test begins with few sequences, and goes on to all of them only if these promise success: far from it, the answer is
clear early. Each test draws its own sequences, from a stream that only the seed and the number of updates decide.

A network that has solved its lengths may still have only just done so: some keep what they saw for 200 steps and no longer.
While it is polished, the best weights are those of the solved ones that err least at twice the longest length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .config import RunConfig
from .evaluation import Score, score
from .network import Network, stream

PROMISE, AT_LEAST = 5.0, 0.01
"""All sequences are tested if the first are wrong in at most 5 times the share allowed, or 1 %, whichever is more."""


@dataclass(frozen=True)
class Best:
    """The weights of the best test: when it was, and what it found."""

    updates: int
    score: Score
    whole: bool
    weights: dict[str, Tensor]
    beyond: float = 0.0
    """The error at twice the longest length, once it is asked for."""

    @property
    def rank(self) -> tuple[float, float, float]:
        """Fewer wrong is better, beyond the longest length first; of equals, the smaller loss."""
        loss = self.score.loss
        return self.beyond, self.score.error, loss if math.isfinite(loss) else math.inf


class Success:
    """Tests a network as it learns, and remembers the first success and the best weights.

    Args:
        config: the settings of the run.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.best: Best | None = None
        self.updates: int | None = None
        self.seconds: float | None = None

    @property
    def solved(self) -> bool:
        """Whether a test of all sequences has found few enough wrong."""
        return self.updates is not None

    def test(self, network: Network, updates: int) -> Score:
        """Test on a few fresh sequences, and then on all of them if it promises to be worth it."""
        config = self.config
        if config.check_sequences < config.test_sequences:
            few = score(network, config.length, config.check_sequences, stream(config.seed, "few", updates))
            if few.error > max(PROMISE * config.success, AT_LEAST):
                return few
        return self.test_all(network, updates)

    def test_all(self, network: Network, updates: int) -> Score:
        """Test on all the test sequences."""
        config = self.config
        return score(network, config.length, config.test_sequences, stream(config.seed, "test", updates))

    def test_beyond(self, network: Network, found: Score, updates: int) -> float | None:
        """The error at twice the longest length, for a network to be polished; None where it has not solved its own."""
        config = self.config
        if config.after_success != "polish" or not self._solves(found):
            return None
        twice = 2 * config.length[1]
        return score(network, (twice, twice), config.check_sequences, stream(config.seed, "beyond", updates)).error

    def consider(
        self, found: Score, updates: int, seconds: float, weights: dict[str, Tensor], beyond: float | None = None
    ) -> bool:
        """Remember the weights if none before were better, and say whether this is the first success."""
        candidate = Best(updates, found, found.sequences == self.config.test_sequences, weights, beyond or 0.0)
        first = not self.solved and self._solves(found)
        if first:
            self.updates, self.seconds = updates, seconds
        # once solved, only what solves it too can be better
        better = self.best is None or (candidate.rank < self.best.rank and (self._solves(found) or not self.solved))
        if first or better:
            self.best = candidate
        return first

    def _solves(self, found: Score) -> bool:
        # a test of a few sequences can look better by chance
        return found.sequences == self.config.test_sequences and found.error <= self.config.success

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The best weights by name, and the rest as plain values."""
        values: dict[str, Any] = {"updates": self.updates, "seconds": self.seconds, "best": None}
        if self.best is None:
            return {}, values
        found = self.best.score
        values["best"] = {
            "updates": self.best.updates,
            "whole": self.best.whole,
            "beyond": self.best.beyond,
            "error": found.error,
            "errors": found.errors,
            "loss": found.loss if math.isfinite(found.loss) else None,
            "sequences": found.sequences,
        }
        return self.best.weights, values

    def load_state(self, weights: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from `state()`."""
        self.updates, self.seconds = values["updates"], values["seconds"]
        best = values["best"]
        if best is not None:
            loss = math.inf if best["loss"] is None else best["loss"]
            found = Score(best["error"], best["errors"], loss, best["sequences"])
            self.best = Best(best["updates"], found, best["whole"], weights, best.get("beyond", 0.0))

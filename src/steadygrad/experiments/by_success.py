"""Problems that draw their sequences: tests on fresh ones, success as the supplement has it, and polishing.

    every `check_every`       test on fresh sequences, look at the gradients, write a line
    solved                    at most 1 % wrong of 10,000 fresh sequences        (Pascanu et al. 2013, supplement)
    after the first success   stop, or polish
    at the end                test the weights that were not tested yet

A test begins with few sequences, and goes on to all of them only if these promise success: far from it, the answer is clear
early. Each test draws its own sequences, from a stream that only the seed and the number of updates decide.

A network that has solved its lengths may have only just done so: some keep what they saw for 200 steps and no longer. While it
is polished, the best weights are those of the solved ones that err least at twice the longest length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .config import Config
from .evaluation import Score, score
from .network import Network, stream
from .record import look
from .saved import Result

if TYPE_CHECKING:
    from .loop import Loop

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

    def __init__(self, config: Config) -> None:
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

    def state(self) -> dict[str, Any]:
        """All but the best weights, as plain values."""
        values: dict[str, Any] = {"updates": self.updates, "seconds": self.seconds, "best": None}
        if self.best is None:
            return values
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
        return values

    def load_state(self, weights: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from `state()`."""
        self.updates, self.seconds = values["updates"], values["seconds"]
        best = values["best"]
        if best is not None:
            loss = math.inf if best["loss"] is None else best["loss"]
            found = Score(best["error"], best["errors"], loss, best["sequences"])
            self.best = Best(best["updates"], found, best["whole"], weights, best["beyond"])


class BySuccess:
    """The judge of a problem that draws its sequences.

    Attributes:
        polishing: (since, for so many) updates, once it is solved.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop, self.config, self.learner = loop, loop.config, loop.learner
        self.success = Success(loop.config)
        self.polishing: tuple[int, int] | None = None
        self._tested = perf_counter()

    @property
    def done(self) -> int:
        return self.learner.updates

    @property
    def best_weights(self) -> tuple[int, dict[str, Tensor]] | None:
        best = self.success.best
        return None if best is None else (best.updates, best.weights)

    def begin(self) -> None:
        if self.success.best is None:  # at the very beginning, and not where a checkpoint of it is there already
            self._test()
            self.loop.save()

    def end(self, limit: int) -> str | None:
        if self._finished():
            return "solved"
        return "max_updates" if self.learner.updates >= limit else None

    def after_update(self) -> None:
        if self.learner.updates % self.config.check_every == 0:
            self._test()

    def state(self) -> dict[str, Any]:
        return {"success": self.success.state(), "polishing": self.polishing}

    def load_state(self, weights: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.success.load_state(weights, values["success"])
        self.polishing = None if values["polishing"] is None else tuple(values["polishing"])

    def result(self, reason: str) -> Result:
        learner, success = self.learner, self.success
        if reason in ("max_updates", "max_seconds") and learner.updates % self.config.check_every:
            # the weights since the last test may be the best. The checkpoint, written before, does not know of it
            found, beyond = self._found()
            success.consider(found, learner.updates, self.loop.seconds, learner.weights(), beyond)
            if self._finished():
                reason = "solved"
        best = success.best
        if best is None:
            raise RuntimeError("a run must have been tested before its result")
        found = best.score
        if not best.whole and not reason.startswith("interrupted"):
            network = Network(self.config, self.loop.problem)
            network.load_state_dict(best.weights)
            network.threads = self.config.threads
            found = success.test_all(network, learner.updates)
        total, seconds = learner.updates, self.loop.seconds
        return Result(
            reason=reason,
            updates=total if success.updates is None else success.updates,
            seconds=round(seconds if success.seconds is None else success.seconds, 3),
            total_updates=total,
            total_seconds=round(seconds, 3),
            best_updates=best.updates,
            solved=success.solved,
            error=found.error,
            errors=found.errors,
        )

    def _finished(self) -> bool:
        if not self.success.solved:
            return False
        best = self.success.best
        if self.polishing is None or best is None or best.beyond == 0.0:  # nothing is left to be gained
            return True
        start, updates = self.polishing
        return self.learner.updates >= start + updates

    def _found(self) -> tuple[Score, float | None]:
        updates, tested = self.learner.updates, self.learner.tested
        found = self.success.test(tested, updates)
        return found, self.success.test_beyond(tested, found, updates)

    def _test(self) -> None:
        learner, config = self.learner, self.config
        learner.descent.judge()
        updates = learner.updates
        found, beyond = self._found()
        low, high = learner.feed.lengths.now
        seen = look(learner.network, high, stream(config.seed, "look", updates))
        now = perf_counter()
        made, self._tested, since = learner.since.updates, now, now - self._tested
        line: dict[str, Any] = {
            "updates": updates,
            **learner.descent.summary(),
            "test_loss": found.loss,
            "error": found.error,
            "errors": found.errors,
            "tested": found.sequences,
            "beyond": beyond,
            "omega": seen.omega,
            "active": seen.active,
            "spectral_radius": seen.spectral_radius,
            "horizon": seen.horizon,
            "low": low,
            "high": high,
            "lr": learner.lr,
            "alpha": learner.alpha,
            "updates_per_second": made / since,
            "seconds": self.loop.seconds,
        }
        self.loop.write_line(line, seen)
        if self.success.consider(found, updates, self.loop.seconds, learner.weights(), beyond):
            self._succeeded(found)

    def _succeeded(self, found: Score) -> None:
        config, updates = self.config, self.learner.updates
        if config.after_success != "polish":
            return
        # whole intervals, so that the last weights are tested too
        intervals = max(1, round(config.polish * updates / config.check_every))
        further = min(intervals * config.check_every, config.max_updates - updates)
        if further > 0:
            self.polishing = (updates, further)
            self.learner.feed.lengths.finish()
            if self.success.best is not None and self.success.best.beyond > 0:
                wrong = f"{100 * found.error:.2f} % wrong"
                twice = f"{100 * self.success.best.beyond:.1f} % at {2 * config.length[1]} steps"
                self.loop.say(
                    f"solved after {updates:,} updates ({wrong}); trains on for up to {further:,} to err less at longer "
                    f"lengths ({twice}); --after-success stop ends here"
                )

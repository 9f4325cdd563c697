"""Problems with a data set: lines within an epoch, validation at its end, early stopping.

ten times an epoch         a line: what training cost since the last, the gradients, Ω
at the end of an epoch     validate, look at the gradients and at W_rec's spectrum, write a line, keep the best weights
at the end                 read all parts of the data with the best weights
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .descent import Diverged
from .evaluation import figure
from .feeds import Tally
from .network import Network
from .record import Snapshot, measured, snapshot
from .saved import Result

if TYPE_CHECKING:
    from .loop import Loop

LINES = 10
"""Of metrics in an epoch, but for its last, so many at most."""


class _Stopped(Exception):
    """The run was interrupted while the data are read for the result."""


class ByValidation:
    """The judge of a problem with a data set.

    Attributes:
        best_epoch, valid: when the best validation was, and its score; 0 and infinite before the first.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop, self.config, self.learner = loop, loop.config, loop.learner
        self.problem, self.feed = loop.problem, loop.learner.feed
        self.best_epoch, self.best_updates, self.valid = 0, 0, math.inf
        self._weights: dict[str, Tensor] = {}
        self._every = max(1, self.problem.updates_per_epoch // LINES)
        self._sample = next(self.problem.epoch(0))
        self._learning = 0.0
        self._at = perf_counter()
        self._lined = 0, 0, 0.0

    @property
    def done(self) -> int:
        return self.feed.tokens

    @property
    def best_weights(self) -> tuple[int, dict[str, Tensor]] | None:
        return (self.best_updates, self._weights) if self.best_epoch else None

    def begin(self) -> None:
        self._at = perf_counter()

    def end(self, limit: int) -> str | None:
        feed = self.feed
        if feed.at_end_of_epoch:
            self._end_epoch()
        if feed.epoch > limit:
            return "epochs"
        if self.config.patience is not None and feed.epoch - 1 - self.best_epoch >= self.config.patience:
            return "patience"
        self._at = perf_counter()
        return None

    def after_update(self) -> None:
        self._learning += perf_counter() - self._at
        if self.learner.updates % self._every == 0 and not self.feed.at_end_of_epoch:
            self._line(None)

    def consider(self, valid: float) -> bool:
        """Keep the weights if they are better than any before, and say whether they are."""
        better = valid < self.valid
        if better:
            self.best_epoch, self.best_updates, self.valid = self.feed.epoch, self.learner.updates, valid
            self._weights = self.learner.weights()
        return better

    def state(self) -> dict[str, Any]:
        valid = self.valid if math.isfinite(self.valid) else None
        best = {"epoch": self.best_epoch, "updates": self.best_updates, "valid": valid}
        return {"best": best, "learning": self._learning, "lined": list(self._lined)}

    def load_state(self, weights: dict[str, Tensor], values: dict[str, Any]) -> None:
        best = values["best"]
        self._weights, self.best_epoch, self.best_updates = weights, best["epoch"], best["updates"]
        self.valid = math.inf if best["valid"] is None else best["valid"]
        self._learning = values["learning"]
        updates, tokens, learning = values["lined"]
        self._lined = updates, tokens, learning

    def result(self, reason: str) -> Result:
        learner, feed = self.learner, self.feed
        try:
            scores = self._scores(reason)
        except _Stopped:
            reason, scores = self.loop.interrupted or "interrupted", {}
        updates, seconds = learner.updates, round(self.loop.seconds, 3)
        return Result(
            reason=reason,
            updates=updates,
            seconds=seconds,
            total_updates=updates,
            total_seconds=seconds,
            best_updates=self.best_updates,
            train=scores.get("train"),
            valid=self.valid if self.best_epoch else None,
            test=scores.get("test"),
            best_epoch=self.best_epoch,
            epochs=feed.epoch - 1,
            tokens_per_second=round(feed.tokens / self._learning, 1) if self._learning else 0.0,
        )

    def _end_epoch(self) -> None:
        learner = self.learner
        learner.descent.judge()
        valid = figure(learner.network, self.problem, "valid")
        if not math.isfinite(valid):
            raise Diverged(f"the validation costs {valid:.3g} after {learner.updates:,} updates")
        self._line(valid)
        self.consider(valid)
        learner.next_epoch()

    def _line(self, valid: float | None) -> None:
        """Write a line: of the whole epoch where it was validated, else of what came since the last line."""
        learner, feed, per_nat = self.learner, self.feed, self.problem.per_nat
        network = learner.network
        seen: Snapshot | None = None

        def errors() -> None:
            network.backward_chunk(self._sample)

        def of_last() -> None:
            network.backward_chunk(self._sample, last_alone=True)

        if valid is None:
            learner.descent.judge()
            flow = measured(network.rnn, errors)
        else:
            flow = seen = snapshot(network.rnn, errors, of_last)
        (updates, tokens, before), self._lined = self._lined, (learner.updates, feed.tokens, self._learning)
        since = max(self._learning - before, 1e-9)
        line: dict[str, Any] = {
            "epoch": feed.epoch,
            "updates": learner.updates,
            "tokens": feed.tokens,
            "train": (feed.since if valid is None else feed.whole).mean * per_nat,
            "valid": valid,
            **learner.descent.summary(),
            "omega": flow.omega,
            "active": flow.active,
            "spectral_radius": None if seen is None else seen.spectral_radius,
            "horizon": flow.horizon,
            "lr": learner.lr,
            "alpha": learner.alpha,
            "updates_per_second": (learner.updates - updates) / since,
            "tokens_per_second": (feed.tokens - tokens) / since,
            "seconds": self.loop.seconds,
        }
        feed.since = Tally()
        self.loop.write_line(line, seen)

    def _scores(self, reason: str) -> dict[str, float]:
        """What the best weights cost on training and test data; nothing where the run is to go on, or has none."""
        if reason.startswith("interrupted"):
            return {}
        if reason == "max_seconds" and self.feed.whole.predictions:
            # the weights since the last validation may be the best. The checkpoint, written before, does not know of it
            self.consider(figure(self.learner.network, self.problem, "valid", self._pulse))
        if not self.best_epoch:
            return {}
        network = Network(self.config, self.problem)
        network.load_state_dict(self._weights)
        network.threads = self.config.threads
        return {split: figure(network, self.problem, split, self._pulse) for split in ("train", "test")}

    def _pulse(self) -> None:
        if self.loop.interrupted is not None:
            raise _Stopped

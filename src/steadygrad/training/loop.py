"""The training loop of a task: updates, checks on fresh sequences, and the verdict.

    every `check_every`       test on fresh sequences, look at the gradients, write a line
    after the first success   stop, or polish
    at the end                test the weights that were not tested yet, give the verdict

Clock and checkpoints are work.py's.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

from torch import Tensor

from . import checkpoint
from .config import RunConfig
from .evaluation import Score
from .flow_snapshot import look
from .learner import Learner
from .network import Network, stream
from .progress import Display
from .result import Result
from .success import Success
from .work import Work


class Loop(Work[Result]):
    """One run at work in its folder.

    Args:
        config: its settings.
        directory: its own folder (folder.py).
        displays: what shows the progress.
        found: the checkpoint to go on from, or None to begin.
    """

    def __init__(
        self, config: RunConfig, directory: Path, displays: list[Display], found: checkpoint.Checkpoint | None
    ) -> None:
        super().__init__(config, directory, displays)
        self.config = config
        self.learner = Learner(config)
        self.success = Success(config)
        self.open(found)
        self._checked = perf_counter()

    def _begin(self) -> None:
        if self.success.best is None:  # at the very beginning, and not where a checkpoint of it is there already
            self._check()
            self.save()

    def _end(self, limit: int) -> str | None:
        if self._finished():
            return "solved"
        return "max_updates" if self.learner.updates >= limit else None

    def _update(self) -> float:
        loss = self.learner.update()
        if self.learner.updates % self.config.check_every == 0:
            self._check()
        return loss

    @property
    def _done(self) -> int:
        return self.learner.updates

    def _best_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        weights, values = self.success.state()
        return weights, {"success": values}

    def _load_best(self, weights: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.success.load_state(weights, values["success"])

    def _best_weights(self) -> tuple[int, dict[str, Tensor], dict[str, str]] | None:
        best = self.success.best
        return None if best is None else (best.updates, best.weights, {"task": self.config.task})

    def _finished(self) -> bool:
        if not self.success.solved:
            return False
        best = self.success.best
        if self.learner.polishing is None or best is None or best.beyond == 0.0:  # nothing is left to be gained
            return True
        start, updates = self.learner.polishing
        return self.learner.updates >= start + updates

    def _check(self) -> None:
        learner, config = self.learner, self.config
        learner.judge()
        updates = learner.updates
        found = self.success.test(learner.tested, updates)
        beyond = self.success.test_beyond(learner.tested, found, updates)
        low, high = learner.lengths.now
        seen = look(learner.network, high, stream(config.seed, "look", updates))
        now = perf_counter()
        made, self._checked, since = learner.since.updates, now, now - self._checked
        line: dict[str, Any] = {
            "updates": updates,
            **learner.summary(),
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
            "seconds": self.seconds,
        }
        self.record.metrics(line)
        self.record.snapshot(updates, seen)
        for display in self.displays:
            display.check(line, seen)
        if self.success.consider(found, updates, self.seconds, learner.weights(), beyond):
            self._succeeded()

    def _succeeded(self) -> None:
        config, updates = self.config, self.learner.updates
        if config.after_success == "polish":
            # whole intervals, so that the last weights are tested too
            intervals = max(1, round(config.polish * updates / config.check_every))
            room = config.max_updates - updates
            further = min(intervals * config.check_every, room)
            if further > 0:
                self.learner.polish(further)

    def _verdict(self, reason: str) -> Result:
        learner, success = self.learner, self.success
        if reason in ("max_updates", "max_seconds") and learner.updates % self.config.check_every:
            self._consider_last()
            if self._finished():
                reason = "solved"
        best = success.best
        if best is None:
            raise RuntimeError("a run must have been tested before its verdict")
        found = best.score
        if not best.whole and reason != "interrupted":
            found = self._test_best(best.weights)
        solved_at = success.updates
        total, seconds = learner.updates, self.seconds
        result = Result(
            solved=success.solved,
            updates=total if solved_at is None else solved_at,
            error=found.error,
            seconds=round(seconds if success.seconds is None else success.seconds, 3),
            reason=reason,
            errors=found.errors,
            best_updates=best.updates,
            total_updates=total,
            total_seconds=round(seconds, 3),
        )
        if reason != "interrupted":
            self._write_best()
            result.write(self.directory, self.config)
        return result

    def _consider_last(self) -> None:
        """The weights since the last check may be the best. The checkpoint, written before, does not know of it."""
        learner = self.learner
        found = self.success.test(learner.tested, learner.updates)
        beyond = self.success.test_beyond(learner.tested, found, learner.updates)
        self.success.consider(found, learner.updates, self.seconds, learner.weights(), beyond)

    def _test_best(self, weights: dict[str, Any]) -> Score:
        network = Network(self.config)
        network.threads = self.config.threads
        network.load_state_dict(weights)
        return self.success.test_all(network, self.learner.updates)

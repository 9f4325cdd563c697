"""The training loop: updates, checks, checkpoints, and the verdict.

    after every update        is it time to check, to write a checkpoint, to stop?
    every `check_every`       test on fresh sequences, look at the gradients, write a line
    every some seconds        write a checkpoint
    at the end                write a checkpoint, test the weights that were not tested yet, give the verdict

Nothing that depends on the clock changes a number of the training: a run that is killed at any moment and resumed gives
the same weights and the same lines as one that is left alone.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

from . import checkpoint, files
from .config import RunConfig
from .evaluation import Score
from .flow_snapshot import look
from .learner import Diverged, Learner
from .network import Network, stream
from .progress import Display
from .record import Record
from .result import Result
from .success import Success

TICK = 0.2
"""Seconds between two refreshments of the display."""


class Loop:
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
        self.config, self.directory, self.displays = config, directory, displays
        self.learner = Learner(config)
        self.success = Success(config)
        self.interrupted = False
        self._before = 0.0
        self._loss = float("nan")
        self._written: int | None = None
        if found is None:
            self.record = Record(directory)
        else:
            self._load(found)
        self._begun = self._checked = perf_counter()

    @property
    def seconds(self) -> float:
        """Of training so far, those before a resumption included."""
        return self._before + perf_counter() - self._begun

    def run(self, max_updates: int, max_seconds: float | None, checkpoint_seconds: float) -> Result:
        """Train until there is a verdict, or `interrupted` is set."""
        try:
            reason = self._train(max_updates, max_seconds, checkpoint_seconds)
        except Diverged as error:
            reason = f"diverged: {error}"
        else:
            self.save()
        return self._verdict(reason)

    def save(self) -> None:
        """Write a checkpoint, and the best weights if they are new."""
        sizes = self.record.settle()
        tensors, values = self.learner.state()
        weights, success = self.success.state()
        tensors |= {f"best.{name}": tensor for name, tensor in weights.items()}
        values |= {
            "success": success,
            "seconds": self.seconds,
            "sizes": sizes,
            "next_snapshot": self.record.next_snapshot,
        }
        checkpoint.save(self.directory, self.config, self.learner.updates, tensors, values)
        self._write_best()

    def _load(self, found: checkpoint.Checkpoint) -> None:
        values = found.values
        self.learner.load_state(found.tensors, values)
        start = "best."
        best = {name.removeprefix(start): tensor for name, tensor in found.tensors.items() if name.startswith(start)}
        self.success.load_state(best, values["success"])
        self._before = values["seconds"]
        self.record = Record(self.directory, values["sizes"])
        self.record.next_snapshot = values["next_snapshot"]

    def _train(self, max_updates: int, max_seconds: float | None, checkpoint_seconds: float) -> str:
        learner, every = self.learner, self.config.check_every
        if self.success.best is None:  # at the very beginning, and not where a checkpoint of it is there already
            self._check()
            self.save()
        saved = ticked = perf_counter()
        while True:
            if self._finished():
                return "solved"
            if learner.updates >= max_updates:
                return "max_updates"
            if self.interrupted:
                return "interrupted"
            self._loss = learner.update()
            if learner.updates % every == 0:
                self._check()
            now = perf_counter()
            if now - ticked < TICK:
                continue
            ticked = now
            for display in self.displays:
                display.tick(learner.updates, self.seconds, self._loss)
            if max_seconds is not None and self.seconds >= max_seconds:
                return "max_seconds"
            if now - saved >= checkpoint_seconds:
                self.save()
                saved = perf_counter()

    def _finished(self) -> bool:
        if not self.success.solved:
            return False
        if self.learner.polishing is None:
            return True
        start, updates = self.learner.polishing
        return self.learner.updates >= start + updates

    def _check(self) -> None:
        learner, config = self.learner, self.config
        learner.judge()
        updates = learner.updates
        found = self.success.test(learner.network, updates)
        beyond = self.success.test_beyond(learner.network, found, updates)
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
        elif learner.polishing is not None and self.success.is_lost(beyond):
            assert self.success.best is not None
            learner.go_back(self.success.best.weights)

    def _succeeded(self) -> None:
        config, updates = self.config, self.learner.updates
        if config.after_success == "polish":
            # whole intervals, so that the last weights are tested too
            intervals = max(1, round(config.polish * updates / config.check_every))
            room = config.max_updates - updates
            further = min(intervals * config.check_every, room)
            if further > 0:
                self.learner.polish(further)

    def _write_best(self) -> None:
        best = self.success.best
        if best is not None and best.updates != self._written:
            files.write_weights(self.directory / files.WEIGHTS, best.weights, {"task": self.config.task})
            self._written = best.updates

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
        found = self.success.test(learner.network, learner.updates)
        beyond = self.success.test_beyond(learner.network, found, learner.updates)
        self.success.consider(found, learner.updates, self.seconds, learner.weights(), beyond)

    def _test_best(self, weights: dict[str, Any]) -> Score:
        network = Network(self.config)
        network.load_state_dict(weights)
        return self.success.test_all(network, self.learner.updates)

"""The training loop: updates, epochs, validations, checkpoints, and the verdict.

    after every update         is it time to write a line or a checkpoint, or to stop?
    ten times an epoch         a line: what training cost since the last, the gradients, Ω
    at the end of an epoch     validate, look at the gradients and at W_rec's spectrum, write a line, keep the best weights
    every some seconds         write a checkpoint
    at the end                 write a checkpoint, read all parts of the data with the best weights, give the verdict

Nothing that depends on the clock changes a number of the training: a run that is killed at any moment and resumed gives
the same weights and the same lines as one that is left alone.
"""

from __future__ import annotations

import math
from pathlib import Path
from time import perf_counter
from typing import Any

from ..training import checkpoint, files
from ..training.descent import Diverged
from ..training.flow_snapshot import Snapshot, measured, snapshot
from ..training.progress import Display
from ..training.record import Record
from .best import Best
from .config import NaturalConfig
from .corpus import Corpus
from .evaluation import figure
from .learner import Learner, Tally
from .network import Network
from .result import NaturalResult

TICK = 0.2
"""Seconds between two refreshments of the display."""
LINES = 10
"""Of metrics in an epoch, but for its last, so many at most."""
BEST = "best."


class _Stopped(Exception):
    """Ctrl-C while the data are read for the verdict."""


class Loop:
    """One run at work in its folder.

    Args:
        config: its settings.
        corpus: its data.
        directory: its own folder (training/folder.py).
        displays: what shows the progress.
        found: the checkpoint to go on from, or None to begin.
    """

    def __init__(
        self,
        config: NaturalConfig,
        corpus: Corpus,
        directory: Path,
        displays: list[Display],
        found: checkpoint.Checkpoint | None,
    ) -> None:
        self.config, self.corpus, self.directory, self.displays = config, corpus, directory, displays
        self.learner = Learner(config, corpus)
        self.best = Best()
        self.interrupted = False
        self._every = max(1, corpus.predictions("train") // (config.batch * config.steps * LINES))
        self._sample = next(corpus.epoch(0))
        self._before = self._learning = 0.0
        self._written = 0
        if found is None:
            self.record = Record(directory)
        else:
            self._load(found)
        self._lined = self.learner.updates, self.learner.tokens, self._learning
        self._begun = perf_counter()

    @property
    def seconds(self) -> float:
        """Of the run so far, those before a resumption included."""
        return self._before + perf_counter() - self._begun

    def run(self, epochs: int, max_seconds: float | None, checkpoint_seconds: float) -> NaturalResult:
        """Train until there is a verdict, or `interrupted` is set."""
        try:
            reason = self._train(epochs, max_seconds, checkpoint_seconds)
        except Diverged as error:
            reason = f"diverged: {error}"
        else:
            self.save()
        try:
            return self._verdict(reason)
        except _Stopped:
            return self._result("interrupted", {})

    def save(self) -> None:
        """Write a checkpoint, and the best weights if they are new."""
        sizes = self.record.settle()
        tensors, values = self.learner.state()
        weights, best = self.best.state()
        tensors |= {BEST + name: tensor for name, tensor in weights.items()}
        values |= {
            "best": best,
            "seconds": self.seconds,
            "learning": self._learning,
            "sizes": sizes,
            "next_snapshot": self.record.next_snapshot,
        }
        checkpoint.save(self.directory, self.config, self.learner.updates, tensors, values)
        self._write_best()

    def _load(self, found: checkpoint.Checkpoint) -> None:
        values = found.values
        self.learner.load_state(found.tensors, values)
        best = {name.removeprefix(BEST): each for name, each in found.tensors.items() if name.startswith(BEST)}
        self.best.load_state(best, values["best"])
        self._before, self._learning = values["seconds"], values["learning"]
        self.record = Record(self.directory, values["sizes"])
        self.record.next_snapshot = values["next_snapshot"]

    def _train(self, epochs: int, max_seconds: float | None, checkpoint_seconds: float) -> str:
        learner = self.learner
        saved = ticked = perf_counter()
        while True:
            if learner.at_end_of_epoch:
                self._end_epoch()
            if learner.epoch > epochs:
                return "epochs"
            if self.config.patience is not None and learner.epoch - 1 - self.best.epoch >= self.config.patience:
                return "patience"
            if self.interrupted:
                return "interrupted"
            begun = perf_counter()
            loss = learner.update()
            now = perf_counter()
            self._learning += now - begun
            if learner.updates % self._every == 0 and not learner.at_end_of_epoch:
                self._line(None)
            if now - ticked < TICK:
                continue
            ticked = now
            for display in self.displays:
                display.tick(learner.tokens, self.seconds, loss)
            if max_seconds is not None and self.seconds >= max_seconds:
                return "max_seconds"
            if now - saved >= checkpoint_seconds:
                self.save()
                saved = perf_counter()

    def _end_epoch(self) -> None:
        learner = self.learner
        learner.descent.judge()
        valid = figure(learner.network, self.corpus, "valid")
        if not math.isfinite(valid):
            raise Diverged(f"the validation costs {valid:.3g} after {learner.updates:,} updates")
        self._line(valid)
        self.best.consider(valid, learner.epoch, learner.updates, learner.weights())
        learner.next_epoch()

    def _line(self, valid: float | None) -> None:
        """Write a line: of the whole epoch where it was validated, else of what came since the last line."""
        learner, per_nat = self.learner, self.corpus.per_nat
        network = learner.network
        seen: Snapshot | None = None

        def errors() -> None:
            network.backward(self._sample)

        if valid is None:
            learner.descent.judge()
            flow = measured(network.rnn, errors)
        else:
            flow = seen = snapshot(network.rnn, errors)
        (updates, tokens, before), self._lined = self._lined, (learner.updates, learner.tokens, self._learning)
        since = max(self._learning - before, 1e-9)
        line: dict[str, Any] = {
            "epoch": learner.epoch,
            "updates": learner.updates,
            "tokens": learner.tokens,
            "train": (learner.since if valid is None else learner.whole).mean * per_nat,
            "valid": valid,
            **learner.descent.summary(),
            "omega": flow.omega,
            "active": flow.active,
            "spectral_radius": None if seen is None else seen.spectral_radius,
            "horizon": flow.horizon,
            "lr": learner.lr,
            "alpha": learner.alpha,
            "updates_per_second": (learner.updates - updates) / since,
            "tokens_per_second": (learner.tokens - tokens) / since,
            "seconds": self.seconds,
        }
        learner.since = Tally()
        self.record.metrics(line)
        if seen is not None:
            self.record.snapshot(learner.updates, seen)
        for display in self.displays:
            display.check(line, seen)

    def _write_best(self) -> None:
        if self.best.epoch and self.best.updates != self._written:
            files.write_weights(self.directory / files.WEIGHTS, self.best.weights, {"data": self.config.data})
            self._written = self.best.updates

    def _verdict(self, reason: str) -> NaturalResult:
        learner, best = self.learner, self.best
        if reason == "max_seconds" and learner.whole.predictions:
            # the weights since the last validation may be the best. The checkpoint, written before, does not know of it
            valid = figure(learner.network, self.corpus, "valid", self._pulse)
            best.consider(valid, learner.epoch, learner.updates, learner.weights())
        if reason == "interrupted":
            return self._result(reason, {})
        figures: dict[str, float] = {}
        if best.epoch:
            network = Network(self.config, self.corpus.width)
            network.load_state_dict(best.weights)
            figures = {split: figure(network, self.corpus, split, self._pulse) for split in ("train", "test")}
        self._write_best()
        result = self._result(reason, figures)
        result.write(self.directory, self.config)
        return result

    def _pulse(self) -> None:
        if self.interrupted:
            raise _Stopped

    def _result(self, reason: str, figures: dict[str, float]) -> NaturalResult:
        learner, best = self.learner, self.best
        return NaturalResult(
            train=figures.get("train"),
            valid=best.valid if best.epoch else None,
            test=figures.get("test"),
            best_epoch=best.epoch,
            # a limit of epochs below where the run has come to ends it within one, which then does not count
            epochs=learner.epoch - (reason == "epochs" or learner.whole.predictions == 0),
            updates=learner.updates,
            seconds=round(self.seconds, 3),
            reason=reason,
            tokens_per_second=round(learner.tokens / self._learning, 1) if self._learning else 0.0,
        )

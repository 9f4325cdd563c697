"""The training loop of music or text: updates, epochs, validations, and the verdict.

    ten times an epoch         a line: what training cost since the last, the gradients, Ω
    at the end of an epoch     validate, look at the gradients and at W_rec's spectrum, write a line, keep the best weights
    at the end                 read all parts of the data with the best weights, give the verdict

Clock and checkpoints are training/work.py's.
"""

from __future__ import annotations

import math
from pathlib import Path
from time import perf_counter
from typing import Any

from torch import Tensor

from ..training import checkpoint
from ..training.descent import Diverged
from ..training.flow_snapshot import Snapshot, measured, snapshot
from ..training.progress import Display
from ..training.work import Work
from .best import Best
from .config import NaturalConfig
from .corpus import Corpus
from .evaluation import figure
from .learner import Learner, Tally
from .network import Network
from .result import NaturalResult

LINES = 10
"""Of metrics in an epoch, but for its last, so many at most."""


class _Stopped(Exception):
    """Ctrl-C while the data are read for the verdict."""


class Loop(Work[NaturalResult]):
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
        super().__init__(config, directory, displays)
        self.config, self.corpus = config, corpus
        self.learner = Learner(config, corpus)
        self.best = Best()
        self._every = max(1, corpus.predictions("train") // (config.batch * config.steps * LINES))
        self._sample = next(corpus.epoch(0))
        self._learning = 0.0
        self.open(found)
        self._lined = self.learner.updates, self.learner.tokens, self._learning

    def _end(self, limit: int) -> str | None:
        learner = self.learner
        if learner.at_end_of_epoch:
            self._end_epoch()
        if learner.epoch > limit:
            return "epochs"
        if self.config.patience is not None and learner.epoch - 1 - self.best.epoch >= self.config.patience:
            return "patience"
        return None

    def _update(self) -> float:
        learner = self.learner
        begun = perf_counter()
        loss = learner.update()
        self._learning += perf_counter() - begun
        if learner.updates % self._every == 0 and not learner.at_end_of_epoch:
            self._line(None)
        return loss

    @property
    def _done(self) -> int:
        return self.learner.tokens

    def _best_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        weights, values = self.best.state()
        return weights, {"best": values, "learning": self._learning}

    def _load_best(self, weights: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.best.load_state(weights, values["best"])
        self._learning = values["learning"]

    def _best_weights(self) -> tuple[int, dict[str, Tensor], dict[str, str]] | None:
        best = self.best
        return (best.updates, best.weights, {"data": self.config.data}) if best.epoch else None

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

    def _verdict(self, reason: str) -> NaturalResult:
        try:
            figures = self._figures(reason)
        except _Stopped:
            reason, figures = "interrupted", {}
        result = self._result(reason, figures)
        if reason != "interrupted":
            self._write_best()
            result.write(self.directory, self.config)
        return result

    def _figures(self, reason: str) -> dict[str, float]:
        """What the best weights cost on training and test data; nothing where the run is to go on, or has none."""
        learner, best = self.learner, self.best
        if reason == "interrupted":
            return {}
        if reason == "max_seconds" and learner.whole.predictions:
            # the weights since the last validation may be the best. The checkpoint, written before, does not know of it
            valid = figure(learner.network, self.corpus, "valid", self._pulse)
            best.consider(valid, learner.epoch, learner.updates, learner.weights())
        if not best.epoch:
            return {}
        network = Network(self.config, self.corpus.width)
        network.threads = self.config.threads
        network.load_state_dict(best.weights)
        return {split: figure(network, self.corpus, split, self._pulse) for split in ("train", "test")}

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

"""What is the same in every training loop, whatever is trained: the clock, the checkpoints, the best weights' file.

    before every update       has it finished, or come to a limit, or been interrupted?
    after every update        what is due: checks and lines by the number of updates alone
    every some seconds        write a checkpoint
    at the end                write a checkpoint, give the verdict

Nothing that depends on the clock changes a number of the training: a run that is killed at any moment and resumed gives
the same weights and the same lines as one that is left alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from time import perf_counter
from typing import Any, Generic, TypeVar

from torch import Tensor

from . import checkpoint, files
from .descent import Diverged
from .progress import Display
from .record import Record
from .settings import Settings

TICK = 0.2
"""Seconds between two refreshments of the display."""
BEST = "best."
"""What the names of the best weights begin with in a checkpoint."""

Verdict = TypeVar("Verdict")


class Work(ABC, Generic[Verdict]):
    """One run at work in its folder.

    Args:
        config: its settings.
        directory: its own folder (folder.py).
        displays: what shows the progress.

    Attributes:
        interrupted: set from outside, it ends the run after the update at hand.
        record: where lines and pictures are written.
    """

    learner: Any

    def __init__(self, config: Settings, directory: Path, displays: list[Display]) -> None:
        self.directory, self.displays = directory, displays
        self.interrupted = False
        self._settings = config
        self._before = 0.0
        self._written: int | None = None
        self._begun = perf_counter()

    def open(self, found: checkpoint.Checkpoint | None) -> None:
        """Go on from a checkpoint, or begin."""
        if found is None:
            self.record = Record(self.directory)
        else:
            values = found.values
            self.learner.load_state(found.tensors, values)
            best = {name.removeprefix(BEST): each for name, each in found.tensors.items() if name.startswith(BEST)}
            self._load_best(best, values)
            self._before = values["seconds"]
            self.record = Record(self.directory, values["sizes"])
            self.record.next_snapshot = values["next_snapshot"]
        self._begun = perf_counter()

    @property
    def seconds(self) -> float:
        """Of the run so far, those before a resumption included."""
        return self._before + perf_counter() - self._begun

    def run(self, limit: int, max_seconds: float | None, checkpoint_seconds: float) -> Verdict:
        """Work until there is a verdict, or `interrupted` is set."""
        try:
            reason = self._work(limit, max_seconds, checkpoint_seconds)
        except Diverged as error:
            reason = f"diverged: {error}"
        else:
            self.save()
        return self._verdict(reason)

    def save(self) -> None:
        """Write a checkpoint, and the best weights if they are new."""
        sizes = self.record.settle()
        tensors, values = self.learner.state()
        weights, best = self._best_state()
        tensors |= {BEST + name: tensor for name, tensor in weights.items()}
        values |= {**best, "seconds": self.seconds, "sizes": sizes, "next_snapshot": self.record.next_snapshot}
        checkpoint.save(self.directory, self._settings, self.learner.updates, tensors, values)
        self._write_best()

    def _work(self, limit: int, max_seconds: float | None, checkpoint_seconds: float) -> str:
        self._begin()
        saved = ticked = perf_counter()
        while True:
            reason = self._end(limit)
            if reason is not None:
                return reason
            if self.interrupted:
                return "interrupted"
            loss = self._update()
            now = perf_counter()
            if now - ticked < TICK:
                continue
            ticked = now
            for display in self.displays:
                display.tick(self._done, self.seconds, loss)
            if max_seconds is not None and self.seconds >= max_seconds:
                return "max_seconds"
            if now - saved >= checkpoint_seconds:
                self.save()
                saved = perf_counter()

    def _write_best(self) -> None:
        found = self._best_weights()
        if found is None:
            return
        updates, weights, about = found
        if updates != self._written:
            files.write_weights(self.directory / files.WEIGHTS, weights, about)
            self._written = updates

    def _begin(self) -> None:
        """What comes before the first update."""

    @abstractmethod
    def _end(self, limit: int) -> str | None:
        """Why the run ends here, or None."""

    @abstractmethod
    def _update(self) -> float:
        """Make an update and all that is due after it; returns its loss."""

    @property
    @abstractmethod
    def _done(self) -> int:
        """How far it has come, in the unit that the displays count."""

    @abstractmethod
    def _best_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """For a checkpoint: the best weights by name, and plain values beside them."""

    @abstractmethod
    def _load_best(self, weights: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from `_best_state()`, all plain values of the checkpoint being in `values`."""

    @abstractmethod
    def _best_weights(self) -> tuple[int, dict[str, Tensor], dict[str, str]] | None:
        """The best weights for their file: after how many updates, they themselves, and what to say of them."""

    @abstractmethod
    def _verdict(self, reason: str) -> Verdict:
        """What came of the run."""

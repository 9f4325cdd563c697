"""The training loop: updates, the clock, checkpoints, interruptions.

    before every update       has it finished, or reached a limit, or been interrupted?
    after every update        what is due: tests and lines by the number of updates alone
    every some seconds        write a checkpoint
    at the end                write a checkpoint, give the result

When to test, which weights are the best and when the problem counts as learned is the judge's part: by_success.py for problems
that draw their sequences, by_validation.py for data sets. Nothing that depends on the clock changes a number of the training:
a run that is killed at any moment and resumed gives the same weights and the same lines as one that is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from torch import Tensor

from . import files, saved
from .config import DRAWN, Config
from .descent import Diverged
from .display import Display
from .learner import Learner
from .record import Record, Snapshot
from .saved import Result

TICK = 0.2
"""Seconds between two refreshes of the display."""
BEST = "best."
"""What the names of the best weights begin with in a checkpoint."""


class Judge(Protocol):
    """Tests a network as it learns, keeps the best weights, and says when to stop."""

    @property
    def done(self) -> int:
        """How far the run has come, in the unit that the displays count."""
        ...

    @property
    def best_weights(self) -> tuple[int, dict[str, Tensor]] | None:
        """After how many updates the best weights were found, and they themselves."""
        ...

    def begin(self) -> None:
        """Before the first update."""

    def end(self, limit: int) -> str | None:
        """Why the run ends here, or None."""

    def after_update(self) -> None:
        """Whatever is due."""

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint; the best weights are saved beside them."""
        ...

    def load_state(self, weights: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from `state()`."""

    def result(self, reason: str) -> Result:
        """What came of the run."""
        ...


class Loop:
    """One run at work in its folder.

    Args:
        config: its settings.
        problem: what it learns.
        directory: its own folder (files.py).
        displays: what shows the progress.
        found: the checkpoint to go on from, or None to begin.

    Attributes:
        interrupted: set from outside, it ends the run after the update at hand; it says what by.
        record: where lines and snapshots are written.
    """

    def __init__(
        self,
        config: Config,
        problem: Any,
        directory: Path,
        displays: list[Display],
        found: saved.Checkpoint | None = None,
    ) -> None:
        self.config, self.problem = config, problem
        self.directory, self.displays = directory, displays
        self.interrupted: str | None = None
        self.learner = Learner(config, problem)
        self._before, self._begun = 0.0, perf_counter()
        self._written: int | None = None
        self.judge: Judge = _judge(self)
        if found is None:
            self.record = Record(directory)
            return
        values = found.values
        self.learner.load_state(found.tensors, values)
        best = {name.removeprefix(BEST): each for name, each in found.tensors.items() if name.startswith(BEST)}
        self.judge.load_state(best, values)
        self._before = values["seconds"]
        self.record = Record(directory, values["sizes"])
        self.record.next_snapshot = values["next_snapshot"]
        self._begun = perf_counter()

    @property
    def seconds(self) -> float:
        """Of the run so far, those before a resumption included."""
        return self._before + perf_counter() - self._begun

    def run(self, limit: int, max_seconds: float | None, checkpoint_seconds: float) -> Result:
        """Train until there is a result, or `interrupted` is set."""
        try:
            reason = self._train(limit, max_seconds, checkpoint_seconds)
        except Diverged as error:
            reason = f"diverged: {error}"
        else:
            self.save()
        result = self.judge.result(reason)
        if not result.interrupted:
            self._write_best()
            result.write(self.directory, self.config)
        return result

    def save(self) -> None:
        """Write a checkpoint, and the best weights if they are new."""
        sizes = self.record.settle()
        tensors, values = self.learner.state()
        best = self.judge.best_weights
        if best is not None:
            tensors |= {BEST + name: tensor for name, tensor in best[1].items()}
        values |= {
            **self.judge.state(),
            "seconds": self.seconds,
            "sizes": sizes,
            "next_snapshot": self.record.next_snapshot,
        }
        saved.save(self.directory, self.config, self.learner.updates, tensors, values)
        self._write_best()

    def write_line(self, line: dict[str, Any], seen: Snapshot | None) -> None:
        """Put a line of metrics, and a snapshot of the gradients, on disk and on the displays."""
        self.record.metrics(line)
        if seen is not None:
            self.record.snapshot(self.learner.updates, seen)
        self._show(lambda display: display.check(line, seen))

    def say(self, text: str) -> None:
        """Tell the user something that is no line of metrics."""
        self._show(lambda display: display.say(text))

    def _show(self, what: Callable[[Display], None]) -> None:
        for display in self.displays:
            try:
                what(display)
            except BrokenPipeError:  # the reader of the output, such as head, has closed it
                self.interrupted = "interrupted: its output was closed"

    def _train(self, limit: int, max_seconds: float | None, checkpoint_seconds: float) -> str:
        self.judge.begin()
        kept = ticked = perf_counter()
        while True:
            reason = self.judge.end(limit)
            if reason is not None:
                return reason
            if self.interrupted is not None:
                return self.interrupted
            loss = self.learner.update()
            self.judge.after_update()
            now = perf_counter()
            if now - ticked < TICK:
                continue
            ticked = now
            for display in self.displays:
                display.tick(self.judge.done, self.seconds, loss)
            if max_seconds is not None and self.seconds >= max_seconds:
                return "max_seconds"
            if now - kept >= checkpoint_seconds:
                self.save()
                kept = perf_counter()

    def _write_best(self) -> None:
        best = self.judge.best_weights
        if best is not None and best[0] != self._written:
            files.write_weights(self.directory / files.WEIGHTS, best[1], {"problem": self.config.problem})
            self._written = best[0]


def _judge(loop: Loop) -> Judge:
    if loop.config.form == DRAWN:
        from .by_success import BySuccess

        return BySuccess(loop)
    from .by_validation import ByValidation

    return ByValidation(loop)

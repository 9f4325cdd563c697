"""One run, from its settings to its result: the training loop, the clock, checkpoints, interruptions.

    before every update       has it finished, or reached a limit, or been interrupted?
    after every update        tests and lines that are due (judges.py), by the number of updates alone
    every some seconds        write a checkpoint
    at the end                write a checkpoint, give the result

Nothing that depends on the clock changes a number of the training: a run that is killed at any moment and resumed gives the
same weights and the same lines as one that is left alone.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

from torch import Tensor

from .. import __version__, checks, storage
from ..snapshots import Snapshot
from ..storage import State
from . import files
from . import problem as problems
from .config import DRAWN, Config
from .display import PROGRESS, Display, displays, words
from .files import Result
from .judges import BEST, BySuccess, ByValidation
from .learner import Learner
from .methods import Diverged
from .network import Network, threads

CHECKPOINT_SECONDS = 30.0
TICK = 0.2  # seconds between two refreshes of the display
CLOCKS = {"wall": perf_counter, "core": thread_time}
SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "interrupted by SIGTERM"}
"""What Ctrl-C or a scheduler sends before it kills, and what the result then says."""


class Loop:
    """The training loop of a run in its folder, from the beginning or from the checkpoint `found`.

    `interrupted`, set from outside, ends the run after the current update, and is the reason given.
    """

    def __init__(
        self, config: Config, problem: Any, directory: Path, displays: list[Display], found: State | None
    ) -> None:
        self.config, self.problem, self.directory, self.displays = config, problem, directory, displays
        self.interrupted: str | None = None
        self.learner = Learner(config, problem)
        self._written: int | None = None  # the updates of the best weights on disk
        self.judge = (BySuccess if config.form == DRAWN else ByValidation)(self)
        self._before, sizes, snapshot = 0.0, None, 0
        if found is not None:
            self.learner.load_state(found)
            self.judge.load_state(found)
            self._before, sizes, snapshot = found["seconds"], found["sizes"], found["next_snapshot"]
        self.record = files.Record(directory, sizes)
        self.record.next_snapshot = snapshot
        self._clock = CLOCKS[config.clock]
        self._begun = self._clock()

    @property
    def seconds(self) -> float:
        """Of the run so far by the config's clock, those before a resumption included."""
        return self._before + self._clock() - self._begun

    def network_with(self, weights: dict[str, Tensor]) -> Network:
        """The run's network with other weights."""
        network = Network(self.config, self.problem)
        network.load_state_dict(weights)
        network.threads = self.config.threads
        return network

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
        _, best = self.judge.best_weights or (0, {})
        state = {**self.learner.state(), **{BEST + name: tensor for name, tensor in best.items()}, **self.judge.state()}
        state |= {"seconds": self.seconds, "sizes": sizes, "next_snapshot": self.record.next_snapshot}
        files.write_checkpoint(self.directory, self.config, self.learner.updates, state)
        self._write_best()

    def write_line(self, line: dict[str, Any], seen: Snapshot | None) -> None:
        """Put a line of metrics, and a snapshot of the gradients, on disk and on the displays."""
        self.record.append(files.METRICS, line)
        if seen is not None:
            self.record.snapshot(self.learner.updates, seen)
        self._show(lambda each: each.check(line, seen))

    def say(self, text: str) -> None:
        """Tell the user something that is no line of metrics."""
        self._show(lambda each: each.say(text))

    def _show(self, what: Callable[[Display], None]) -> None:
        for each in self.displays:
            try:
                what(each)
            except BrokenPipeError:  # the reader of the output, such as head, has closed it
                self.interrupted = "interrupted: its output was closed"

    def _train(self, limit: int, max_seconds: float | None, checkpoint_seconds: float) -> str:
        self.judge.begin()
        kept = ticked = perf_counter()
        while True:
            reason = self.judge.end(limit) or self.interrupted
            if reason is not None:
                return reason
            loss = self.learner.update()
            self.judge.after_update()
            now = perf_counter()
            if now - ticked < TICK:
                continue
            ticked = now
            for each in self.displays:
                each.tick(self.judge.done, self.seconds, loss)
            if max_seconds is not None and self.seconds >= max_seconds:
                return "max_seconds"
            if now - kept >= checkpoint_seconds:
                self.save()
                kept = perf_counter()

    def _write_best(self) -> None:
        best = self.judge.best_weights
        if best is not None and best[0] != self._written:
            whose = {"problem": self.config.problem, "steadygrad": __version__}
            storage.write_tensors(self.directory / files.WEIGHTS, best[1], whose)
            self._written = best[0]


def run(
    *what: Any,
    progress: str = "auto",
    resume: bool = False,
    max_updates: int | None = None,
    epochs: int | None = None,
    max_seconds: float | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    tensorboard: bool = False,
    data: str | Path | None = None,
) -> Result:
    """Train a network until its problem is solved, or validation gets no better, or a limit is reached, or it diverges.

    `run(config, directory)`, or `run(problem, config, directory)` with another problem than the config's: a class of one's own
    (docs/problems.md), a name or 'FILE.py:CLASS'.

    Args:
        config, directory: the settings (`preset` has them by name), and where everything is written (files.py).
        progress: 'auto' (a live display on a terminal, else a line for each check), 'plain' or 'none'.
        resume: go on from the newest checkpoint, to the very same numbers; not if there is a result within the limits.
        max_updates, epochs, max_seconds: limits for this call in place of the config's; schedules still follow the config.
        checkpoint_seconds: how often to write a checkpoint, in the middle of an epoch too.
        tensorboard: also write scalars and a picture of the gradient's flow for TensorBoard, to DIR/tensorboard.
        data: where the run's own text or music is now, if it was moved; its checksum must be the run's.

    Returns the result, which is also in DIR/result.json, unless Ctrl-C or SIGTERM interrupted the run: then it has none yet.
    Raises FolderError (another run is there, or the data have changed), CheckpointError or DataError (none can be used).

    Example:
        >>> import tempfile
        >>> config = Config("temporal-order", "sgd", (10, 12), hidden=5, test_sequences=100, check_sequences=100)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     result = run(config, directory, progress="none", max_updates=10)
        >>> result.solved, result.updates, result.reason
        (False, 10, 'max_updates')
    """
    *own, config, directory = what
    config: Config = config.changed(problem=own[0]) if own else config
    directory = Path(directory)
    checks.one_of("progress", progress, PROGRESS)
    limit = _limit(config, {"max_updates": max_updates, "epochs": epochs})
    time = config.max_seconds
    if max_seconds is not None:
        time = checks.number("max_seconds", max_seconds, low=0, open_low=True)
    checks.number("checkpoint_seconds", checkpoint_seconds, low=0)
    storage.safetensors()
    problem = problems.build(files.with_data(config, data, directory if resume else None))
    drawn = config.form == DRAWN
    shown = displays(directory, progress, tensorboard, words(config, problem))
    files.claim(directory, config, resume)
    with ExitStack() as stack:
        busy = f"{directory} is in use: another process is training there"
        stack.enter_context(storage.locked(directory / ".lock", busy))
        if not drawn:
            files.keep_data(directory, problem)
        result = Result.read(directory)
        if result is not None and not result.can_go_on(limit, time):
            return result
        stack.enter_context(threads(1))
        loop = Loop(config, problem, directory, shown, files.newest_checkpoint(directory, config))
        stack.callback(loop.record.close)
        (directory / files.RESULT).unlink(missing_ok=True)
        whole = limit if drawn else limit * problem.predictions("train")
        for each in shown:
            stack.enter_context(each.shown(config, whole, time, loop.judge.done))
        if skipped := getattr(problem, "skipped", ()):
            loop.say(f"left out, as they cannot be read: {len(skipped)} of the files ({'; '.join(skipped)})")
        stack.enter_context(_interruptible(loop))
        return loop.run(limit, time, checkpoint_seconds)


def _limit(config: Config, asked: dict[str, int | None]) -> int:
    """The number of updates or epochs at which this call ends."""
    for name, value in asked.items():
        if value is not None and name != config.limit:
            raise ValueError(f"{name} must be left out with {config.problem!r}: {config.limit} limits it")
    limit = asked[config.limit]
    return getattr(config, config.limit) if limit is None else checks.whole(config.limit, limit)


@contextmanager
def _interruptible(loop: Loop) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the loop between two updates; a second one ends it at once."""
    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield
        return

    def stop(number: int, frame: Any) -> None:
        loop.interrupted = SIGNALS[signal.Signals(number)]
        signal.signal(number, before[signal.Signals(number)])

    # None: the handler was not set from Python, and can't be restored
    before = {each: signal.signal(each, stop) or signal.SIG_DFL for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)

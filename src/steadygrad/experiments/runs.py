"""One run, from its settings to its result."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, overload

from .. import checks
from . import files, saved
from . import problem as problems
from .config import DRAWN, Config
from .display import PROGRESS, Display, Words, display, words
from .loop import Loop
from .network import threads
from .saved import Result

CHECKPOINT_SECONDS = 30.0
SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "interrupted by SIGTERM"}
"""What a scheduler or Ctrl-C sends before it kills, and what the result then says."""


@overload
def run(config: Config, directory: str | Path, /, **options: Any) -> Result: ...
@overload
def run(problem: Any, config: Config, directory: str | Path, /, **options: Any) -> Result: ...
def run(*what: Any, **options: Any) -> Result:
    """Train a network until its problem is solved, or validation gets no better, or a limit is reached, or it diverges.

    `run(config, directory)`, or `run(problem, config, directory)` with a class of one's own in place of the config's problem.

    Args:
        problem: a class in a file (docs/problems.md); a name or 'FILE.py:CLASS' will do too.
        config: the settings (`preset` has them by name).
        directory: where everything is written (files.py); made if it is not there.
        progress: 'auto' (a live display on a terminal, else a line for each check), 'plain' or 'none'.
        resume: go on from the newest checkpoint in `directory`, to the very same numbers; begin if there is none. A run
            that has its result is not run again, unless a limit it ended at is now higher.
        max_updates, epochs, max_seconds: limits for this call in place of the config's; schedules still follow the config.
        checkpoint_seconds: how often to write a checkpoint, in the middle of an epoch too.
        tensorboard: also write scalars and a picture of the gradient's flow for TensorBoard, to DIR/tensorboard.
        data: where the run's own text or music is now, if it was moved; its checksum must be the run's.

    Returns:
        The result, which is also in DIR/result.json, unless Ctrl-C or SIGTERM interrupted the run: then it has none yet. The
        best weights are in DIR/weights.safetensors.

    Raises:
        FolderError: the folder holds another run, or the data have changed since this one began.
        CheckpointError: there are checkpoints, and none can be used.
        DataError: the data are missing, altered or unreadable.

    Example:
        >>> import tempfile
        >>> from steadygrad.experiments import Config, run
        >>> config = Config("temporal-order", "sgd", (10, 12), hidden=5, test_sequences=100, check_sequences=100)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     result = run(config, directory, progress="none", max_updates=10)
        >>> result.solved, result.updates, result.reason
        (False, 10, 'max_updates')
    """
    if len(what) == 3:
        problem, config, directory = what
        return _run(config.changed(problem=problem), Path(directory), **options)
    config, directory = what
    return _run(config, Path(directory), **options)


def _run(
    config: Config,
    directory: Path,
    *,
    progress: str = "auto",
    resume: bool = False,
    max_updates: int | None = None,
    epochs: int | None = None,
    max_seconds: float | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    tensorboard: bool = False,
    data: str | Path | None = None,
) -> Result:
    checks.one_of("progress", progress, PROGRESS)
    limit, time = _limits(config, {"max_updates": max_updates, "epochs": epochs}, max_seconds)
    checks.number("checkpoint_seconds", checkpoint_seconds, low=0)
    files.safetensors()
    problem = problems.build(config if data is None else config.changed(path=data))
    drawn = config.form == DRAWN
    spoken = words(config, problem)
    shown = displays(directory, progress, tensorboard, spoken)
    files.claim(directory, config, resume)
    with ExitStack() as stack:
        busy = f"{directory} is in use: another process is training there"
        stack.enter_context(files.locked(directory / ".lock", busy))
        if not drawn:
            from .trained import keep_data

            keep_data(directory, problem)
        result = Result.read(directory)
        if result is not None and not _can_go_on(result, limit, time):
            return result
        stack.enter_context(threads(1))
        loop = Loop(config, problem, directory, shown, saved.latest(directory, config))
        stack.callback(loop.record.close)
        (directory / files.RESULT).unlink(missing_ok=True)
        whole = limit if drawn else limit * problem.predictions("train")
        for each in shown:
            stack.enter_context(each.shown(config, whole, time, loop.judge.done))
        skipped = getattr(problem, "skipped", ())
        if skipped:
            loop.say(f"{len(skipped)} files cannot be read and are left out: {'; '.join(skipped)}")
        stack.enter_context(_interruptible(loop))
        return loop.run(limit, time, checkpoint_seconds)


def displays(directory: Path, progress: str, tensorboard: bool, spoken: Words | None = None) -> list[Display]:
    """What shows the progress of the run in `directory`, put into these words."""
    spoken = spoken or Words()
    found = [display(progress, spoken)]
    if tensorboard:
        from .tensorboard import Board

        found.append(Board(directory / "tensorboard", spoken.unit))
    return found


def _limits(config: Config, asked: dict[str, int | None], seconds: float | None) -> tuple[int, float | None]:
    """Where this call ends: updates or epochs, and seconds."""
    limit: int = getattr(config, config.limit)
    for name, value in asked.items():
        if value is None:
            continue
        if name != config.limit:
            raise ValueError(f"{name} must be left out with {config.problem!r}: {config.limit} limits it")
        limit = checks.whole(name, value)
    if seconds is None:
        return limit, config.max_seconds
    return limit, checks.number("max_seconds", seconds, low=0, open_low=True)


def _can_go_on(result: Result, limit: int, max_seconds: float | None) -> bool:
    if result.reason == "max_updates":
        return limit > result.total_updates
    if result.reason == "epochs":
        return limit > (result.epochs or 0)
    if result.reason == "max_seconds":
        return max_seconds is None or max_seconds > result.total_seconds
    return False


@contextmanager
def _interruptible(loop: Loop) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the loop between two updates; a second one ends it at once."""
    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield
        return

    def stop(number: int, frame: Any) -> None:
        loop.interrupted = SIGNALS[signal.Signals(number)]
        signal.signal(number, before[signal.Signals(number)])

    # None: what was there was not set from Python, and can't be put back
    before = {each: signal.signal(each, stop) or signal.SIG_DFL for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)

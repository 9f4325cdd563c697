"""One run, from its settings to its verdict."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from .. import checks
from . import checkpoint, files, folder
from .config import RunConfig
from .loop import Loop
from .process import displays, interruptible
from .progress import PROGRESS
from .result import Result
from .threads import threads

CHECKPOINT_SECONDS = 30.0


def run(
    config: RunConfig,
    directory: str | Path,
    *,
    progress: str = "auto",
    resume: bool = False,
    max_updates: int | None = None,
    max_seconds: float | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    tensorboard: bool = False,
) -> Result:
    """Train a network on a task until it is solved, or the limits are reached, or it diverges.

    Args:
        config: the settings (`preset` has them by name).
        directory: where everything is written (files.py); made if it is not there.
        progress: 'auto' (a live display on a terminal, else a line for each check), 'plain' or 'none'.
        resume: go on from the newest checkpoint in `directory`, to the very same numbers; begin if there is none. A run
            that has its verdict is not run again, unless a limit it ended at is now higher.
        max_updates, max_seconds: limits for this call in place of the config's; schedules still follow the config.
        checkpoint_seconds: how often to write a checkpoint.
        tensorboard: also write scalars and a picture of the gradient's flow for TensorBoard, to DIR/tensorboard.

    Returns:
        The verdict, which is also in DIR/result.json, unless Ctrl-C interrupted the run: then it has none yet.

    Raises:
        FolderError: the folder holds another run.
        CheckpointError: there are checkpoints, and none can be used.

    Example:
        >>> import tempfile
        >>> from steadygrad.training import RunConfig, run
        >>> config = RunConfig("temporal-order", "sgd", (10, 12), hidden=5, test_sequences=100, check_sequences=100)
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     result = run(config, directory, progress="none", max_updates=10)
        >>> result.solved, result.updates, result.reason
        (False, 10, 'max_updates')
    """
    directory = Path(directory)
    checks.one_of("progress", progress, PROGRESS)
    limit = config.max_updates if max_updates is None else checks.whole("max_updates", max_updates)
    time = config.max_seconds
    if max_seconds is not None:
        time = checks.number("max_seconds", max_seconds, low=0, open_low=True)
    checks.number("checkpoint_seconds", checkpoint_seconds, low=0)
    files.safetensors()
    shown = displays(directory, progress, tensorboard)
    folder.claim(directory, config, resume)
    with ExitStack() as stack:
        stack.enter_context(folder.locked(directory))
        result = Result.read(directory)
        if result is not None and not _can_go_on(result, limit, time):
            return result
        stack.enter_context(threads(1))
        loop = Loop(config, directory, shown, checkpoint.latest(directory, config))
        stack.callback(loop.record.close)
        (directory / files.RESULT).unlink(missing_ok=True)
        for each in shown:
            stack.enter_context(each.shown(config, limit, time, loop.learner.updates))
        stack.enter_context(interruptible(loop))
        return loop.run(limit, time, checkpoint_seconds)


def _can_go_on(result: Result, max_updates: int, max_seconds: float | None) -> bool:
    if result.reason == "max_updates":
        return max_updates > result.total_updates
    if result.reason == "max_seconds":
        return max_seconds is None or max_seconds > result.total_seconds
    return False

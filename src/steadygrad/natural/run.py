"""One run on music or text, from its settings to its verdict."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from .. import checks
from ..training import checkpoint, files, folder
from ..training.process import displays, interruptible
from ..training.progress import PROGRESS
from ..training.run import CHECKPOINT_SECONDS
from ..training.threads import threads
from .config import NaturalConfig
from .corpus import open_corpus
from .loop import Loop
from .progress import NaturalWords
from .result import NaturalResult
from .saved import keep_data


def run(
    config: NaturalConfig,
    directory: str | Path,
    *,
    progress: str = "auto",
    resume: bool = False,
    epochs: int | None = None,
    max_seconds: float | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    tensorboard: bool = False,
) -> NaturalResult:
    """Train a model of music or text until the limits are reached, validation gets no better, or it diverges.

    Args:
        config: the settings (`preset` has them by name).
        directory: where everything is written (training/files.py); made if it is not there.
        progress: 'auto' (a live display on a terminal, else a line for each check), 'plain' or 'none'.
        resume: go on from the newest checkpoint in `directory`, to the very same numbers; begin if there is none. A run
            that has its verdict is not run again, unless a limit it ended at is now higher.
        epochs, max_seconds: limits for this call in place of the config's; schedules still follow the config.
        checkpoint_seconds: how often to write a checkpoint, in the middle of an epoch too.
        tensorboard: also write scalars and a picture of the gradient's flow for TensorBoard, to DIR/tensorboard.

    Returns:
        The verdict, which is also in DIR/result.json, unless Ctrl-C interrupted the run: then it has none yet. The best
        weights on validation are in DIR/weights.safetensors.

    Raises:
        FolderError: the folder holds another run, or the data have changed since this one began.
        CheckpointError: there are checkpoints, and none can be used.
        DataError: the data are missing, altered or unreadable.

    Example:
        >>> import tempfile
        >>> from steadygrad import natural
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = Path(directory, "abba.txt")
        ...     _ = path.write_text("abba " * 100)
        ...     config = natural.preset("text", "sgd-cr", path=str(path), hidden=8, batch=4)
        ...     result = natural.run(config, Path(directory, "run"), progress="none", epochs=2)
        ...     result.epochs, result.reason, result.test == natural.evaluate(Path(directory, "run"))
        (2, 'epochs', True)
    """
    directory = Path(directory)
    checks.one_of("progress", progress, PROGRESS)
    limit = config.epochs if epochs is None else checks.whole("epochs", epochs)
    time = config.max_seconds
    if max_seconds is not None:
        time = checks.number("max_seconds", max_seconds, low=0, open_low=True)
    checks.number("checkpoint_seconds", checkpoint_seconds, low=0)
    files.safetensors()
    corpus = open_corpus(config)
    predictions = corpus.predictions("train")
    shown = displays(directory, progress, tensorboard, NaturalWords(predictions, corpus.per_nat))
    folder.claim(directory, config, resume)
    with ExitStack() as stack:
        stack.enter_context(folder.locked(directory))
        keep_data(directory, corpus)
        result = NaturalResult.read(directory)
        if result is not None and not _can_go_on(result, limit, time):
            return result
        stack.enter_context(threads(1))
        loop = Loop(config, corpus, directory, shown, checkpoint.latest(directory, config))
        stack.callback(loop.record.close)
        (directory / files.RESULT).unlink(missing_ok=True)
        for each in shown:
            stack.enter_context(each.shown(config, limit * predictions, time, loop.learner.tokens))
        stack.enter_context(interruptible(loop))
        return loop.run(limit, time, checkpoint_seconds)


def _can_go_on(result: NaturalResult, epochs: int, max_seconds: float | None) -> bool:
    if result.reason == "epochs":
        return epochs > result.epochs
    if result.reason == "max_seconds":
        return max_seconds is None or max_seconds > result.seconds
    return False

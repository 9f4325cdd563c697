"""What surrounds the loop of every kind of run: its displays, its threads, and Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from .progress import Display, Words, display


class Interrupted(Protocol):
    """A loop that ends, between two updates, once this is set."""

    interrupted: bool


def displays(directory: Path, progress: str, tensorboard: bool, words: Words | None = None) -> list[Display]:
    """What shows the progress of the run in `directory`, put into these words."""
    words = words or Words()
    found = [display(progress, words)]
    if tensorboard:
        from .board import Board

        found.append(Board(directory / "tensorboard", words.unit))
    return found


@contextmanager
def interruptible(loop: Interrupted) -> Iterator[None]:
    """Let Ctrl-C end the loop between two updates; a second one ends it at once."""
    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield
        return

    def stop(number: int, frame: Any) -> None:
        loop.interrupted = True
        signal.signal(signal.SIGINT, before)

    # None: what was there was not set from Python, and can't be put back
    before = signal.signal(signal.SIGINT, stop) or signal.SIG_DFL
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

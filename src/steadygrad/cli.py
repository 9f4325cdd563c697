"""The command line: `steadygrad COMMAND …`.

The modules of `steadygrad.commands` are loaded when a command of theirs is asked for: `steadygrad --help` needs no other
package. A mistake of the user is reported in one sentence on stderr, with exit code 2; set STEADYGRAD_TRACEBACK=1 to see where
it was found.
"""

from __future__ import annotations

import argparse
import codecs
import importlib
import inspect
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from . import __version__

COMMANDS = {
    "train": "train a network on a task, on music, on text, or on a problem of your own",
    "resume": "go on with a run",
    "evaluate": "test a trained network: at some lengths, or on a part of its music or text",
    "sample": "let a trained model write text, or a MIDI file",
    "sweep": "run a grid of problems, lengths, algorithms and seeds",
    "reproduce": "a figure or table of the paper: fig2 to fig7, tasks, table1, table2",
    "report": "an HTML page of a sweep or run, or RESULTS.md",
    "flow": "draw what the gradients of a run did",
    "diagnose": "say what is wrong with the gradients of a run, and what to change",
    "data": "list the data sets, or fetch them",
    "doctor": "what is installed, which backend, which data",
}
"""In the order of the help."""
HOMES = {"resume": "train", "flow": "gradients", "diagnose": "gradients"}
"""The module of steadygrad.commands that has a command, where it has another name."""

SPELLED = {
    "‖": "|",
    "Ω": "Omega",
    "ρ": "rho",
    "–": "-",
    "−": "-",
    "·": "-",
    "α": "alpha",
    "β": "beta",
    "λ": "lambda",
    "μ": "mu",
    "σ": "sigma",
    "Σ": "sum of",
    "×": "x",
    "²": "^2",
    "₁": "1",
    "…": "...",
}
MISUSED = 2
INTERRUPTED, TERMINATED = 130, 143
CLOSED = 141


class Terminated(KeyboardInterrupt):
    """SIGTERM: stop as after Ctrl-C, with an exit code of its own."""


class Parser(argparse.ArgumentParser):
    """An argparse parser that says what is wrong in one sentence, without the whole usage, and takes no short forms."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options, allow_abbrev=False)
        self.register("type", Path, _path)

    def error(self, message: str) -> NoReturn:
        self.exit(MISUSED, f"{self.prog}: {message}\n")


def _path(text: str) -> Path:
    """Every argument whose type is Path: an empty one would mean the current folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"must be a path, not {text!r}")
    return Path(text)


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser of all commands.

    Args:
        command: the only one whose options are needed; all of them if None.
    """
    top = Parser(
        prog="steadygrad",
        description="Recurrent networks whose gradients neither explode nor vanish: train them, test them, look into them.",
        epilog="steadygrad COMMAND --help tells more about each.",
    )
    top.add_argument("--version", action="version", version=f"steadygrad {__version__}")
    subparsers = top.add_subparsers(metavar="COMMAND", required=True)
    for name, words in COMMANDS.items():
        raw = argparse.RawDescriptionHelpFormatter
        added = subparsers.add_parser(name, help=words, formatter_class=raw)
        if command in (None, name):
            module = importlib.import_module(f"steadygrad.commands.{HOMES.get(name, name)}")
            run = getattr(module, f"run_{name}")
            description, _, added.epilog = inspect.cleandoc(run.__doc__).partition("\n\n")
            added.description = " ".join(description.split())
            added.set_defaults(run=run)
            getattr(module, f"add_{name}")(added)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line.

    Args:
        arguments: the words after `steadygrad`; those of this process if None.

    Returns:
        The exit code: 0; 2 where the input was wrong or the disk is full; 130 after Ctrl-C, 143 after SIGTERM, 141 where the
        reader of the output has closed it.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    _spell_out()
    with _terminable():
        return _main(words)


def _main(words: list[str]) -> int:
    said = "stopped before it began; nothing was written"
    try:
        if words and not words[0].startswith("-") and words[0] not in COMMANDS:
            from .checks import one_of

            one_of("command", words[0], COMMANDS)
        args = parser(words[0] if words else "").parse_args(words)
        said = "stopped"
        code = args.run(args)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as stopped:
        print(str(stopped) or said, file=sys.stderr)
        return TERMINATED if isinstance(stopped, Terminated) else INTERRUPTED
    except BrokenPipeError:  # the reader of our output, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED
    except Exception as error:
        if os.environ.get("STEADYGRAD_TRACEBACK") or not _for_the_user(error):
            raise
        print(f"steadygrad: {_sentence(error)}", file=sys.stderr)
        return MISUSED


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM raise `Terminated`, from the first moment on: torch takes seconds to import."""

    def terminate(number: int, frame: Any) -> NoReturn:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield
        return
    # None: the handler was not set from Python, and can't be restored
    before = signal.signal(signal.SIGTERM, terminate) or signal.SIG_DFL
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _spell_out() -> None:
    """Where the terminal or pipe knows no Ω, letters it does not know are spelled out."""

    def spelled(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return "".join(SPELLED.get(each, "?") for each in error.object[error.start : error.end]), error.end

    codecs.register_error("steadygrad", spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="steadygrad")


def _for_the_user(error: Exception) -> bool:
    """Whether it tells of what was typed, or of the disk, the network or the packages; all else is a bug."""
    from .data.sources import DataError

    return isinstance(error, (ValueError, OSError, ImportError, DataError))


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        # made here, it is a sentence already; made by the system, it lacks the file
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)


if __name__ == "__main__":
    sys.exit(main())

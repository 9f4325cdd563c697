"""Options of the command line, made from the declarations of the settings (experiments/config.py).

argparse, and no library that builds a command line from types: typer and cyclopts draw a panel of several lines for a fault in
place of one sentence, and `steadygrad --help` should not need an extra.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from ..experiments import config
from ..experiments.problem import form

NOT_OPTIONS = ("problem", "path", "algorithm")  # settings that `train` takes in another way


def length(text: str) -> tuple[int, int]:
    """'50:200' or '100'."""
    low, colon, high = text.partition(":")
    try:
        return int(low), int(high if colon else low)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a length or LOW:HIGH, such as 50:200, not {text!r}") from None


def _threshold(text: str) -> float | str:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number or 'auto', not {text!r}") from None


def _pair(text: str) -> tuple[str, Any]:
    """'positions=program' as a pair; a value that is a number is one."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, such as positions=program, not {text!r}")
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value


def help_text(name: str) -> str:
    """A setting's help, with all names it can have.

    >>> help_text("dtype")
    'of weights and states: float32 or float64'
    """
    names = config.kind(name)[1] if name != "algorithm" else ()  # whose help explains them
    return f"{config.Config.model_fields[name].description}{': ' + either(names) if names else ''}"


def either(names: Iterable[str]) -> str:
    """Names to choose from.

    >>> either(["sgd", "sgd-c", "sgd-cr"])
    'sgd, sgd-c or sgd-cr'
    """
    *others, last = names
    return f"{', '.join(others)} or {last}"


def settings() -> dict[str, dict[str, Any]]:
    """argparse's arguments for every setting that is an option, by name."""
    types: dict[Any, Any] = {
        int: (int, "N"),
        float: (float, "X"),
        tuple: (length, "LOW:HIGH"),
        dict: (_pair, "NAME=VALUE"),
    }
    own = {"threshold": _threshold, "curriculum": lambda text: None if text == "none" else length(text)}
    made: dict[str, dict[str, Any]] = {}
    for name, field in config.Config.model_fields.items():
        if name in NOT_OPTIONS:
            continue
        kind, _ = config.kind(name)
        read, metavar = types.get(kind, (str, "NAME"))
        said: Any = field.json_schema_extra
        about: dict[str, Any] = {"type": own.get(name, read), "metavar": said["metavar"] or metavar}
        if kind is bool:
            about = {"action": argparse.BooleanOptionalAction}
        elif kind is dict:
            about["action"] = "append"
        made[name] = {**about, "help": help_text(name), "default": argparse.SUPPRESS}
    return made


def add_settings(parser: argparse.ArgumentParser, groups: Mapping[str, Iterable[str]]) -> None:
    """Add an option for every setting of a run, by the titles of `groups`; one that is not typed is not in the result.

    Options of earlier versions say what they are called now.
    """
    made = settings()
    for title, names in groups.items():
        group = parser.add_argument_group(title)
        for name in names:
            if name in made:
                group.add_argument(option(name), dest=name, **made[name])

    def renamed(text: str) -> None:
        raise argparse.ArgumentTypeError(f"is now called --option: --option {text}")

    parser.add_argument("--task-option", type=renamed, help=argparse.SUPPRESS, default=argparse.SUPPRESS)


def option(name: str) -> str:
    """How a setting is typed."""
    return "--option" if name == "options" else f"--{name.replace('_', '-')}"


def given(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that were typed."""
    typed = {name: getattr(args, name) for name in settings() if hasattr(args, name)}
    if "options" in typed:
        typed["options"] = dict(typed["options"])
    return typed


def words(values: Mapping[str, Any]) -> list[str]:
    """What to type for these settings: the inverse of `given`."""
    found: list[str] = []
    for name, value in values.items():
        if isinstance(value, bool):
            found.append(f"--{'' if value else 'no-'}{name}")
        elif isinstance(value, dict):
            found += [word for key, each in value.items() for word in (option(name), f"{key}={each}")]
        else:
            text = ":".join(map(str, value)) if isinstance(value, tuple) else str(value)
            found += [option(name), "none" if value is None else text]
    return found


def refuse(typed: Iterable[str], allowed: Iterable[str], why: str) -> None:
    """Raises ValueError with the names of options that were typed and that nothing would read."""
    others = [option(name) for name in typed if name not in allowed]
    if others:
        raise ValueError(f"{', '.join(others)} must be left out {why}")


def refuse_others(typed: Iterable[str], problem: str) -> None:
    """Refuse settings that were typed and are for another form of problem."""
    drawn = form(problem) == config.DRAWN
    others = {config.DATA, config.OF_TEXT, config.OF_MUSIC, config.OWN_MUSIC} if drawn else {config.DRAWN}
    allowed = [name for name in typed if config.of(name) not in others]
    hint = " (--curriculum-patience is the curriculum's)" if drawn and "patience" in typed else ""
    refuse(typed, allowed, f"with {problem!r}, which has no such setting{hint}")


def add_display(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--checkpoint-seconds", type=float, default=30.0, metavar="S", help="between two checkpoints (30)")
    add("--tensorboard", action="store_true", help="also write for TensorBoard, to DIR/tensorboard")
    add("--plain", action="store_true", help="lines of text, also on a terminal")
    add("--quiet", action="store_true", help="nothing but the result")


def progress(args: argparse.Namespace) -> str:
    """The display that was asked for."""
    return "none" if args.quiet else "plain" if args.plain else "auto"


def of_run(args: argparse.Namespace) -> dict[str, Any]:
    """What `experiments.run` is called with besides its config and folder."""
    saved = {"tensorboard": args.tensorboard, "checkpoint_seconds": args.checkpoint_seconds}
    return {"progress": progress(args), **saved}


def names(text: str) -> list[str]:
    """Names with commas between, each once."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))

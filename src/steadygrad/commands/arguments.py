"""How the subcommands read what was typed: ranges of lengths, settings of a run, how much to say."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any


def length(text: str) -> tuple[int, int]:
    """'50:200' or '100'.

    >>> length("50:200"), length("100")
    ((50, 200), (100, 100))
    """
    low, colon, high = text.partition(":")
    try:
        return int(low), int(high if colon else low)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a length or LOW:HIGH, such as 50:200, not {text!r}") from None


def optional_length(text: str) -> tuple[int, int] | None:
    """A length or a range; 'none' for none."""
    return None if text == "none" else length(text)


def threshold(text: str) -> float | str:
    """A number, or 'auto'."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number or 'auto', not {text!r}") from None


def task_option(text: str) -> tuple[str, str]:
    """'positions=program' as a pair."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, such as positions=program, not {text!r}")
    return name, value


SETTINGS: dict[str, tuple[Any, str, str]] = {
    "length": (length, "LOW:HIGH", "lengths to draw from, both ends included, or one length"),
    "seed": (int, "N", "of data, initial weights and test sequences"),
    "batch": (int, "N", "sequences in an update"),
    "hidden": (int, "N", "units of the recurrent layer"),
    "nonlinearity": (str, "NAME", "tanh, relu, sigmoid or identity"),
    "leak": (float, "λ", "of leaky units, in [0, 1)"),
    "init": (str, "NAME", "basic_tanh, smart_tanh, sigmoid, orthogonal or identity"),
    "optimizer": (str, "NAME", "sgd, momentum, nesterov, rmsprop or adam"),
    "lr": (float, "X", "learning rate"),
    "momentum": (float, "X", "of the optimizer"),
    "threshold": (threshold, "X", "norm above which the gradient is clipped, or auto"),
    "nonfinite": (str, "NAME", "where the gradient is not finite: skip, shrink or raise"),
    "alpha": (float, "X", "factor of Ω"),
    "omega": (str, "NAME", "Ω of the paper, or of its authors' program"),
    "lr_schedule": (
        str,
        "NAME",
        "constant, 1/t, half-when-worse, linear, cosine or, of a task, 1/length, 1/length^1.5",
    ),
    "alpha_schedule": (str, "NAME", "the same for α, but not by length"),
    "epoch": (int, "N", "updates that make one unit of t in 1/t and half-when-worse"),
    "curriculum": (optional_length, "LOW:HIGH", "lengths to begin with, which grow as the loss falls, or none"),
    "growth": (float, "X", "factor by which they grow"),
    "patience": (
        int,
        "N",
        "updates whose mean loss decides; for music and text: stop after so many epochs without a better validation",
    ),
    "curriculum_loss": (float, "X", "mean loss below which they grow"),
    "max_updates": (int, "N", "give up after so many updates"),
    "max_seconds": (float, "S", "give up after so many seconds"),
    "check_every": (int, "N", "updates between two tests"),
    "check_sequences": (int, "N", "sequences a test begins with"),
    "test_sequences": (int, "N", "sequences of a whole test"),
    "success": (float, "X", "solved when at most this share is wrong"),
    "average": (int, "N", "test and keep the mean of the weights over the N updates before a check"),
    "after_success": (str, "NAME", "stop, or polish: train on and keep the weights that err least at twice the length"),
    "polish": (float, "X", "polish for so many times the updates until success"),
    "backend": (str, "NAME", "auto, native, torch or reference"),
    "dtype": (str, "NAME", "float32 or float64"),
    "threads": (
        int,
        "N",
        "threads of the recurrent layer (small networks run best on one); results do not depend on them",
    ),
}


OF_MUSIC_AND_TEXT: dict[str, tuple[Any, str, str]] = {
    "ahead": (int, "N", "predict the character so many ahead (text)"),
    "time_step": (float, "S", "seconds of a step (music of your own)"),
    "steps": (int, "N", "longest chunk that gradients go back through; the state is carried on"),
    "cost": (str, "NAME", "mean or sum over the steps of a sequence"),
    "epochs": (int, "N", "stop after so many epochs"),
}


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add an option for every setting of a run; one that is not typed is not in the result."""
    group = parser.add_argument_group("settings, each in place of the preset's")
    _add(group, SETTINGS)
    group.add_argument(
        "--task-option",
        type=task_option,
        metavar="NAME=VALUE",
        action="append",
        default=argparse.SUPPRESS,
        help="an option of the task, such as positions=program; may be repeated",
    )

    natural = parser.add_argument_group("settings of music and text alone")
    _add(natural, OF_MUSIC_AND_TEXT)
    natural.add_argument(
        "--bias",
        action=argparse.BooleanOptionalAction,
        default=argparse.SUPPRESS,
        help="whether the network has biases",
    )


def _add(group: Any, options: dict[str, tuple[Any, str, str]]) -> None:
    for name, (kind, metavar, words) in options.items():
        group.add_argument(option(name), type=kind, metavar=metavar, help=words, default=argparse.SUPPRESS)


def option(name: str) -> str:
    """How a setting is typed.

    >>> option("time_step")
    '--time-step'
    """
    return f"--{name.replace('_', '-')}"


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that were typed."""
    names = (*SETTINGS, *OF_MUSIC_AND_TEXT, "bias")
    given = {name: getattr(args, name) for name in names if hasattr(args, name)}
    if hasattr(args, "task_option"):
        given["task_options"] = dict(args.task_option)
    return given


def refuse(given: Iterable[str], allowed: Iterable[str], why: str) -> None:
    """Settings that were typed and that nothing would read are refused by name.

    >>> refuse(["length"], ["lr"], "with 'ptb', which is a text")
    Traceback (most recent call last):
    ValueError: --length must be left out with 'ptb', which is a text
    """
    others = [option("task_option" if name == "task_options" else name) for name in given if name not in allowed]
    if others:
        raise ValueError(f"{', '.join(others)} must be left out {why}")


def add_display(parser: argparse.ArgumentParser) -> None:
    """Add what training shows and how often it saves."""
    parser.add_argument(
        "--checkpoint-seconds", type=float, default=30.0, metavar="S", help="between two checkpoints (30)"
    )
    parser.add_argument("--tensorboard", action="store_true", help="also write for TensorBoard, to DIR/tensorboard")
    parser.add_argument("--plain", action="store_true", help="lines of text, also on a terminal")
    parser.add_argument("--quiet", action="store_true", help="nothing but the verdict")


def progress(args: argparse.Namespace) -> str:
    """The display that was asked for."""
    return "none" if args.quiet else "plain" if args.plain else "auto"

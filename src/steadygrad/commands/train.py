"""`steadygrad train`: one run, from its settings to its verdict."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import arguments, verdict

if TYPE_CHECKING:
    from ..natural import NaturalConfig
    from ..training import RunConfig

TASKS = (
    "temporal-order, temporal-order-3bit, addition, multiplication, random-permutation, memorization-5bit or "
    "memorization-20bit"
)
DATA = "piano-midi, nottingham, musedata, jsb, ptb, text FILE or music FOLDER"
EXAMPLES = """\
examples:
  steadygrad train temporal-order --length 50:200 --seed 1 --out runs/order
  steadygrad train temporal-order --preset paper --algorithm sgd-c --out runs/clipped
  steadygrad train addition --lr 0.02 --alpha 4 --curriculum 20:30 --max-updates 100000 --out runs/addition
  steadygrad train --config runs/order/config.json --seed 2 --out runs/order-2
  steadygrad train nottingham --algorithm sgd-cr --preset paper --out runs/nottingham
  steadygrad train ptb --ahead 5 --max-seconds 3600 --out runs/ptb
  steadygrad train text novel.txt --hidden 300 --out runs/novel
  steadygrad train music midi/ --time-step 0.25 --out runs/music
"""


def add(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "train",
        help="train a network on a task, on music or on text",
        description=(
            "Train a network on a synthetic task of the paper, until at most 1 % of 10,000 fresh sequences is wrong; or a "
            "model of music or text, until its limits are reached."
        ),
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("task", nargs="?", metavar="TASK", help=f"{TASKS}; or data: {DATA}")
    parser.add_argument("path", nargs="?", metavar="PATH", help="your own text file, or folder of MIDI files")
    parser.add_argument(
        "--algorithm", metavar="NAME", help="sgd, sgd-c (clipping), sgd-r (Ω) or sgd-cr (both, the default)"
    )
    parser.add_argument(
        "--preset", metavar="NAME", help="paper, proceedings or program (tasks alone), or steady (the default)"
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="take the settings of a config.json in place of a preset"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the run")
    arguments.add_settings(parser)
    arguments.add_display(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train."""
    from .. import natural, training

    options: dict[str, Any] = {
        "progress": arguments.progress(args),
        "checkpoint_seconds": args.checkpoint_seconds,
        "tensorboard": args.tensorboard,
    }
    settings = config(args)
    if isinstance(settings, natural.NaturalConfig):
        return verdict.tell_natural(natural.run(settings, args.out, **options), settings, args.out)
    return verdict.tell(training.run(settings, args.out, **options), args.out)


def config(args: argparse.Namespace) -> RunConfig | NaturalConfig:
    """The settings that were asked for."""
    from .. import natural, tasks
    from ..checks import one_of

    if args.config is None:
        if args.task is None:
            raise ValueError("TASK must be given, or --config FILE")
        one_of("task", args.task, [*tasks.names(), *natural.NAMES])
        return _preset(args)
    if args.preset is not None:
        raise ValueError("--preset must be left out with --config, which has all settings")
    return _read(args)


def _preset(args: argparse.Namespace) -> RunConfig | NaturalConfig:
    from .. import natural, training

    given = arguments.settings(args)
    named = args.task, args.algorithm or "sgd-cr", args.preset or "steady"
    if args.task in natural.NAMES:
        _refuse(given, natural.NaturalConfig, args.task)
        if args.path is not None:
            given["path"] = args.path
        return natural.preset(*named, **given)
    if args.path is not None:
        raise ValueError(f"PATH must be left out with {args.task!r}, whose sequences are drawn, not {args.path!r}")
    _refuse(given, training.RunConfig, args.task)
    return training.preset(*named, **given)


def _read(args: argparse.Namespace) -> RunConfig | NaturalConfig:
    from .. import natural, training

    text = args.config.read_text(encoding="utf-8")
    given = arguments.settings(args)
    try:
        about_data = "data" in json.loads(text)
    except (ValueError, TypeError):
        about_data = False  # RunConfig will say what is wrong with it
    if not about_data:
        _refuse(given, training.RunConfig, "a task")
        for name in ("task", "algorithm"):
            if getattr(args, name) is not None:
                given[name] = getattr(args, name)
        return training.RunConfig.from_json(text).changed(**given)
    _refuse(given, natural.NaturalConfig, "music and text")
    for name, value in (("data", args.task), ("path", args.path), ("algorithm", args.algorithm)):
        if value is not None:
            given[name] = value
    return natural.NaturalConfig.from_json(text).changed(**given)


def _refuse(given: dict[str, Any], kind: type[Any], what: str) -> None:
    arguments.refuse(given, kind.__dataclass_fields__, f"with {what!r}, which has no such setting")

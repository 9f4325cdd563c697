"""`steadygrad train`: one run, from its settings to its verdict."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import arguments, verdict

if TYPE_CHECKING:
    from ..training import RunConfig

TASKS = (
    "temporal-order, temporal-order-3bit, addition, multiplication, random-permutation, memorization-5bit or "
    "memorization-20bit"
)
EXAMPLES = """\
examples:
  steadygrad train temporal-order --length 50:200 --seed 1 --out runs/order
  steadygrad train temporal-order --preset paper --algorithm sgd-c --out runs/clipped
  steadygrad train addition --lr 0.02 --alpha 4 --curriculum 20:30 --max-updates 100000 --out runs/addition
  steadygrad train --config runs/order/config.json --seed 2 --out runs/order-2
"""


def add(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "train",
        help="train a network on a task",
        description="Train a network on a synthetic task of the paper, until at most 1 % of 10,000 fresh sequences is wrong.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("task", nargs="?", metavar="TASK", help=TASKS)
    parser.add_argument(
        "--algorithm", metavar="NAME", help="sgd, sgd-c (clipping), sgd-r (Ω) or sgd-cr (both, the default)"
    )
    parser.add_argument("--preset", metavar="NAME", help="paper, program or steady (the default)")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="take the settings of a config.json in place of a preset"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the run")
    arguments.add_settings(parser)
    arguments.add_display(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train."""
    from .. import training

    result = training.run(
        config(args),
        args.out,
        progress=arguments.progress(args),
        checkpoint_seconds=args.checkpoint_seconds,
        tensorboard=args.tensorboard,
    )
    return verdict.tell(result, args.out)


def config(args: argparse.Namespace) -> RunConfig:
    """The settings that were asked for."""
    from .. import training

    given = arguments.settings(args)
    if args.config is None:
        if args.task is None:
            raise ValueError("TASK must be given, or --config FILE")
        return training.preset(args.task, args.algorithm or "sgd-cr", args.preset or "steady", **given)
    if args.preset is not None:
        raise ValueError("--preset must be left out with --config, which has all settings")
    for name in ("task", "algorithm"):
        if getattr(args, name) is not None:
            given[name] = getattr(args, name)
    return training.RunConfig.from_json(args.config.read_text(encoding="utf-8")).changed(**given)

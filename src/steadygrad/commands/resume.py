"""`steadygrad resume`: go on with a run that was stopped or killed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from . import arguments, verdict


def add(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "resume",
        help="go on with a run",
        description="Go on with a run from its newest checkpoint, to the very same numbers as if it had not been stopped.",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="folder of the run")
    parser.add_argument("--max-updates", type=int, metavar="N", help="another limit than the run's own (tasks)")
    parser.add_argument("--epochs", type=int, metavar="N", help="likewise (music and text)")
    parser.add_argument("--max-seconds", type=float, metavar="S", help="likewise")
    arguments.add_display(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Go on."""
    from .. import natural, training

    directory = args.directory
    options: dict[str, Any] = {
        "progress": arguments.progress(args),
        "resume": True,
        "max_seconds": args.max_seconds,
        "checkpoint_seconds": args.checkpoint_seconds,
        "tensorboard": args.tensorboard,
    }
    limits = {name for name in ("max_updates", "epochs") if getattr(args, name) is not None}
    if natural.holds_run(directory):
        arguments.refuse(limits, ("epochs",), f"with {directory}, a run on music or text: --epochs limits it")
        config = natural.read_config(directory)
        return verdict.tell_natural(natural.run(config, directory, epochs=args.epochs, **options), config, directory)
    config = training.read_config(directory)
    arguments.refuse(limits, ("max_updates",), f"with {directory}, a run on a task: --max-updates limits it")
    return verdict.tell(training.run(config, directory, max_updates=args.max_updates, **options), directory)

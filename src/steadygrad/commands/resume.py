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
    parser.add_argument("--max-updates", type=int, metavar="N", help="another limit than the run's own")
    parser.add_argument("--max-seconds", type=float, metavar="S", help="likewise")
    arguments.add_display(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Go on."""
    from .. import training

    result = training.run(
        training.read_config(args.directory),
        args.directory,
        progress=arguments.progress(args),
        resume=True,
        max_updates=args.max_updates,
        max_seconds=args.max_seconds,
        checkpoint_seconds=args.checkpoint_seconds,
        tensorboard=args.tensorboard,
    )
    return verdict.tell(result, args.directory)

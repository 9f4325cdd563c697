"""`steadygrad resume`: go on with a run that was stopped or killed."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import options, train

DESCRIPTION = "Go on with a run from its newest checkpoint, to the very same numbers as if it had not been stopped."
EXAMPLES = ""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="folder of the run")
    parser.add_argument("--max-updates", type=int, metavar="N", help="another limit than the run's own (tasks)")
    parser.add_argument("--epochs", type=int, metavar="N", help="likewise (music and text)")
    parser.add_argument("--max-seconds", type=float, metavar="S", help="likewise")
    parser.add_argument("--data", type=Path, metavar="PATH", help="where the run's own text or MIDI folder is now")
    options.add_display(parser)


def run(args: argparse.Namespace) -> int:
    """Go on."""
    from .. import experiments

    config = experiments.read_config(args.directory)
    limits = {name: value for name in ("max_updates", "epochs") if (value := getattr(args, name)) is not None}
    options.refuse(limits, (config.limit,), f"with {args.directory}: {options.option(config.limit)} limits it")
    if args.data is not None and config.path is None:
        raise ValueError(
            f"--data must be left out with {args.directory}, whose problem {config.problem} has no such file"
        )
    more = {"resume": True, "max_seconds": args.max_seconds, "data": args.data}
    result = experiments.run(config, args.directory, **limits, **more, **options.of_run(args))
    return train.tell(result, config, args.directory)

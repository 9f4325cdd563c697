"""`steadygrad train` and `resume`: one run, from its settings to its result, and on from where it was stopped."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .. import experiments, storage
from ..experiments import Config, Result, files, preset, problem
from ..experiments.config import DRAWN
from ..experiments.presets import OF_DATA, PRESETS
from . import options

EXIT_CODES = {"interrupted": 130, "interrupted by SIGTERM": 143}
CLOSED = 141  # exit code where the reader of our output has closed it: 128 and SIGPIPE's number


def add_train(parser: argparse.ArgumentParser) -> None:
    presets = options.either(f"{name} (the default)" if name == "steady" else name for name in PRESETS)
    add = parser.add_argument
    add("problem", nargs="?", metavar="PROBLEM", help=options.help_text("problem"))
    add("path", nargs="?", metavar="PATH", help=options.help_text("path"))
    add("--algorithm", metavar="NAME", help=options.help_text("algorithm"))
    add("--preset", metavar="NAME", help=f"{presets}; for data sets {options.either(OF_DATA)}")
    add("--config", type=Path, metavar="FILE", help="take the settings of a config.json in place of a preset")
    add("--out", type=Path, required=True, metavar="DIR", help="folder of the run")
    groups = {f"{part} (each in place of the preset's)": kind.model_fields for part, kind in Config.PARTS.items()}
    options.add_settings(parser, groups)
    options.add_display(parser)


def add_resume(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="folder of the run")
    add("--max-updates", type=int, metavar="N", help="another limit than the run's own (tasks)")
    add("--epochs", type=int, metavar="N", help="likewise (music and text)")
    add("--max-seconds", type=float, metavar="S", help="likewise")
    add("--data", type=Path, metavar="PATH", help="where the run's own text or MIDI folder is now")
    options.add_display(parser)


def run_train(args: argparse.Namespace) -> int:
    """Train a network on a synthetic task of the paper (or a problem of your own), until at most 1 % of 10,000 fresh
    sequences is wrong; or a model of music or text, until its limits are reached.

    examples:
      steadygrad train temporal-order --length 50:200 --seed 1 --out runs/order
      steadygrad train temporal-order --preset paper --algorithm sgd-c --out runs/clipped
      steadygrad train addition --lr 0.02 --alpha 4 --curriculum 20:30 --max-updates 100000 --out runs/addition
      steadygrad train my_problem.py:Parity --length 50:200 --out runs/parity
      steadygrad train --config runs/order/config.json --seed 2 --out runs/order-2
      steadygrad train nottingham --algorithm sgd-cr --preset paper --out runs/nottingham
      steadygrad train ptb --ahead 5 --max-seconds 3600 --out runs/ptb
      steadygrad train text novel.txt --hidden 300 --out runs/novel
      steadygrad train music midi/ --time-step 0.25 --out runs/music
    """
    with _stoppable(args.out):
        return _tell(experiments.run(config(args), args.out, **options.of_run(args)), args.out)


def run_resume(args: argparse.Namespace) -> int:
    """Go on with a run from its newest checkpoint, to the very same numbers as if it had not been stopped."""
    with _stoppable(args.directory):
        folder, config = args.directory, experiments.read_config(args.directory)
        limits = {name: value for name in ("max_updates", "epochs") if (value := getattr(args, name)) is not None}
        options.refuse(limits, (config.limit,), f"with {folder}: {options.option(config.limit)} limits it")
        if args.data is not None and config.path is None:
            raise ValueError(f"--data must be left out with {folder}, whose problem {config.problem} has no such file")
        more = {"resume": True, "max_seconds": args.max_seconds, "data": args.data}
        return _tell(experiments.run(config, folder, **limits, **more, **options.of_run(args)), folder)


@contextmanager
def _stoppable(directory: Path) -> Iterator[None]:
    """After Ctrl-C or SIGTERM before training begins, or a second one while it stops: report what is on disk."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        told = "stopped before training began; nothing was written"
        if (directory / "config.json").exists():
            told = f"stopped; go on with: steadygrad resume {shlex.quote(str(directory))}"
        raise type(stopped)(told) from None


def config(args: argparse.Namespace) -> Config:
    """The settings that were asked for: those of a preset or of a file, with what was typed in place of them."""
    typed = options.given(args)
    if args.config is not None:
        if args.preset is not None:
            raise ValueError("--preset must be left out with --config, which has all settings")
        args.config.stat()  # where there is no such file, it need not be one of a run
        found = files.config_in(args.config)
        options.refuse_others(typed, args.problem or found.problem)
        others = {"problem": args.problem, "path": args.path, "algorithm": args.algorithm}
        return found.changed(**typed, **{name: value for name, value in others.items() if value is not None})
    if args.problem is None:
        raise ValueError("PROBLEM must be given, or --config FILE")
    if args.path is not None and problem.form(args.problem) == DRAWN:
        raise ValueError(f"PATH must be left out with {args.problem!r}, whose sequences are drawn, not {args.path!r}")
    options.refuse_others(typed, args.problem)
    path = {} if args.path is None else {"path": args.path}
    return preset(args.problem, args.algorithm, args.preset, **typed, **path)


def _tell(result: Result, directory: Path) -> int:
    """Print how the run ended and where it is; return the exit code."""
    if result.interrupted:
        code = EXIT_CODES.get(result.reason, CLOSED)
        again = f"go on with: steadygrad resume {shlex.quote(str(directory))}"
        why = result.reason.removeprefix("interrupted").strip(": ")
        text = f"stopped after {result.total_updates:,} updates{f' ({why})' if why else ''}; {again}"
        print(text, file=sys.stderr if code == CLOSED else sys.stdout)
        return code
    if result.solved is not None:
        wrong = f"{100 * (result.error or 0):.2f} % wrong"
        polished = result.total_updates - result.updates if result.solved else 0
        more = f", and {polished:,} more to err less at longer lengths" if polished else ""
        print(f"{result.verdict}{more} ({result.seconds:.0f} s); best weights: {wrong}")
    else:
        counts = f"{result.epochs:,} epochs, {result.updates:,} updates ({result.seconds:.0f} s)"
        print(f"ended ({result.reason}) after {counts}")
        if result.best_epoch:
            scores = "   ".join(f"{split} {getattr(result, split):.4f}" for split in ("train", "valid", "test"))
            unit = (storage.read_json(directory / files.DATA) or {}).get("unit", "")
            print(f"best weights, of epoch {result.best_epoch}: {scores} {unit}")
        else:
            print("no weights are kept: there was no validation before")
    print(f"everything is in {directory}")
    return 0

"""`steadygrad evaluate`: the error of a trained network at other lengths, or a model's figure of merit on its test set."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from . import arguments

SEQUENCES, SEED, SPLIT = 10_000, 0, "test"
EXAMPLES = """\
examples:
  steadygrad evaluate runs/order --length 250 300 400 50:200
  steadygrad evaluate runs/nottingham --split valid
"""


def add(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "evaluate",
        help="test a trained network: at some lengths, or on a part of its music or text",
        description=(
            "Test the best weights of a run: on fresh sequences of its task, or on a part of the music or text it was "
            "trained on."
        ),
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="folder of the run")
    tasks = parser.add_argument_group("a run on a task")
    tasks.add_argument(
        "--length", type=arguments.length, nargs="+", metavar="LENGTH", help="lengths or LOW:HIGH (the run's own)"
    )
    tasks.add_argument("--sequences", type=int, metavar="N", help="how many fresh sequences (10,000)")
    tasks.add_argument("--seed", type=int, metavar="N", help="of the sequences (0)")
    natural = parser.add_argument_group("a run on music or text")
    natural.add_argument("--split", metavar="NAME", help="train, valid or test (test)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of the recurrent layer (1)")
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Test."""
    from .. import checks, natural

    checks.whole("--threads", args.threads)
    given = {name for name in ("length", "sequences", "seed", "split") if getattr(args, name) is not None}
    if natural.holds_run(args.directory):
        arguments.refuse(given, ("split",), f"with {args.directory}, a run on music or text")
        return _natural(args)
    return _task(args, given)


def _task(args: argparse.Namespace, given: set[str]) -> int:
    from .. import training

    network = training.load(args.directory)
    arguments.refuse(given, ("length", "sequences", "seed"), f"with {args.directory}, a run on a task")
    lengths = args.length or [network.config.length]
    sequences = SEQUENCES if args.sequences is None else args.sequences
    seed = SEED if args.seed is None else args.seed
    found = [training.evaluate(network, each, sequences, seed, args.threads) for each in lengths]
    print(json.dumps(found, indent=1) if args.json else table(found))
    return 0


def _natural(args: argparse.Namespace) -> int:
    from .. import natural

    split = args.split or SPLIT
    figure = natural.evaluate(args.directory, split, args.threads)
    unit = natural.UNITS[natural.read_config(args.directory).is_text]
    if args.json:
        print(json.dumps({"split": split, "figure": figure, "unit": unit}, indent=1))
    else:
        print(f"{split}  {figure:.4f} {unit}")
    return 0


def table(found: list[dict[str, Any]]) -> str:
    """The errors as text.

    >>> print(table([{"length": [400, 400], "sequences": 10_000, "errors": {"wrong": 0.0123}, "loss": 0.05}]))
      length  sequences      wrong    loss
         400     10,000     1.23 %  0.0500
    """
    criteria = list(found[0]["errors"])
    lines = ["  length  sequences" + "".join(f"{name:>11}" for name in criteria) + "    loss"]
    for each in found:
        low, high = each["length"]
        name = f"{low}" if low == high else f"{low}:{high}"
        errors = "".join(f"{100 * each['errors'][criterion]:9.2f} %" for criterion in criteria)
        loss = "not finite" if each["loss"] is None else f"{each['loss']:.4f}"
        lines.append(f"{name:>8}  {each['sequences']:>9,}{errors}  {loss}")
    return "\n".join(lines)

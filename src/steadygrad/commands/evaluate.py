"""`steadygrad evaluate`: the error of a trained network at other lengths than it was trained on."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from . import arguments


def add(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "evaluate",
        help="test a trained network at a length or a range of lengths",
        description="Test the best weights of a run on fresh sequences.",
        epilog="example:\n  steadygrad evaluate runs/order --length 250 300 400 50:200",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="folder of the run")
    parser.add_argument(
        "--length", type=arguments.length, nargs="+", metavar="LENGTH", help="lengths or LOW:HIGH (the run's own)"
    )
    parser.add_argument("--sequences", type=int, default=10_000, metavar="N", help="how many fresh sequences (10,000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the sequences (0)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads (1)")
    parser.add_argument("--json", action="store_true", help="print a JSON list in place of a table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Test."""
    import torch

    from .. import checks, training

    torch.set_num_threads(checks.whole("--threads", args.threads))
    network = training.load(args.directory)
    lengths = args.length or [network.config.length]
    found = [training.evaluate(network, each, args.sequences, args.seed) for each in lengths]
    if args.json:
        print(json.dumps(found, indent=1))
    else:
        print(table(found))
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

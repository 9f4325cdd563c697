"""`steadygrad evaluate`: the error of a trained network at other lengths, or a model's score on its test set."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from .. import checks, experiments
from ..table import Table
from . import options


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="folder of the run")
    task = parser.add_argument_group("a run on a task").add_argument
    task("--length", type=options.length, nargs="+", metavar="LENGTH", help="lengths or LOW:HIGH (the run's own)")
    task("--sequences", type=int, metavar="N", help="how many fresh sequences (10,000)")
    task("--seed", type=int, metavar="N", help="of the sequences (0)")
    data = parser.add_argument_group("a run on music or text").add_argument
    data("--split", metavar="NAME", help="train, valid or test (test)")
    data("--data", type=Path, metavar="PATH", help="where the run's own text or MIDI folder is now")
    add("--threads", type=int, default=1, metavar="N", help="threads of the recurrent layer (1)")
    add("--json", action="store_true", help="print JSON in place of a table")


def run_evaluate(args: argparse.Namespace) -> int:
    """Test the best weights of a run: on fresh sequences of its task, or on a part of the music or text it was trained
    on.

    examples:
      steadygrad evaluate runs/order --length 250 300 400 50:200
      steadygrad evaluate runs/nottingham --split valid
    """
    checks.whole("--threads", args.threads)
    given = {name for name in ("length", "sequences", "seed", "split", "data") if getattr(args, name) is not None}
    config = experiments.read_config(args.directory)
    if config.form == "drawn":
        options.refuse(given, ("length", "sequences", "seed"), f"with {args.directory}, whose sequences are drawn")
        network = experiments.load(args.directory).model
        count, seed = 10_000 if args.sequences is None else args.sequences, args.seed or 0
        lengths = args.length or [config.length]
        found = [experiments.evaluate(network, each, count, seed, layer_threads=args.threads) for each in lengths]
        print(json.dumps(found, indent=1) if args.json else table(found))
        return 0
    options.refuse(given, ("split", "data"), f"with {args.directory}, a run on a data set")
    more = {"path": args.data, "layer_threads": args.threads}
    found = experiments.evaluate(args.directory, split=args.split or "test", **more)
    print(json.dumps(found, indent=1) if args.json else f"{found['split']}  {found['score']:.4f} {found['unit']}")
    return 0


def table(found: list[dict[str, Any]]) -> str:
    """The errors as text.

    >>> print(table([{"length": [400, 400], "sequences": 10_000, "errors": {"wrong": 0.0123}, "loss": 0.05}]))
    length  sequences   wrong    loss
       400     10,000  1.23 %  0.0500
    """
    body = []
    for each in found:
        low, high = each["length"]
        errors = (f"{100 * error:.2f} %" for error in each["errors"].values())
        loss = "not finite" if each["loss"] is None else f"{each['loss']:.4f}"
        body.append([f"{low}" if low == high else f"{low}:{high}", f"{each['sequences']:,}", *errors, loss])
    return Table(["length", "sequences", *found[0]["errors"], "loss"], body, text=0).plain()

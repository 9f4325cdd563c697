"""`steadygrad data`: which data sets are there, which are missing and how large they are; and fetching them."""

from __future__ import annotations

import argparse
import sys


def add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", default="list", metavar="ACTION", help="list (the default) or fetch")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of fetch: data sets, or all")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run_data(args: argparse.Namespace) -> int:
    """List the music and text that the paper's Tables 1 and 2 need, or download what is missing.

    examples:
      steadygrad data                          what is there, and where
      steadygrad data fetch nottingham ptb     download what is missing of these two, verified by sha256
      steadygrad data fetch all
      steadygrad data | awk '$3 == "missing"'

    The sets are piano-midi, nottingham, musedata and jsb (music), and ptb (Penn Treebank text). They are kept in
    $STEADYGRAD_DATA, or else in the user's cache folder. A file that is truncated or altered is never used.
    """
    from .. import data
    from ..checks import one_of

    if one_of("ACTION", args.action, ("list", "fetch")) == "list":
        if args.names:
            raise ValueError(f"NAME must be left out without fetch, not {' '.join(args.names)}")
        rows = data.listing()
        print(data.table(rows))
        # Beside the table, which may go through a pipe.
        print(data.summary(rows), file=sys.stderr)
        return 0
    if not args.names:
        raise ValueError(f"NAME must be given: {', '.join(data.SOURCES)}, or all")
    for name in args.names:
        one_of("NAME", name, [*data.SOURCES, "all"])
    for name in data.SOURCES if "all" in args.names else dict.fromkeys(args.names):
        for path in data.fetch(name, progress=not args.quiet):
            print(f"{name:<10}  {path}", flush=True)
    return 0

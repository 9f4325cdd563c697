"""`steadygrad data`: which data sets are there, which are missing and how large they are; and fetching them."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..data import Row

DESCRIPTION = "List the music and text that the paper's Tables 1 and 2 need, or download what is missing."
EXAMPLES = """\
examples:
  steadygrad data                          what is there, and where
  steadygrad data fetch nottingham ptb     download what is missing of these two, verified by sha256
  steadygrad data fetch all
  steadygrad data | awk '$3 == "missing"'

The sets are piano-midi, nottingham, musedata and jsb (music), and ptb (Penn Treebank text). They are kept in
$STEADYGRAD_DATA, or else in the user's cache folder. A file that is truncated or altered is never used.
"""


def add_data(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_data)
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("action", nargs="?", default="list", metavar="ACTION", help="list (the default) or fetch")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of fetch: data sets, or all")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def _data(args: argparse.Namespace) -> int:
    from .. import data
    from ..checks import one_of

    if one_of("ACTION", args.action, ("list", "fetch")) == "list":
        if args.names:
            raise ValueError(f"NAME must be left out without fetch, not {' '.join(args.names)}")
        rows = data.listing()
        print(table(rows))
        # Beside the table, which may go through a pipe.
        print(summary(rows), file=sys.stderr)
        return 0
    if not args.names:
        raise ValueError(f"NAME must be given: {', '.join(data.SOURCES)}, or all")
    for name in args.names:
        one_of("NAME", name, [*data.SOURCES, "all"])
    for name in data.SOURCES if "all" in args.names else dict.fromkeys(args.names):
        for path in data.fetch(name, progress=not args.quiet):
            print(f"{name:<10}  {path}", flush=True)
    return 0


def table(rows: Sequence[Row]) -> str:
    """The files in columns: set, file, state, bytes, place.

    >>> from pathlib import Path
    >>> from steadygrad.data import Row
    >>> print(table([Row("jsb", "music/JSB_Chorales.mat", "missing", 96_095, Path("/data/music/JSB_Chorales.mat"))]))
    set  file                    state     bytes  place
    jsb  music/JSB_Chorales.mat  missing  96,095  /data/music/JSB_Chorales.mat
    """
    lines = [("set", "file", "state", "bytes", "place")]
    lines += [(row.name, row.file, row.state, f"{row.size:,}", str(row.path)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    turns = (str.ljust, str.ljust, str.ljust, str.rjust, str.ljust)
    shown = ([turn(entry, width) for turn, entry, width in zip(turns, line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(entries).rstrip() for entries in shown)


def summary(rows: Sequence[Row]) -> str:
    """What is missing, how large it is, and what to type.

    >>> from pathlib import Path
    >>> from steadygrad.data import Row
    >>> summary([Row("jsb", "music/JSB_Chorales.mat", "missing", 96_095, Path("/data/music/JSB_Chorales.mat"))])
    '1 of 1 files is missing (0.1 MB): steadygrad data fetch jsb'
    """
    missing = [row for row in rows if row.state == "missing"]
    faulty = [str(row.path) for row in rows if row.state in ("altered", "unreadable")]
    parts: list[str] = []
    if missing:
        names = " ".join(dict.fromkeys(row.name for row in missing))
        size = f"{sum(row.size for row in missing) / 1e6:.1f} MB"
        verb = "is" if len(missing) == 1 else "are"
        parts.append(f"{len(missing)} of {len(rows)} files {verb} missing ({size}): steadygrad data fetch {names}")
    parts += [f"not used, being altered or unreadable: {', '.join(faulty)}"] if faulty else []
    return "; ".join(parts) or f"all {len(rows)} files are there and verified"

"""`steadygrad report`: one HTML page of a sweep or a run; or RESULTS.md from the records in results/."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

EXAMPLES = """\
examples:
  steadygrad report runs/fig7/cells                            one self-contained page: runs/fig7/cells/index.html
  steadygrad report --results results --write RESULTS.md       make RESULTS.md of the records
  steadygrad report --results results --write RESULTS.md --check   exit code 1 if it is not what the records give
"""


def add(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "report",
        help="an HTML page of a sweep or run, or RESULTS.md",
        description="Make one self-contained HTML page of a sweep or a run, or RESULTS.md of all records.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", type=Path, nargs="?", metavar="DIR", help="folder of a sweep or of a run")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page (DIR/index.html)")
    parser.add_argument("--results", type=Path, metavar="DIR", help="folder of records, *.jsonl")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the Markdown page made of them (RESULTS.md)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if FILE is stale")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the page, or compare it."""
    if (args.directory is None) == (args.results is None):
        raise ValueError("one of DIR and --results must be given, and not both")
    if args.results is not None:
        if args.out is not None:
            raise ValueError("--out must be left out with --results: the page is --write FILE")
        return _results(args)
    if args.write is not None or args.check:
        raise ValueError("--write and --check must be left out without --results")
    from ..paper import style
    from ..report import pages

    style.require()
    print(pages.of(args.directory).write(args.out or args.directory / "index.html"))
    return 0


def _results(args: argparse.Namespace) -> int:
    from ..report import results

    if not args.results.is_dir():
        raise FileNotFoundError(f"--results must be a folder of records, and {args.results} is none")
    page = args.write or Path("RESULTS.md")
    if args.check:
        stale = results.stale(args.results, page)
        print(f"{page} is {'stale: make it again with ' + results.COMMAND if stale else 'up to date'}")
        return int(stale)
    page.write_text(results.render(args.results), encoding="utf-8")
    print(page)
    return 0

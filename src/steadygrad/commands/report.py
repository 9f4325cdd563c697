"""`steadygrad report`: one HTML page of a sweep or a run; or RESULTS.md from the records in results/."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_report(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    readme = "a page whose marked tables are filled in, too; its figures go to docs/ beside it"
    add("directory", type=Path, nargs="?", metavar="DIR", help="folder of a sweep or of a run")
    add("--out", type=Path, metavar="FILE", help="the page (DIR/index.html)")
    add("--results", type=Path, metavar="DIR", help="folder of records, *.jsonl")
    add("--write", type=Path, metavar="FILE", help="the Markdown page made of them (RESULTS.md)")
    add("--readme", type=Path, metavar="FILE", help=readme)
    add("--check", action="store_true", help="write nothing; exit code 1 if FILE is stale")


def run_report(args: argparse.Namespace) -> int:
    """Make one self-contained HTML page of a sweep or a run, or RESULTS.md of all records.

    examples:
      steadygrad report runs/fig7/cells                            one self-contained page: runs/fig7/cells/index.html
      steadygrad report --results results --write RESULTS.md       make RESULTS.md of the records
      steadygrad report --results results --write RESULTS.md --readme README.md --check   exit code 1 if one is stale
    """
    if (args.directory is None) == (args.results is None):
        raise ValueError("one of DIR and --results must be given, and not both")
    if args.results is not None:
        return _results(args)
    if args.write is not None or args.readme is not None or args.check:
        raise ValueError("--write, --readme and --check must be left out without --results")
    from .. import plotting
    from ..report import pages

    plotting.require()
    print(pages.of(args.directory).write(args.out or args.directory / "index.html"))
    return 0


def _results(args: argparse.Namespace) -> int:
    from ..report import readme, results

    if args.out is not None:
        raise ValueError("--out must be left out with --results: the page is --write FILE")
    if not args.results.is_dir():
        raise FileNotFoundError(f"--results must be a folder of records, and {args.results} is none")
    pages = {args.write or Path("RESULTS.md"): results.render(args.results)}
    if args.readme is not None:
        pages[args.readme] = readme.filled(args.readme.read_text(encoding="utf-8"), args.results)
    stale = [page for page, text in pages.items() if not page.is_file() or page.read_text(encoding="utf-8") != text]
    for page, text in pages.items():
        if args.check:
            print(f"{page} is {'stale: make it again with ' + results.COMMAND if page in stale else 'up to date'}")
        else:
            page.write_text(text, encoding="utf-8")
            print(page)
    if args.readme is not None and not args.check:
        for name, figure in readme.pictures(args.results).items():
            path = args.readme.parent / "docs" / name
            path.parent.mkdir(exist_ok=True)
            figure.savefig(path)
            print(path)
    return int(args.check and bool(stale))

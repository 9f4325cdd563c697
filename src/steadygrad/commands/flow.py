"""`steadygrad flow`: pictures of what a run's gradients did as it learned."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add(subparsers: Any) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "flow",
        help="draw what the gradients of a run did",
        description="Draw a map of the error's norm (lag against training time) and the spectrum of W_rec as training "
        "goes, each as PNG and SVG.",
        epilog="example:\n  steadygrad flow runs/order",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="folder of the run")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the pictures go (the run's folder)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Draw."""
    from ..paper import style
    from ..report import flow
    from ..report.picture import save

    style.require()
    seen = flow.read(args.directory)
    folder = args.out or args.directory
    folder.mkdir(parents=True, exist_ok=True)
    paths = save(flow.draw_norms(seen), folder / "flow") + save(flow.draw_spectrum(seen), folder / "spectrum")
    radii = f"ρ(W_rec) from {seen.radii[0]:.3f} to {seen.radii[-1]:.3f}"
    print(f"{len(seen.updates)} snapshots over {seen.updates[-1]:,} updates, {radii}")
    for path in paths:
        print(path)
    return 0

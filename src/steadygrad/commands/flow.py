"""`steadygrad flow`: pictures of what a run's gradients did as it learned."""

from __future__ import annotations

import argparse
from pathlib import Path

DESCRIPTION = (
    "Draw a map of the error's norm (lag against training time) and the spectrum of W_rec as training "
    "goes, each as PNG and SVG."
)
EXAMPLES = "example:\n  steadygrad flow runs/order"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="folder of the run")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the pictures go (the run's folder)")


def run(args: argparse.Namespace) -> int:
    """Draw."""
    from ..paper import style
    from ..report import flow
    from ..report.page import save

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

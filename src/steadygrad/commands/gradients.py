"""`steadygrad flow` and `diagnose`: pictures of what a run's gradients did, and what is wrong with them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .. import experiments, storage
from ..experiments import files

UNSEEN = (
    "A run keeps the error's norm against lag, the gradient's norm and how often it was clipped, at the checks that wrote a "
    "snapshot; gates, states and single parameters are seen by sg.watch(model) alone."
)


def add_flow(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="folder of the run")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the pictures go (the run's folder)")


def add_diagnose(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="RUN_DIR", help="folder of the run")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page (RUN_DIR/gradients.html)")


def run_flow(args: argparse.Namespace) -> int:
    """Draw a map of the error's norm (lag against training time) and the spectrum of W_rec as training goes, each as
    PNG and SVG.

    example:
      steadygrad flow runs/order
    """
    from .. import plotting
    from ..analysis import history
    from ..report import curves

    plotting.require()
    seen = curves.gradients(args.directory)
    folder = args.out or args.directory
    folder.mkdir(parents=True, exist_ok=True)
    paths = plotting.save(history.draw_norms(seen), folder / "flow")
    paths += plotting.save(history.draw_spectrum(seen), folder / "spectrum")
    radii = f"ρ(W_rec) from {seen.radii[0]:.3f} to {seen.radii[-1]:.3f}"
    print(f"{len(seen.updates)} snapshots over {seen.updates[-1]:,} updates, {radii}")
    for path in paths:
        print(path)
    return 0


def run_diagnose(args: argparse.Namespace) -> int:
    """Say what is wrong with the gradients of a run and what to change, and make one HTML page of them: the error over
    steps and updates, the findings, the gradient's norm with the clip threshold.

    examples:
      steadygrad diagnose runs/order                       the findings, and runs/order/gradients.html
      steadygrad diagnose runs/fig7/cells/temporal-order_50_sgd_fig7_seed1 --out sgd.html
    """
    from ..diagnosis import findings_of, page_of
    from ..diagnosis.recorded import RecordedCell, recorded

    config = experiments.read_config(args.directory)
    snapshots = files.read_snapshots(args.directory)
    metrics = files.read_metrics(args.directory, "gradient_norm", "clip_rate", "skipped", "omega", "active")
    kind = config.nonlinearity if config.network == "rnn" else config.network.upper()
    cell = RecordedCell(kind, config.batch, config.hidden or 0, config.leak)
    looks = recorded(metrics, snapshots, cell, config.threshold if isinstance(config.threshold, float) else None)
    updates = metrics[-1]["updates"] if metrics else 0
    weights: dict[str, Any] = {}
    if (args.directory / files.WEIGHTS).is_file():
        weights["rnn l0"] = experiments.load(args.directory).model.rnn.weight_hh_l0.detach()
    findings = findings_of(looks, weights, {"rnn": config.alpha})
    title = f"What the gradients of {args.directory.resolve().name} do"
    page = page_of(looks, findings, weights=weights, notes=[UNSEEN], updates=updates, title=title)
    path = args.out or args.directory / "gradients.html"
    storage.write(path, page.encode())
    print(f"{len(looks):,} snapshots in {updates:,} updates")
    for number, finding in enumerate(findings, start=1):
        print(f"{number}. {finding}")
    if not findings:
        print("Nothing is wrong with its gradients.")
    print(path)
    return 0

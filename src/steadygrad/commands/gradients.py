"""`steadygrad flow` and `diagnose`: pictures of what a run's gradients did, and what is wrong with them."""

from __future__ import annotations

import argparse
import math
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..diagnosis import CellLook, Look
    from ..experiments import Config

UNSEEN = (
    "A run keeps the error's norm against lag, the gradient's norm and how often it was clipped, at the checks that wrote a "
    "snapshot; gates, states and single parameters are seen by sg.watch(model) alone."
)


def add_flow(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_flow)
    parser.description = (
        "Draw a map of the error's norm (lag against training time) and the spectrum of W_rec as training "
        "goes, each as PNG and SVG."
    )
    parser.epilog = "example:\n  steadygrad flow runs/order"
    parser.add_argument("directory", type=Path, metavar="DIR", help="folder of the run")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the pictures go (the run's folder)")


def add_diagnose(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_diagnose)
    parser.description = (
        "Say what is wrong with the gradients of a run and what to change, and make one HTML page of them: the error over "
        "steps and updates, the findings, the gradient's norm with the clip threshold."
    )
    parser.epilog = """\
examples:
  steadygrad diagnose runs/order                       the findings, and runs/order/gradients.html
  steadygrad diagnose runs/fig7/cells/temporal-order_50_sgd_fig7_seed1 --out sgd.html
"""
    parser.add_argument("directory", type=Path, metavar="RUN_DIR", help="folder of the run")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the page (RUN_DIR/gradients.html)")


def _flow(args: argparse.Namespace) -> int:
    from ..paper import style
    from ..report import flow

    style.require()
    seen = flow.read(args.directory)
    folder = args.out or args.directory
    folder.mkdir(parents=True, exist_ok=True)
    paths = style.save(flow.draw_norms(seen), folder / "flow") + style.save(
        flow.draw_spectrum(seen), folder / "spectrum"
    )
    radii = f"ρ(W_rec) from {seen.radii[0]:.3f} to {seen.radii[-1]:.3f}"
    print(f"{len(seen.updates)} snapshots over {seen.updates[-1]:,} updates, {radii}")
    for path in paths:
        print(path)
    return 0


def _diagnose(args: argparse.Namespace) -> int:
    from .. import experiments
    from ..diagnosis import findings_of, page_of
    from ..experiments import files

    config = experiments.read_config(args.directory)
    looks, updates = _looks(args.directory, config)
    weights: dict[str, Any] = {}
    if (args.directory / files.WEIGHTS).is_file():
        weights["rnn l0"] = experiments.load(args.directory).model.rnn.weight_hh_l0.detach()
    findings = findings_of(looks, weights, {"rnn": config.alpha})
    title = f"What the gradients of {args.directory.resolve().name} do"
    page = page_of(looks, findings, weights=weights, notes=[UNSEEN], updates=updates, title=title)
    path = args.out or args.directory / "gradients.html"
    files.write(path, page.encode())
    print(f"{len(looks):,} snapshots in {updates:,} updates")
    for number, finding in enumerate(findings, start=1):
        print(f"{number}. {finding}")
    if not findings:
        print("Nothing is wrong with its gradients.")
    print(path)
    return 0


def _looks(directory: Path, config: Config) -> tuple[list[Look], int]:
    """What the run has written down as looks of a watch, and how many updates it made."""
    from ..diagnosis import Look
    from ..diagnosis.look import Clipping
    from ..experiments import files
    from ..report import flow

    snapshots = {line["updates"]: line for line in flow.snapshots(directory)}
    looks: list[Look] = []
    updates = clipped = skipped = 0
    for line in files.read_lines(directory / files.METRICS):
        clipped += round(line["clip_rate"] * (line["updates"] - updates))
        skipped += line["skipped"]
        updates, clipping = line["updates"], None
        if isinstance(config.threshold, float) and updates:
            clipping = Clipping(config.threshold, updates, clipped, skipped, 0, (), ())
        if updates in snapshots:
            cells = (_cell(snapshots[updates], line, config),)
            looks.append(Look(updates, cells, {}, _number(line["gradient_norm"]), clipping=clipping))
    return looks, updates


def _cell(snapshot: dict[str, Any], line: dict[str, Any], config: Config) -> CellLook:
    from ..diagnosis import CellLook
    from ..diagnosis.look import Fault

    steps, stride = snapshot["steps"], snapshot["stride"]
    by_lag = [_number(norm) for norm in snapshot["norms"] for _ in range(stride)][:steps]
    finite = [norm for norm in by_lag if math.isfinite(norm)]
    norms, largest = by_lag[::-1], max(finite, default=0.0)
    fault = next((Fault("error", steps - 1 - lag) for lag, norm in enumerate(by_lag) if not math.isfinite(norm)), None)
    return CellLook(
        *("rnn", "l0", 0, config.nonlinearity if config.network == "rnn" else config.network.upper()),
        *(steps, config.batch, config.hidden or 0, norms),
        ratios=[early / late if late > 0 else math.nan for early, late in pairwise(norms)],
        horizon=max((lag for lag, norm in enumerate(by_lag) if norm > 0.01), default=0),
        growth=max(largest, 1.0),
        omega=_number(line["omega"]),
        active=_number(line["active"]),
        room=steps - 1,
        leak=config.leak,
        reached=sum(norm >= 0.01 * largest for norm in finite) / steps,
        fault=fault,
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value

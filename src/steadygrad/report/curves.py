"""How runs learned: the curves of one run against updates, those of all runs of a sweep, and a run's snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steadygrad import plotting
from steadygrad.analysis.history import History, history
from steadygrad.experiments import files
from steadygrad.success import grouped

COLORS = {"sgd": plotting.GREY, "sgd-c": plotting.ORANGE, "sgd-r": plotting.PURPLE, "sgd-cr": plotting.BLUE}
PANELS = {
    "error": ("sequences answered wrong", "linear"),
    "valid": ("score (train and validation)", "linear"),
    "loss": ("training loss", "log"),
    "gradient_norm": ("gradient norm before clipping", "log"),
    "omega": (r"$\Omega$", "log"),
    "spectral_radius": (r"$\rho(W_\mathrm{rec})$", "linear"),
    "horizon": ("horizon (steps)", "linear"),
}
"""Of `error` and `valid` a run has one."""
BESIDE = {
    "gradient_norm": ("gradient_norm_max", "largest", plotting.VERMILLION),
    "horizon": ("high", "longest length", plotting.GREY),
    "valid": ("train", "train", plotting.GREY),
}
"""A second curve in a panel: its column, its label, its colour."""
ACROSS = 3
FEW = 20


def metrics(directory: Path) -> dict[str, Any]:
    """The columns of a run's metrics.jsonl: arrays [M], NaN for what was not finite or not measured."""
    lines = files.read_metrics(Path(directory))
    names = [name for name in (lines[0] if lines else {"updates": 0}) if name != "errors"]
    # None becomes NaN
    return {name: np.array([line.get(name) for line in lines], dtype=float) for name in names}


def gradients(directory: Path) -> History:
    """The snapshots of a run's flow.jsonl, and the horizon of every check."""
    snapshots, checks = files.read_snapshots(Path(directory)), files.read_metrics(Path(directory), "horizon")
    return history(snapshots, [(line["updates"], line["horizon"]) for line in checks])


def draw_run(seen: Mapping[str, Any], score: str = "") -> plotting.Figure:
    """Six panels of one run: `seen` is of `metrics`, `score` what a data set's `train` and `valid` are measured in."""
    with plotting.drawing(7.4, 4.2) as figure:
        panels = figure.subplots(2, ACROSS, sharex=True)
        measured = [name for name in PANELS if name in seen]
        for axes, name in zip(panels.flat, measured, strict=True):
            title, scale = PANELS[name]
            shown = _drawable(seen[name], scale)
            _line(axes, seen["updates"], shown, plotting.BLUE, "validation" if name == "valid" else "")
            axes.set_title(score if name == "valid" and score else title)
            beside, label, color = BESIDE.get(name, ("", "", ""))
            if beside in seen:
                _line(axes, seen["updates"], _drawable(seen[beside], scale), color, label, 0.9)
                axes.legend(loc="best")
            if scale == "log" and np.isfinite(shown).any():
                plotting.few_powers(axes)
            if name == "error":
                plotting.shares(axes, np.linspace(0, 1, 5))
            if name == "spectral_radius":
                axes.axhline(1.0, color=plotting.BLACK, linewidth=0.8)
            plotting.thousands(axes)
        for axes in panels[1]:
            axes.set_xlabel("updates")
    return figure


def draw_sweep(runs: Sequence[tuple[str, str, Mapping[str, Any]]]) -> plotting.Figure:
    """The error, or the validation, of every run against updates; `runs` are (title of its panel, algorithm, `metrics`)."""
    by_title = grouped(runs, lambda run: run[0])
    across = min(ACROSS, len(by_title))
    down = -(-len(by_title) // across)
    with plotting.drawing(7.4 if across > 1 else 5.0, 0.5 + 2.0 * down) as figure:
        panels = figure.subplots(down, across, squeeze=False)
        for axes in panels.flat[len(by_title) :]:
            axes.set_axis_off()
        for place, (axes, (title, mine)) in enumerate(zip(panels.flat, by_title.items(), strict=False)):
            for _, algorithm, seen in mine:
                _line(
                    axes, seen["updates"], seen["error" if "error" in seen else "valid"], COLORS[algorithm], width=1.0
                )
            axes.set_title(title)
            if all("error" in seen for _, _, seen in mine):
                plotting.shares(axes, np.linspace(0, 1, 5))
            plotting.thousands(axes)
            if place % across == 0:
                axes.set_ylabel("answered wrong" if "error" in mine[0][2] else "validation")
            if place >= len(by_title) - across:
                axes.set_xlabel("updates")
        used = [name for name in COLORS if any(algorithm == name for _, algorithm, _ in runs)]
        lines = [panels.flat[0].plot([], [], color=COLORS[name], label=name.upper())[0] for name in used]
        figure.legend(handles=lines, loc="outside upper center", ncols=len(lines))
    return figure


def _line(axes: plotting.Axes, x: Any, y: Any, color: str, label: str = "", width: float = 1.2) -> None:
    known = y == y  # not NaN: validation comes once an epoch, other lines more often
    # A point of its own each while they are few: a line through one point is not seen.
    marker = "o" if known.sum() == 1 or (known.sum() <= FEW and not known.all()) else ""
    axes.plot(x[known], y[known], color=color, linewidth=width, marker=marker, markersize=3, label=label or None)


def _drawable(values: Any, scale: str) -> Any:
    return np.where(values > 0, values, np.nan) if scale == "log" else values

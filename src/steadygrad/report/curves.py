"""How runs learned: error, loss, gradient norm, Ω, ρ and horizon of one run, or the errors of all runs of a sweep."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steadygrad.paper import style
from steadygrad.training import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {"sgd": style.GREY, "sgd-c": style.ORANGE, "sgd-r": style.PURPLE, "sgd-cr": style.BLUE}
PANELS = {
    "error": ("sequences answered wrong", "linear"),
    "loss": ("training loss", "log"),
    "gradient_norm": ("gradient norm before clipping", "log"),
    "omega": (r"$\Omega$", "log"),
    "spectral_radius": (r"$\rho(W_\mathrm{rec})$", "linear"),
    "horizon": ("horizon (steps)", "linear"),
}
ACROSS = 3


NAMES = ("updates", *PANELS, "gradient_norm_max", "high", "seconds")


def metrics(directory: Path, names: Sequence[str] = NAMES) -> dict[str, Any]:
    """The columns of a run's metrics.jsonl: arrays [M], NaN for what was not finite.

    Args:
        directory: the run's folder.
        names: of the columns.
    """
    path = Path(directory) / files.METRICS
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{directory} must be the folder of a run, and holds no {path.name}") from None
    lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    return {
        name: np.array([np.nan if line[name] is None else line[name] for line in lines], dtype=float) for name in names
    }


def draw_run(seen: Mapping[str, Any]) -> Figure:
    """Six panels of one run, from its `metrics`."""
    with style.look():
        figure = style.blank(7.4, 4.2)
        panels = figure.subplots(2, ACROSS, sharex=True)
        for axes, (name, (title, scale)) in zip(panels.flat, PANELS.items(), strict=True):
            axes.plot(seen["updates"], _drawable(seen[name], scale), color=style.BLUE, linewidth=1.2)
            axes.set_title(title)
            axes.set_yscale(scale)
            _updates(axes)
            if scale == "log":
                _decades(axes)
        error, _, norm, _, radius, horizon = panels.flat
        _share(error)
        norm.plot(
            seen["updates"],
            _drawable(seen["gradient_norm_max"], "log"),
            color=style.VERMILLION,
            linewidth=0.8,
            label="largest",
        )
        norm.legend(loc="best")
        radius.axhline(1.0, color=style.BLACK, linewidth=0.8)
        horizon.plot(
            seen["updates"], seen["high"], color=style.GREY, linewidth=0.9, linestyle="--", label="longest length"
        )
        horizon.legend(loc="best")
        for axes in panels[1]:
            axes.set_xlabel("updates")
    return figure


def draw_sweep(runs: Sequence[tuple[str, str, Mapping[str, Any]]]) -> Figure:
    """The error of every run against updates, a panel for each kind.

    Args:
        runs: (title of the panel, algorithm, `metrics` of the run).
    """
    titles = list(dict.fromkeys(title for title, _, _ in runs))
    across = min(ACROSS, len(titles))
    down = -(-len(titles) // across)
    with style.look():
        figure = style.blank(7.4 if across > 1 else 5.0, 0.5 + 2.0 * down)
        panels = figure.subplots(down, across, sharey=True, squeeze=False)
        for axes in panels.flat[len(titles) :]:
            axes.set_axis_off()
        for axes, title in zip(panels.flat, titles, strict=False):
            for _, algorithm, seen in (run for run in runs if run[0] == title):
                axes.plot(seen["updates"], seen["error"], color=COLORS[algorithm], linewidth=1.0, alpha=0.8)
            axes.set_title(title)
            _share(axes)
            _updates(axes)
        for row in panels:
            row[0].set_ylabel("answered wrong")
        for axes in panels.flat[max(0, len(titles) - across) : len(titles)]:
            axes.set_xlabel("updates")
        used = [name for name in COLORS if any(algorithm == name for _, algorithm, _ in runs)]
        lines = [panels.flat[0].plot([], [], color=COLORS[name], label=name.upper())[0] for name in used]
        figure.legend(handles=lines, loc="outside upper center", ncols=len(lines))
    return figure


def _drawable(values: Any, scale: str) -> Any:
    return np.where(values > 0, values, np.nan) if scale == "log" else values


def _decades(axes: Axes) -> None:
    """Ticks that say what they are worth, also where the axis spans less than a power of ten."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=6))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _share(axes: Axes) -> None:
    axes.set_ylim(-0.03, 1.03)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25 %", "50 %", "75 %", "100 %"])


def _updates(axes: Axes) -> None:
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}")
    axes.locator_params(axis="x", nbins=4)

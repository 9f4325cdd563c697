"""How a run on music or text learned: its figure of merit, gradient norm, Ω and ρ, against updates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steadygrad.paper import style
from steadygrad.report import curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = ("updates", "train", "valid", "gradient_norm", "gradient_norm_max", "omega", "spectral_radius")
FEW = 20


def metrics(directory: Path) -> dict[str, Any]:
    """The columns of a run's metrics.jsonl: arrays [M], NaN for what was not finite or not measured."""
    return curves.metrics(directory, NAMES)


def draw_run(seen: Mapping[str, Any], figure_of_merit: str) -> Figure:
    """Four panels of one run.

    Args:
        seen: of `metrics`.
        figure_of_merit: what `train` and `valid` are.
    """
    x = seen["updates"]
    with style.look():
        figure = style.blank(7.4, 4.2)
        panels = figure.subplots(2, 2, sharex=True)
        merit, norm, omega, radius = panels.flat
        _line(merit, x, seen["train"], style.GREY, "train")
        _line(merit, x, seen["valid"], style.BLUE, "validation")
        merit.set_title(figure_of_merit)
        merit.legend(loc="best")
        _line(norm, x, seen["gradient_norm"], style.BLUE, "mean")
        _line(norm, x, seen["gradient_norm_max"], style.VERMILLION, "largest")
        norm.set_title("gradient norm before clipping")
        norm.legend(loc="best")
        _line(omega, x, seen["omega"], style.BLUE)
        omega.set_title(r"$\Omega$")
        _line(radius, x, seen["spectral_radius"], style.BLUE)
        radius.set_title(r"$\rho(W_\mathrm{rec})$")
        for axes in (norm, omega):
            if any(line.get_ydata().size and (line.get_ydata() > 0).any() for line in axes.lines):
                axes.set_yscale("log")
        for axes in panels[1]:
            axes.set_xlabel("updates")
    return figure


def _line(axes: Axes, x: Any, y: Any, color: str, label: str = "") -> None:
    known = y == y  # not NaN: validation comes once an epoch, other lines more often
    # A point of its own each while they are few: a line through one point is not seen.
    marker = "o" if known.sum() <= FEW else ""
    axes.plot(x[known], y[known], color=color, linewidth=1.2, marker=marker, markersize=3, label=label)

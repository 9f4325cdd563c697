"""What every picture of the library shares: colours, the common look, axes, and scales that span hundreds of powers of ten.

matplotlib is an extra, imported only when something is drawn: a figure's data can be computed without it. Sizes are drawn by
their logarithms, so that nothing is lost to the range of floating point. No global plotting state is changed.
"""

from __future__ import annotations

import importlib.util
import io
import json
import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from . import storage

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

# Okabe and Ito's colours: distinct to readers with any form of colour blindness.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#8A8A8A"

Line = str | tuple[float, tuple[float, ...]]
"""A line style: matplotlib's name for it, or (offset, dash lengths)."""

LOOK: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "mathtext.fontset": "dejavusans",
    **dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), 9),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 8),
    **dict.fromkeys(("legend.frameon", "axes.spines.top", "axes.spines.right"), False),
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.5,
    "savefig.dpi": 200,
    # Fixed, so that the same data gives the same file, byte for byte.
    "svg.hashsalt": "steadygrad",
}


READABLE = 16
"""Arrays of up to so many entries stand in a figure's JSON file as well."""


def require(what: str = "drawing a figure") -> None:
    """Raises ImportError, with what to install, where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError(f"{what} needs matplotlib: pip install 'steadygrad[train]'")


@contextmanager
def look() -> Generator[None]:
    """The common look, for the drawing done inside; matplotlib's own settings are restored after it."""
    require()
    import matplotlib

    with matplotlib.rc_context(LOOK):
        yield


def blank(width: float, height: float) -> Figure:
    """An empty figure of that size in inches, on the Agg canvas: no window, no pyplot."""
    require()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def drawing(width: float, height: float) -> Generator[Figure]:
    """An empty figure of that size, to be drawn in the common look."""
    with look():
        yield blank(width, height)


def save(figure: Figure, path: Path) -> list[Path]:
    """Writes a figure as PNG (200 dpi) and SVG to `path`, which has no suffix. Returns both paths."""
    paths = [path.with_name(f"{path.name}.png"), path.with_name(f"{path.name}.svg")]
    for each, data in zip(paths, (_drawn(figure, format="png", dpi=200), svg(figure)), strict=True):
        storage.write(each, data)
    return paths


def save_with_data(
    name: str, data: Mapping[str, Any], figure: Figure, directory: Path, *, about: Mapping[str, str | None]
) -> list[Path]:
    """Writes a figure's numbers (arrays by name) and pictures to `directory`, made if it is missing; returns the paths.

    NAME.npz             every array
    NAME.json            what `about` says, the scalars, short lists, and the shapes of the arrays
    NAME.png, NAME.svg   the picture
    """
    import numpy as np

    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    arrays = {key: value for key, value in data.items() if value.ndim > 0}
    record: dict[str, Any] = {
        "figure": name,
        **about,
        "scalars": {key: value.item() for key, value in data.items() if key not in arrays},
        "lists": {key: value.tolist() for key, value in arrays.items() if value.ndim == 1 and value.size <= READABLE},
        "shapes": {key: list(value.shape) for key, value in arrays.items()},
    }
    npz, text = directory / f"{name}.npz", directory / f"{name}.json"
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    storage.write(npz, buffer.getvalue())
    storage.write(text, (json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())
    return [npz, text, *save(figure, directory / name)]


def signed(value: float, digits: int) -> str:
    """`value` with so many digits and a true minus sign.

    >>> signed(-2.6556, 3)
    '−2.656'
    """
    return f"{value:.{digits}f}".replace("-", "−")


def arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    color: str,
    *,
    style: str = "-|>",
    line: Line = "-",
    width: float = 1.2,
    head: float = 9.0,
    gap: float = 0.0,
    order: float = 3.0,
) -> None:
    """An arrow between two points in data coordinates; `gap` points are left free at both ends."""
    looks: dict[str, Any] = {"arrowstyle": style, "color": color, "linestyle": line, "linewidth": width}
    properties = {**looks, "mutation_scale": head, "shrinkA": gap, "shrinkB": gap}
    axes.annotate("", xy=end, xytext=start, arrowprops=properties, zorder=order, annotation_clip=False)


def svg(figure: Figure) -> bytes:
    """A figure as SVG, the same bytes for the same figure."""
    return _drawn(figure, format="svg", metadata={"Date": None})


def _drawn(figure: Figure, **options: Any) -> bytes:
    buffer = io.BytesIO()
    with look():
        figure.savefig(buffer, **options)
    return buffer.getvalue()


def axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    require("plot")
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(6.0, 4.0), layout="constrained")[1]


def powers(logs: Tensor) -> list[float]:
    """Natural logarithms as powers of ten, NaN (a gap in the line) where there is none."""
    return torch.where(logs.isfinite(), logs / math.log(10), math.nan).tolist()


def powers_of_ten(ax: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    def label(power: float, _: Any) -> str:
        return f"$10^{{{power:.0f}}}$" if power == round(power) else f"{10**power:.3g}"

    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=high - low > 2))
    ax.yaxis.set_major_formatter(FuncFormatter(label))


def whole_numbers(ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def shares(ax: Axes, ticks: Any) -> None:
    """The vertical axis of shares from 0 to 1, marked in percent."""
    ax.set_ylim(-0.04, 1.06)
    ax.set_yticks(ticks, [f"{100 * tick:g} %" for tick in ticks])


def thousands(ax: Axes) -> None:
    """A few marks on the horizontal axis, thousands as k."""
    ax.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}")
    ax.locator_params(axis="x", nbins=4)


def few_powers(ax: Axes) -> None:
    """A logarithmic vertical axis whose marks say what they are worth, also where it spans less than a power of ten."""
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=6))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def horizontal_lines(ax: Axes) -> None:
    """Thin lines across at every tick, under everything else."""
    ax.grid(axis="y", color="#DADADA", linewidth=0.7)
    ax.set_axisbelow(True)


def logarithmic_ticks(ax: Axes, values: Any) -> None:
    """A logarithmic horizontal axis that is marked at these values alone."""
    from matplotlib.ticker import NullLocator

    ax.set_xscale("log")
    ax.set_xticks(values, [f"{value:,.0f}" for value in values])
    ax.xaxis.set_minor_locator(NullLocator())


def legend_below(ax: Axes) -> None:
    """Where it covers no line."""
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)


def say(ax: Axes, words: str) -> None:
    ax.set(xticks=[], yticks=[])
    ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center")

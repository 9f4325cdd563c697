"""The common look of the paper's figures: Okabe–Ito colours, nothing below 8 points, no global plotting state.

matplotlib is an extra, imported only when something is drawn: a figure's data can be computed without it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

# Okabe & Ito's eight colours: distinct to readers with any form of colour blindness.
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


def require() -> None:
    """Raises ImportError, with what to install, where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("drawing a figure needs matplotlib: pip install 'steadygrad[train]'")


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


def save(figure: Figure, path: Path) -> list[Path]:
    """Writes a figure as PNG (200 dpi) and SVG to `path`, which has no suffix. Returns both paths."""
    png, svg = path.with_name(f"{path.name}.png"), path.with_name(f"{path.name}.svg")
    with look():
        figure.savefig(png, dpi=200)
        figure.savefig(svg, metadata={"Date": None})
    return [png, svg]


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

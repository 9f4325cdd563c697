"""What every picture of the library shares: axes, colours, and scales that span hundreds of powers of ten.

matplotlib is needed only when something is drawn. Sizes are drawn by their logarithms, so that nothing is lost to the range of
floating point.
"""

from __future__ import annotations

import importlib.util
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours: distinct to readers with any form of colour blindness.
BLUE, ORANGE, GREEN, RED, BLACK, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#000000", "#8A8A8A"


def axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("plot needs matplotlib: pip install 'steadygrad[train]'")
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


def legend_below(ax: Axes) -> None:
    """Where it covers no line."""
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)


def say(ax: Axes, words: str) -> None:
    ax.set(xticks=[], yticks=[])
    ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center")

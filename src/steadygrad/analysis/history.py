"""What gradients did as a network learned: the error's norm against lag, and the spectrum of W_rec, over snapshots.

    relative_l = ‖∂E/∂x_{T−l}‖ / ‖∂E/∂x_T‖      1: the error keeps its norm; below it vanishes, above it explodes
    λ_i(W_rec), ρ = max |λ_i|                    (Pascanu et al. 2013, section 2)

A snapshot (snapshots.py) is a dict, as a line of a run's flow.jsonl is: updates, steps, stride, norms, eigenvalues.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steadygrad import plotting

DECADES = 6  # at most so many powers of ten to either side of 1 have a colour of their own
ABSENT = "#D9D9D6"
DARKEST, BRIGHTEST = -6.0, 2.0
POINTS = 6000  # at most so many eigenvalues are drawn over each other: 60 snapshots of 100 units, 12 of 500


@dataclass(frozen=True)
class History:
    """Snapshots in their order; NaN stands for what is not finite."""

    updates: NDArray[np.int64]  # [C] when they were taken
    lags: NDArray[np.int64]  # [L] steps back from the last one
    norms: NDArray[np.float64]  # [C, L] relative norm of the error; NaN also where the sequence was shorter
    eigenvalues: NDArray[np.complex128]  # [C, H] of W_rec
    horizons: NDArray[np.float64]  # [M, 2] updates, and how far back more than 1 % of the norm came, of every check

    @property
    def radii(self) -> NDArray[np.float64]:
        """[C] ρ(W_rec)."""
        return np.abs(self.eigenvalues).max(axis=1)


def history(lines: Sequence[dict[str, Any]], horizons: Sequence[tuple[int, float | None]] = ()) -> History:
    """Snapshots on one axis of lags, as fine as the coarsest of them; `horizons` are pairs of updates and horizon."""
    stride = max(line["stride"] for line in lines)
    lags = np.arange(0, max(line["steps"] for line in lines), stride)
    norms = np.full((len(lines), len(lags)), np.nan)
    hidden = max(1, *(len(line["eigenvalues"]) for line in lines))
    eigenvalues = np.full((len(lines), hidden), complex(np.nan, np.nan))
    for row, line in enumerate(lines):
        seen = np.array(line["norms"], dtype=float)  # None becomes NaN
        reached = lags[lags // line["stride"] < len(seen)]
        norms[row, : len(reached)] = seen[reached // line["stride"]]
        pairs = [(np.nan, np.nan) if None in pair else pair for pair in line["eigenvalues"]]
        eigenvalues[row, : len(pairs)] = [complex(*pair) for pair in pairs]
    updates = np.array([line["updates"] for line in lines])
    return History(updates, lags, norms, eigenvalues, np.array(horizons, dtype=float).reshape(-1, 2))


def draw_norms(flow: History) -> plotting.Figure:
    """A map of the error's norm, lag against training time: white where it is kept, blue where it vanishes."""
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Patch

    with plotting.drawing(6.8, 3.8) as figure:
        axes = figure.add_subplot()
        seen = flow.norms[np.isfinite(flow.norms) & (flow.norms > 0)]
        farthest = np.ceil(np.abs(np.log10(seen)).max()) if seen.size else 1.0
        reach = 10.0 ** float(np.clip(farthest, 1, DECADES))
        shown = np.ma.masked_invalid(np.clip(flow.norms, 1 / reach, reach).T)
        axes.set_facecolor(ABSENT)
        edges = _edges(flow.updates), _edges(flow.lags)
        colors = axes.pcolormesh(*edges, shown, cmap="RdBu_r", norm=LogNorm(1 / reach, reach), rasterized=True)
        bar = figure.colorbar(colors, ax=axes, pad=0.02, extend="both")
        bar.set_label("norm of the error, relative to the last step")
        bar.ax.minorticks_off()
        if len(flow.horizons):
            words = "horizon: more than 1 % comes this far"
            axes.step(*flow.horizons.T, where="mid", color=plotting.BLACK, linewidth=1.3, label=words)
        handles, _ = axes.get_legend_handles_labels()
        absent = Patch(color=ABSENT, label="longer than the training sequences then")
        axes.legend(handles=[*handles, absent], loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set(xlabel="updates", ylabel="lag: steps back from the last")
        axes.set(xlim=(edges[0][0], edges[0][-1]), ylim=(0, edges[1][-1]))
    return figure


def draw_spectrum(flow: History) -> plotting.Figure:
    """The eigenvalues of W_rec in the complex plane as training goes, and the spectral radius beside them."""
    from matplotlib.colors import Normalize

    with plotting.drawing(6.8, 3.7) as figure:
        plane, radius = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
        scale = Normalize(flow.updates[0], max(flow.updates[-1], flow.updates[0] + 1))
        turn = np.linspace(0, 2 * np.pi, 400)
        plane.plot(np.cos(turn), np.sin(turn), color=plotting.BLACK, linewidth=1.0, zorder=2)
        hidden = flow.eigenvalues.shape[1]
        kept = np.unique(np.linspace(0, len(flow.updates) - 1, max(2, POINTS // hidden)).round().astype(int))
        size = 7 if hidden <= 100 else 2.5
        cloud = flow.eigenvalues[kept]
        when = np.broadcast_to(flow.updates[kept, None], cloud.shape)
        points = {"c": when.ravel(), "cmap": "viridis_r", "norm": scale, "linewidths": 0}
        points |= {"s": size, "alpha": 0.75, "zorder": 3, "rasterized": True}
        colors = plane.scatter(cloud.real.ravel(), cloud.imag.ravel(), **points)
        last, ring = flow.eigenvalues[-1], {"c": "none", "edgecolors": plotting.BLACK, "zorder": 4}
        plane.scatter(last.real, last.imag, s=3 * size, linewidths=0.8 if hidden <= 100 else 0.3, **ring)
        finite = np.abs(flow.eigenvalues[np.isfinite(flow.eigenvalues)])
        reach = 1.08 * max(1.0, float(finite.max()) if finite.size else 1.0)
        plane.axhline(0, color="#D0D0D0", linewidth=0.6, zorder=1)
        plane.axvline(0, color="#D0D0D0", linewidth=0.6, zorder=1)
        plane.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
        plane.set(xlabel=r"Re $\lambda$", ylabel=r"Im $\lambda$")
        plane.set_title(r"eigenvalues of $W_\mathrm{rec}$ (circles: at the end)")
        bar = figure.colorbar(colors, ax=plane, pad=0.02, shrink=0.85, aspect=28, format="{x:,.0f}")
        bar.set_alpha(1.0)
        bar.ax.set_title("updates", fontsize=8)
        radius.plot(flow.updates, flow.radii, color=plotting.BLUE)
        radius.axhline(1.0, color=plotting.BLACK, linewidth=1.0)
        radius.set(xlabel="updates", title=r"spectral radius $\rho(W_\mathrm{rec})$")
        radius.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        radius.locator_params(axis="x", nbins=5)
    return figure


def _edges(centres: NDArray[np.int64]) -> NDArray[np.float64]:
    """The borders between points of an axis, and half a step beyond its ends."""
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[centres[0] - (middle[0] - centres[0])], middle, [centres[-1] + (centres[-1] - middle[-1])]])


def heat_map(columns: Sequence[Sequence[float | None]]) -> np.ndarray:
    """The picture of relative norms, [lags, snapshots, 3] uint8, for those who have no axes to draw on.

    The last step is at the top. The scale is logarithmic from 10⁻⁶ (dark) to 10² (bright); lags that a snapshot did not have
    are black.

    >>> heat_map([[1.0, 0.1], [1.0, 0.0, 0.0]])[2, 0].tolist()
    [0, 0, 0]
    """
    lags = max(map(len, columns))
    heat = np.full((lags, len(columns)), np.nan)
    for index, column in enumerate(columns):
        logs = [math.nan if norm is None else math.log10(norm) if norm > 0 else -math.inf for norm in column]
        heat[: len(column), index] = logs
    share = np.clip((heat - DARKEST) / (BRIGHTEST - DARKEST), 0, 1)
    # dark violet over red to bright yellow: brightness grows all the way, as it must to be read without colour
    stops = np.array([[0.1, 0.0, 0.2], [0.5, 0.1, 0.45], [0.9, 0.3, 0.25], [1.0, 0.95, 0.6]])
    positions = np.linspace(0, 1, len(stops))
    there = ~np.isnan(heat)
    picture = np.stack([np.interp(np.where(there, share, 0), positions, stops[:, channel]) for channel in range(3)], -1)
    return (255 * np.where(there[..., None], picture, 0)).astype(np.uint8)

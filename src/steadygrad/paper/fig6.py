"""Fig. 6: the error surface of one unit, its wall, and gradient descent thrown off it.

    E(w, b) = (σ(x_50) − 0.7)²,   x_t = w σ(x_{t−1}) + b,   x_0 = 0.5           (Pascanu et al. 2013, eq. 8)

The wall is the line b = x_0 − w σ(x_0) for w σ'(x_0) > 1, where x_0 stands on the boundary between two basins. From
START, plain gradient descent walks down to the wall, touches it, and is thrown across the plane in one step; with the
gradient's norm clipped it stays at the wall's foot and follows it into the valley.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steadygrad import checks, plotting
from steadygrad.dynamics import ErrorSurface
from steadygrad.paper import FigureData

ERROR = r"error $\mathcal{E}_{50}$"
LINES = (("plain", plotting.VERMILLION, "-"), ("clipped", plotting.BLACK, (0, (3, 1.5))))
RELIEF_UPDATES = 20

START, LR, THRESHOLD = (5.0, -2.2), 0.5, 0.2
STEPS, TOLERANCE = 300, 1e-3
RATES = (0.1, 0.2, 0.5, 1.0, 2.0)
W_RANGE, B_RANGE = (3.7, 5.95), (-3.5, 0.2)
STARTS_W, STARTS_B = (3.5, 7.0), (-4.0, -1.0)


def data(grid: int = 90, starts: int = 15, rates: tuple[float, ...] = RATES) -> FigureData:
    """The surface on a grid, the two trajectories, and how often each kind of descent reaches the valley.

    `grid` points of the surface lie along w; the statistics are over starts × starts points of STARTS_W × STARTS_B.

    Returns:
        `w`, `b`, `loss` [rows, grid]: the surface, over a mesh that is fine at the wall; `wall_w`, `wall_b` [2]: the
        ends of the wall (the first where w σ'(x_0) = 1); `plain_…` and `clipped_…`: path [n, 2], losses [n],
        norms [n]; `clipped_steps` [n − 1]: which updates were clipped; `rates` [r] with `reached_plain`,
        `reached_clipped`, `reached_clipped_only`, `reached_plain_only` [r]: fractions of the starts; and as scalars
        the settings, the longest plain step (`throw_step`, `throw_length`, `throw_norm`) and how both runs end.

    >>> small = data(grid=12, starts=2, rates=(0.5,))
    >>> bool(small["plain_reached"]), bool(small["clipped_reached"])
    (False, True)
    """
    checks.whole("grid", grid, low=12)
    checks.whole("starts", starts)
    if not rates:
        raise ValueError("rates must hold at least one learning rate")
    surface = ErrorSurface()
    w, b = surface.mesh(W_RANGE, B_RANGE, grid)
    limits: dict[str, Any] = {"steps": STEPS, "tolerance": TOLERANCE}
    plain = surface.descend(START, LR, **limits)
    clipped = surface.descend(START, LR, THRESHOLD, **limits)
    jumps = np.linalg.norm(np.diff(plain.path, axis=0), axis=-1)
    throw = int(jumps.argmax())
    begins = np.stack(np.meshgrid(np.linspace(*STARTS_W, starts), np.linspace(*STARTS_B, starts)), -1).reshape(-1, 2)
    fractions = [surface.basin_statistics(begins, rate, THRESHOLD, **limits).fractions() for rate in rates]
    wall_w = np.array([1.0 / float(surface.sigma.slope(surface.x0)), W_RANGE[1]])
    found: dict[str, Any] = {"w": w, "b": b, "loss": surface.loss(w, b)}
    found |= {"wall_w": wall_w, "wall_b": surface.wall(wall_w)}
    for name, run in (("plain", plain), ("clipped", clipped)):
        along = {"path": run.path, "losses": run.losses, "norms": run.norms}
        along |= {"last_loss": run.losses[-1], "reached": run.reached}
        found |= {f"{name}_{key}": value for key, value in along.items()}
    found |= {"clipped_steps": clipped.clipped, "clipped_updates": int(clipped.clipped.sum())}
    found |= {"rates": np.asarray(rates, dtype=np.float64), "starts": len(begins)}
    found |= {f"reached_{key}": [f[key] for f in fractions] for key in fractions[0]}
    found |= {"start_w": START[0], "start_b": START[1], "lr": LR, "threshold": THRESHOLD, **limits}
    found |= {"throw_step": throw + 1, "throw_length": jumps[throw], "throw_norm": plain.norms[throw]}
    return {key: np.asarray(value) for key, value in found.items()}


def draw(data: FigureData) -> plotting.Figure:
    """The surface as a relief and as a map, the error along both trajectories, and the statistics of many starts."""
    with plotting.drawing(7.4, 6.6) as figure:
        grid = figure.add_gridspec(2, 2, height_ratios=(1.4, 1.0))
        _relief(figure.add_subplot(grid[0, 0], projection="3d", computed_zorder=False), data)
        _map(figure, figure.add_subplot(grid[0, 1]), data)
        _losses(figure.add_subplot(grid[1, 0]), data)
        _statistics(figure.add_subplot(grid[1, 1]), data)
    return figure


def _shades() -> tuple[Any, Any]:
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap, LogNorm

    # Only the lighter three quarters, so that black and vermillion lines stand out everywhere.
    return ListedColormap(colormaps["YlGnBu"](np.linspace(0.02, 0.72, 256))), LogNorm(1e-4, 0.45)


def _relief(axes: Any, data: FigureData) -> None:
    from matplotlib.colors import LightSource

    shades, scale = _shades()
    loss = data["loss"]
    looks = {"rcount": loss.shape[0], "ccount": loss.shape[1], "linewidth": 0, "antialiased": False, "zorder": 1}
    colors = shades(scale(np.maximum(loss, scale.vmin)))
    looks |= {"facecolors": colors, "lightsource": LightSource(azdeg=60, altdeg=62)}
    axes.plot_surface(data["w"], data["b"], loss, **looks).set_rasterized(True)
    axes.set_box_aspect((1.0, 1.0, 0.62), zoom=1.06)
    # Lifted by a hair, so that the lines lie on the surface and not in it.
    lift, until = 0.012, RELIEF_UPDATES + 1
    # both begin alike: thin dashes with wide gaps let the plain line through
    dashes = {"plain": ("-", 1.8), "clipped": ((0, (3, 4)), 0.9)}
    for name, color, _ in LINES:
        path, along = data[f"{name}_path"][:until], data[f"{name}_losses"][:until]
        axes.plot(*path.T, along + lift, color=color, zorder=5, linestyle=dashes[name][0], linewidth=dashes[name][1])
    path, along = data["plain_path"], data["plain_losses"] + lift
    for at, marker, color in ((0, "o", plotting.BLACK), (int(data["throw_step"]), "v", plotting.VERMILLION)):
        axes.scatter(*path[at], along[at], s=28, marker=marker, color=color, zorder=6)
    axes.set_title(f"(a) the surface, first {RELIEF_UPDATES} updates", loc="left")
    axes.set_xlabel("weight $w$", labelpad=8)
    axes.set_ylabel("bias $b$", labelpad=8)
    axes.text2D(-0.13, 0.46, ERROR, rotation=90, va="center", ha="center", transform=axes.transAxes)
    axes.tick_params(pad=0)
    axes.view_init(elev=36, azim=52)


def _map(figure: plotting.Figure, axes: plotting.Axes, data: FigureData) -> None:
    shades, scale = _shades()
    looks = {"norm": scale, "cmap": shades, "shading": "gouraud", "rasterized": True}
    mesh = axes.pcolormesh(data["w"], data["b"], data["loss"], **looks)
    figure.colorbar(mesh, ax=axes, label=ERROR, pad=0.02, extend="min")
    for name, color, line in LINES:
        axes.plot(*data[f"{name}_path"].T, color=color, linestyle=line, linewidth=1.1)
    _labels(axes, data)
    axes.set_title("(b) the same from above", loc="left")
    axes.set(xlabel="weight $w$", ylabel="bias $b$")


def _labels(axes: plotting.Axes, data: FigureData) -> None:
    path, throw = data["plain_path"], int(data["throw_step"])
    axes.plot(*path[0], marker="o", markersize=5, color=plotting.BLACK)
    axes.annotate("start", path[0], xytext=(6, 2), textcoords="offset points")
    plotting.arrow(axes, tuple(path[throw - 1]), tuple(path[throw]), plotting.VERMILLION, width=1.8, head=12)
    w, b = 0.5 * (path[throw - 1] + path[throw])
    axes.text(w - 0.08, b, "thrown off the wall", ha="right")
    words, at = "clipped: along its\nfoot into the valley", data["clipped_path"][len(data["clipped_path"]) // 4]
    line = {"arrowstyle": "-", "color": "white", "linewidth": 0.8, "shrinkB": 4}
    off = {"xytext": (-22, -54), "textcoords": "offset points"}
    axes.annotate(words, at, **off, color="white", arrowprops=line)
    (w0, w1), (b0, b1) = data["wall_w"], data["wall_b"]
    turned = {"rotation_mode": "anchor", "transform_rotates_text": True, "color": "white", "ha": "center", "va": "top"}
    w, b = w0 + 0.77 * (w1 - w0), b0 + 0.77 * (b1 - b0)
    axes.text(w, b - 0.06, "wall", rotation=np.degrees(np.arctan2(b1 - b0, w1 - w0)), **turned)


def _losses(axes: plotting.Axes, data: FigureData) -> None:
    axes.semilogy(data["plain_losses"], color=plotting.VERMILLION, linewidth=1.3, label="plain")
    dots = {"linestyle": "none", "marker": ".", "markersize": 2.6}
    axes.semilogy(data["clipped_losses"], color=plotting.BLACK, **dots, label="clipped")
    axes.axhline(float(data["tolerance"]), color=plotting.BLUE, linewidth=1.1, linestyle=":", label="valley reached")
    axes.set_title("(c) the error along both", loc="left")
    axes.set(xlabel="update", ylabel=ERROR)
    axes.legend(loc="lower right", markerscale=3)


def _statistics(axes: plotting.Axes, data: FigureData) -> None:
    rates = data["rates"]
    for name, color, line in LINES:
        reached = 100.0 * data[f"reached_{name}"]
        axes.plot(rates, reached, color=color, linestyle=line, marker="s" if name == "clipped" else "o", label=name)
    axes.set(xscale="log", ylim=(0, 105), xlabel="learning rate", ylabel="reach the valley (%)")
    axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
    axes.set_xticks([], minor=True)
    axes.set_title(f"(d) from {int(data['starts'])} starts, {int(data['steps'])} updates each", loc="left")
    axes.legend(loc="lower right")

"""Pictures of the results, with matplotlib if it is installed.

Every function draws one result on `ax`, or on a new figure of pyplot where that is None, and returns the Axes. Sizes that
span hundreds of powers of ten are drawn by their logarithms, so that nothing is lost to the range of floating point.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from steadygrad import plotting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .components import TemporalComponents
    from .fixedpoints import FixedPoint, FixedPoints
    from .gated_guarantees import GatedConditions
    from .growth import LinearGrowth
    from .guarantees import Conditions
    from .jacobians import JacobianNorms
    from .lyapunov import LyapunovSpectrum

_KINDS = {
    "attractor": ("o", plotting.BLUE),
    "saddle": ("^", plotting.ORANGE),
    "repeller": ("X", plotting.VERMILLION),
    "marginal": ("s", plotting.GREY),
}
_MOST_LINES = 6


def jacobian_norms(found: JacobianNorms, ax: Axes | None) -> Axes:
    """Largest and smallest singular value, their bound and the error, against the lag."""
    ax = plotting.axes(ax)
    lags = found.lags.tolist()
    ax.plot(lags, plotting.powers(found.log_bound), color=plotting.GREY, linestyle=":", label="upper bound")
    ax.plot(lags, plotting.powers(found.log_largest), color=plotting.BLUE, label="largest singular value")
    if found.log_error is not None:
        ax.plot(
            lags, plotting.powers(found.log_error), color=plotting.BLACK, linestyle="--", label="along the given error"
        )
    low, high = ax.get_ylim()
    smallest = [power for power in plotting.powers(found.log_smallest) if not math.isnan(power)]
    if len(smallest) > 1:
        # It may lie hundreds of powers below the others, which would then be one flat line.
        floor = low - max(high - low, 4.0)
        below = f" (down to $10^{{{min(smallest):.0f}}}$)" if min(smallest) < floor else ""
        ax.plot(
            lags, plotting.powers(found.log_smallest), color=plotting.ORANGE, label="smallest singular value" + below
        )
        ax.set_ylim(max(floor, min(low, min(smallest) - 0.05 * (high - low))), high)
    state = {"hc": "(h, c)"}.get(found.state, found.state)
    ax.set(
        xlabel="lag: steps back from the last",
        ylabel="factor on the error",
        title=f"Transport of errors, state {state}",
    )
    plotting.powers_of_ten(ax)
    plotting.whole_numbers(ax)
    plotting.legend_below(ax)
    return ax


def temporal_components(found: TemporalComponents, ax: Axes | None) -> Axes:
    """The norm of each step's contribution to the gradient, one line for each parameter."""
    ax = plotting.axes(ax)
    steps = range(1, found.t + 1)
    names = sorted(found.log_norms, key=lambda name: -found.log_norms[name].max().item())
    shown = [name for name in found.log_norms if name in names[:_MOST_LINES]]
    marker = "o" if found.t == 1 else None
    for name in shown:
        if found.log_norms[name].isfinite().any():
            ax.plot(steps, plotting.powers(found.log_norms[name]), label=name, marker=marker)
    ax.set(
        xlabel="step k", ylabel="norm of its component", title=f"Where the gradient of step {found.t}'s loss comes from"
    )
    plotting.powers_of_ten(ax)
    plotting.whole_numbers(ax)
    if ax.lines:
        few = len(shown) < len(names)
        ax.legend(frameon=False, title=f"largest {len(shown)} of {len(names)} parameters" if few else None)
    else:
        plotting.say(ax, "every component is zero")
    return ax


def lyapunov_spectrum(found: LyapunovSpectrum, ax: Axes | None) -> Axes:
    """The exponents by rank, with their range over the sequences."""
    ax = plotting.axes(ax)
    finite = found.per_sequence.isfinite().all(0)
    ranks = torch.arange(1, len(found.exponents) + 1)[finite]
    ax.axhline(0, color=plotting.GREY, linestyle=":", linewidth=1)
    ax.plot(
        ranks.tolist(), found.exponents[finite].tolist(), color=plotting.BLUE, marker="o", markersize=3, label="mean"
    )
    if len(found.per_sequence) > 1 and finite.any():
        least, most = found.per_sequence[:, finite].amin(0), found.per_sequence[:, finite].amax(0)
        label = f"range of {len(found.per_sequence)} sequences"
        ax.fill_between(
            ranks.tolist(), least.tolist(), most.tolist(), color=plotting.BLUE, alpha=0.2, linewidth=0, label=label
        )
        ax.legend(frameon=False)
    lost = int((~finite).sum())
    title = f"Lyapunov exponents over {found.steps} steps" + (f" ({lost} more: −∞)" if lost else "")
    ax.set(xlabel="rank", ylabel="log growth per step", title=title)
    plotting.whole_numbers(ax)
    return ax


def eigenvalues(found: FixedPoint, ax: Axes | None) -> Axes:
    """The eigenvalues of the Jacobian at a fixed point, and the unit circle."""
    ax = plotting.axes(ax)
    angle = torch.linspace(0, 2 * math.pi, 201, dtype=torch.float64)
    ax.plot(angle.cos().tolist(), angle.sin().tolist(), color=plotting.GREY, linewidth=1)
    outside = found.eigenvalues.abs() > 1
    for rows, colour in ((~outside, plotting.BLUE), (outside, plotting.VERMILLION)):
        values = found.eigenvalues[rows]
        ax.plot(values.real.tolist(), values.imag.tolist(), "o", color=colour, markersize=5)
    ax.set_aspect("equal")
    beyond = f"{int(outside.sum())} of {len(outside)} beyond the unit circle"
    ax.set(xlabel="real part", ylabel="imaginary part", title=f"Eigenvalues at the {_noun(found.kind)}: {beyond}")
    return ax


def fixed_points(found: FixedPoints, ax: Axes | None) -> Axes:
    """The fixed points in the plane of their two main directions."""
    ax = plotting.axes(ax)
    ax.set(title=f"{len(found)} fixed point{'' if len(found) == 1 else 's'}")
    if not found:
        plotting.say(ax, "none was found")
        return ax
    states = torch.stack([point.state for point in found])
    if states.shape[1] > 2:
        centred = states - states.mean(0)
        directions = torch.linalg.svd(centred, full_matrices=False).Vh[:2]
        places = torch.nn.functional.pad(centred @ directions.T, (0, 2 - len(directions)))
        labels = ("first main direction", "second main direction")
    else:
        places, labels = torch.nn.functional.pad(states, (0, 2 - states.shape[1])), ("state, entry 1", "state, entry 2")
    for kind, (marker, colour) in _KINDS.items():
        rows = [point.kind == kind for point in found]
        if any(rows):
            x, y = places[torch.tensor(rows)].T.tolist()
            ax.plot(x, y, marker, color=colour, markersize=7, label=f"{kind} ({sum(rows)})", clip_on=False)
    ax.set(xlabel=labels[0], ylabel=labels[1])
    if states.shape[1] == 1:
        ax.set(ylabel="", yticks=[])
    ax.margins(0.1)
    plotting.legend_below(ax)
    return ax


def linear_growth(found: LinearGrowth, ax: Axes | None, lags: int) -> Axes:
    """The predicted norm of the error against the lag."""
    ax = plotting.axes(ax)
    logs = torch.tensor([found.log_predict(lag) for lag in range(lags + 1)], dtype=torch.float64)
    ax.plot(range(lags + 1), plotting.powers(logs), color=plotting.BLUE)
    polynomial = f", times lag to the power {found.degree}" if found.degree else ""
    title = f"Linear units: a factor of {found.rate:.4g} per step{polynomial}"
    ax.set(xlabel="lag: steps back", ylabel="norm of the error", title=title)
    plotting.powers_of_ten(ax)
    plotting.whole_numbers(ax)
    if not logs.isfinite().any():
        plotting.say(ax, "the error is zero")
    return ax


def conditions(found: Conditions, ax: Axes | None) -> Axes:
    """ρ and σ_max beside the threshold."""
    ax = plotting.axes(ax)
    _bars(ax, ["ρ(W_rec)", "σ_max(W_rec)"], [found.rho, found.sigma_max], [plotting.ORANGE, plotting.BLUE])
    ax.axvline(
        found.threshold,
        color=plotting.BLACK,
        linestyle="--",
        linewidth=1,
        label=f"threshold 1/γ = {found.threshold:.4g}",
    )
    ax.set(xlabel="size", title=found.verdict.split(":")[0])
    ax.set_xlim(0, 1.15 * max(found.rho, found.sigma_max, found.threshold))
    plotting.legend_below(ax)
    return ax


def gated_conditions(found: GatedConditions, ax: Axes | None) -> Axes:
    """ρ and σ_max of each gate's recurrent weights."""
    ax = plotting.axes(ax)
    labels, values, colours = [], [], []
    for gate, size in found.gates.items():
        labels += [f"ρ, gate {gate}", f"σ_max, gate {gate}"]
        values += [size.rho, size.sigma_max]
        colours += [plotting.ORANGE, plotting.BLUE]
    _bars(ax, labels, values, colours)
    ax.set_xlim(0, 1.15 * max(*values, 1e-300))
    bound = f"{found.jacobian_bound:.4g}".replace("inf", "∞")
    ax.set(xlabel="size of the recurrent weights", title=f"{found.cell}: growth per step at most β = {bound}")
    return ax


def _bars(ax: Axes, labels: list[str], values: list[float], colours: list[str]) -> None:
    places = range(len(labels))
    ax.barh(places, values, color=colours, height=0.6)
    for place, value in zip(places, values, strict=True):
        ax.annotate(f" {value:.3g}", (value, place), va="center")
    ax.set_yticks(places, labels)
    ax.invert_yaxis()


def _noun(kind: str) -> str:
    return "marginal fixed point" if kind == "marginal" else kind

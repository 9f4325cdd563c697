"""Lyapunov exponents: the mean logarithmic growth per step of each direction, along a trajectory.

    J_k Q_{k-1} = Q_k R_k        Q [n, n] orthonormal, R upper triangular
    exponent_i  = (1/K) Σ_k log |(R_k)_ii|                natural logarithm, per step, largest first

The exponents are the limits of (1/l) log of the singular values of ∂x_t/∂x_{t-l}: a largest exponent above 0 is the
asymptotic form of exploding gradients, one below 0 that of vanishing ones. At a finite number of steps they are
estimates, unlike the exact values of `jacobian_norms`. Both states of a plain layer, x and h, have the same exponents. A
layer has n of them: n = H for RNN and GRU, 2H for the LSTM, whose state is h and c as one vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..checks import whole
from . import drawing
from .own_cell import OwnCellLayer
from .trajectory import Trajectory, run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ENTRIES = 2**21


@dataclass(frozen=True)
class LyapunovSpectrum:
    """What `lyapunov_spectrum` found, per step and in natural logarithms.

    Attributes:
        exponents: [n], the mean over the sequences of the batch, largest first; −inf for directions that are lost
            for good (dead relu units, a singular W_rec or Jacobian). n is H, for an LSTM 2H.
        per_sequence: [B, n]; how far the rows agree shows how far they have converged.
        steps: how many steps were counted, after the burn-in.
    """

    exponents: Tensor
    per_sequence: Tensor
    steps: int

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the exponents by rank, with the range over the sequences; returns the Axes (a new one if `ax` is None)."""
        return drawing.lyapunov_spectrum(self, ax)


@torch.no_grad()
def lyapunov_spectrum(
    rnn: nn.Module, inputs: Tensor, h0: Any = None, *, burn_in: int = 0, layer: int | None = None
) -> LyapunovSpectrum:
    """All Lyapunov exponents of one recurrent layer along the trajectory that the inputs drive it through.

    Args:
        rnn: an RNN, GRU or LSTM of torch or steadygrad, of any number of layers, in one direction; torch's RNNCell, GRUCell or
            LSTMCell; or a steadygrad.Recurrent around any cell.
        inputs: [T, B, D], unbatched [T, D], or tokens [T, B] or [T]; zeros for the network left to itself. For a cell of
            your own: [T, B, …].
        h0: [num_layers, B, H] or [num_layers, H], for a cell [B, H] or [H]; an LSTM takes a pair of them (h0, c0), a cell of
            your own its state; None: zeros.
        burn_in: steps at the start that turn the directions but are not counted; below T.
        layer: whose recurrence; None: the last. The layers below supply its input.

    Returns:
        A `LyapunovSpectrum`.

    Example:
        >>> rnn = nn.RNN(1, 2, dtype=torch.float64)
        >>> _ = rnn.weight_hh_l0.data.copy_(torch.tensor([[0.5, 1.0], [0.0, 0.25]]))
        >>> _ = rnn.bias_ih_l0.data.zero_(), rnn.bias_hh_l0.data.zero_()
        >>> found = lyapunov_spectrum(rnn, torch.zeros(300, 1, 1), burn_in=100)  # stays at 0, where σ' = 1
        >>> [round(math.exp(exponent), 6) for exponent in found.exponents.tolist()]
        [0.5, 0.25]

    Reference: Benettin et al. 1980, "Lyapunov characteristic exponents for smooth dynamical systems"; for recurrent
    networks, Vogt et al. 2022, "On Lyapunov exponents for RNNs".
    """
    trajectory = run(rnn, inputs, h0, layer)
    if whole("burn_in", burn_in, low=0) >= trajectory.steps:
        raise ValueError(f"burn_in must be below the number of steps {trajectory.steps}, not {burn_in}")
    ranks: list[Tensor] = []
    sums = _log_growth(_jacobians(trajectory, ranks), burn_in)
    # An upper bound on the rank of the product of all Jacobians, [B]; rounding would hide a loss of rank.
    rank = torch.stack(ranks).amin(0)
    place = torch.arange(sums.shape[-1])
    sums[place >= rank.unsqueeze(1)] = -math.inf
    per_sequence = (sums / (trajectory.steps - burn_in)).sort(-1, descending=True).values
    return LyapunovSpectrum(per_sequence.mean(0), per_sequence, trajectory.steps - burn_in)


@torch.no_grad()
def lyapunov_from_jacobians(
    jacobian: Callable[[Tensor], Tensor],
    x0: Tensor,
    step: Callable[[Tensor], Tensor],
    steps: int,
    *,
    burn_in: int = 0,
) -> Tensor:
    """All Lyapunov exponents of any map x ↦ step(x), given its Jacobian.

    Args:
        jacobian: x [..., n] → ∂step/∂x at x, [..., n, n].
        x0: the start [n], or many starts [..., n] that run side by side.
        step: x [..., n] → the next x [..., n].
        steps: how many steps are counted.
        burn_in: steps before them that are not counted.

    Returns:
        The exponents [..., n] of each start, largest first, per step and in natural logarithms.

    Example: the logistic map x ↦ 4x(1 − x), whose exponent is log 2.
        >>> x0 = torch.tensor([0.3], dtype=torch.float64)
        >>> found = lyapunov_from_jacobians(lambda x: (4 - 8 * x)[:, None], x0, lambda x: 4 * x * (1 - x), steps=3000)
        >>> abs(found.item() - math.log(2)) < 0.01
        True

    Reference: Benettin et al. 1980.
    """
    whole("steps", steps)
    whole("burn_in", burn_in, low=0)
    if not isinstance(x0, Tensor) or x0.dim() == 0 or not x0.isfinite().all():
        raise ValueError(f"x0 must be a finite vector [n] or vectors [..., n], not {x0!r}")
    x0 = x0.detach().double()
    n = x0.shape[-1]

    def jacobians() -> Iterable[Tensor]:
        x = x0
        for k in range(burn_in + steps):
            J = jacobian(x)
            if J.shape != (*x0.shape, n):
                raise ValueError(f"jacobian must return {[*x0.shape, n]}, not {list(J.shape)}")
            yield J.double()
            x = step(x)
            if x.shape != x0.shape or not x.isfinite().all():
                raise ValueError(f"step must return finite {list(x0.shape)}, but at step {k + 1} it returns {x!r}")

    return (_log_growth(jacobians(), burn_in) / steps).sort(-1, descending=True).values


def _jacobians(trajectory: Trajectory, ranks: list[Tensor]) -> Iterator[Tensor]:
    """J_1, J_2, …, each [B, n, n]; the rank of each is appended to `ranks`, [B]."""
    layer, steps, batch = trajectory.layer, trajectory.steps, trajectory.s.shape[1]
    # A call of torch.func costs far more than the work in it: many steps at once, as far as memory allows.
    together = max(1, _ENTRIES // (batch * layer.size**2)) if isinstance(layer, OwnCellLayer) else 1
    for first in range(0, steps, together):
        until = min(first + together, steps)
        s, drives = trajectory.s[first:until].flatten(0, 1), trajectory.drives[first:until].flatten(0, 1)
        J = layer.jacobian_at(s, drives)
        ranks.extend(layer.rank(s, drives, J).split(batch))
        yield from J.split(batch)


def _log_growth(jacobians: Iterable[Tensor], burn_in: int) -> Tensor:
    """Σ_k log |(R_k)_ii| over the steps after the burn-in, [..., n], for Jacobians [..., n, n]."""
    Q, sums = None, None
    for k, J in enumerate(jacobians):
        if Q is None:
            # In general position: from the axes, a triangular W_rec may never bring its fastest direction first.
            Q, _ = torch.linalg.qr(torch.randn(J.shape[-2:], generator=torch.Generator().manual_seed(0), dtype=J.dtype))
        Q, R = torch.linalg.qr(J @ Q)
        if k >= burn_in:
            growth = R.diagonal(dim1=-2, dim2=-1).abs().log()
            sums = growth if sums is None else sums + growth
    assert sums is not None
    return sums

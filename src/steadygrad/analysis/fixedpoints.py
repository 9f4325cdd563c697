"""Where a recurrent layer comes to rest under a constant input, and whether it stays there.

    F(s) = s                     fixed points; s is h, for an LSTM h and c as one vector (layer.py)
    ∂F/∂s                        its eigenvalues decide on stability
    G(s) = 0                     what is solved:
        plain layer              G(h) = σ(W_rec h + W_in u + b) − h             the same points for every leak < 1
        GRU                      G(h) = n − h, n the new state's candidate      F(h) − h = (1 − z)(n − h)
        others                   G(s) = F(s) − s

G = 0 is solved by damped Newton steps from many starts at once: (K^T K + μ I) Δ = −K^T G with K = ∂G/∂s, where μ falls
with ‖G‖² (Levenberg–Marquardt). Near a root this is Newton's method; where K is singular (a line of fixed points, dead
units) it still converges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..checks import number, whole
from ..eigen import eigenvalues as eigenvalues_of
from . import drawing
from .constant_input import constant_input
from .initial import own_state
from .layer import Layer
from .own_cell import OwnCellLayer
from .plain import PlainLayer
from .reading import finite, read_layer, understand

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Points nearer to each other than this (relative to 1 + ‖s‖) are one point reached from different starts.
_SAME_POINT = 1e-6
# An eigenvalue whose modulus is this close to 1 does not decide between stable and unstable.
_MARGINAL = 1e-7
_ITERATIONS = 200


@dataclass(frozen=True)
class FixedPoint:
    """One fixed point.

    Attributes:
        h: [H], what the layer puts out: the state after the nonlinearity.
        x: [H], the paper's state, before it: W_rec h + W_in u + b; None for other cells than the plain one.
        residual: ‖σ(x) − h‖; of a GRU ‖n − h‖, of others ‖F(s) − s‖.
        eigenvalues: [n] complex, of the Jacobian ∂F/∂s, by falling modulus.
        spectral_radius: the largest modulus.
        stable: whether it is below 1.
        kind: "attractor" (all moduli below 1), "repeller" (all above), "saddle" (some of each), or "marginal" (the
            largest or smallest is 1 to within rounding, as on a line of fixed points).
        state: [n], all of the state: h, for an LSTM h and c one after the other.
    """

    h: Tensor
    x: Tensor | None
    residual: float
    eigenvalues: Tensor
    spectral_radius: float
    stable: bool
    kind: str
    state: Tensor

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the eigenvalues and the unit circle; returns the Axes (a new one if `ax` is None)."""
        return drawing.eigenvalues(self, ax)


class FixedPoints(list[FixedPoint]):
    """A list of fixed points that can be drawn."""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the points in the plane of their two main directions; returns the Axes (a new one if `ax` is None)."""
        return drawing.fixed_points(self, ax)


@torch.no_grad()
def fixed_points(
    rnn: nn.Module,
    input: Tensor | int | None = None,
    *,
    starts: int = 200,
    h_samples: Tensor | None = None,
    tolerance: float = 1e-10,
    generator: torch.Generator | None = None,
    layer: int | None = None,
) -> FixedPoints:
    """The fixed points of one recurrent layer under a constant input, as many as the starts lead to.

    Finding all of them is not guaranteed; more starts, or states the network really visits, find more. Of a continuum
    (a line attractor) one point is reported for each start that ends on it.

    Args:
        rnn: an RNN, GRU or LSTM of torch or steadygrad, of any number of layers, in one direction; torch's RNNCell, GRUCell or
            LSTMCell; or a steadygrad.Recurrent around any cell.
        input: the constant input of that layer, [D] (of a layer above the first: [H], what the layer below sends), or
            a token; None: zeros. For a cell of your own: the input of one sequence at one step, without the batch.
        starts: how many random starts: half anywhere in σ's range, half carried 50 steps along the map first. The
            origin is always one more.
        h_samples: further starts [N, H], such as hidden states of a run; for an LSTM [N, 2H], h and c side by side; for a cell
            of your own [N, n], all parts of its state.
        tolerance: the largest residual (see `FixedPoint`) of a point that is reported.
        generator: of the random starts; None: one of its own with seed 0.
        layer: which layer; None: the last.

    Returns:
        A `FixedPoints`, a list of `FixedPoint`: stable ones first, then by spectral radius.

    Example:
        >>> rnn = nn.RNN(1, 1, dtype=torch.float64)
        >>> for weight, value in zip(rnn.parameters(), (1.0, 2.0, 0.0, 0.0)):
        ...     _ = nn.init.constant_(weight, value)
        >>> [(point.kind, round(abs(point.h.item()), 4)) for point in fixed_points(rnn)]  # h = tanh(2h)
        [('attractor', 0.9575), ('attractor', 0.9575), ('repeller', 0.0)]

    Reference: Pascanu et al. 2013, section 2.2; the method: Sussillo & Barak 2013, "Opening the black box".
    """
    source = understand(rnn)
    chosen = source.pick(layer)
    if source.kind == "own":
        current: Layer = OwnCellLayer(source.module, own_state(source.module, None, 1))
    else:
        current = read_layer(source, chosen)
    drive = current.drive(constant_input(source, current, input))
    number("tolerance", tolerance, low=0.0, open_low=True)
    s = _starts(current, drive, whole("starts", starts, low=0), h_samples, generator)
    if isinstance(current, OwnCellLayer):
        current.check(s[:2], _many(drive, s[:2]))
    s, residual = _solve(current, drive, s, tolerance)
    points = FixedPoints()
    for i in residual.argsort().tolist():
        if not residual[i] <= tolerance:
            break
        near = _SAME_POINT * (1 + s[i].norm())
        if all((s[i] - point.state).norm() > near for point in points):
            points.append(_describe(current, drive, s[i : i + 1], residual[i].item()))
    points.sort(key=lambda point: (not point.stable, point.spectral_radius))
    return points


def _many(drive: Tensor, rows: Tensor) -> Tensor:
    """The one drive [1, …] for each of the rows."""
    return drive.expand(len(rows), *drive.shape[1:])


def _starts(
    layer: Layer, drive: Tensor, count: int, h_samples: Tensor | None, generator: torch.Generator | None
) -> Tensor:
    """[N, n]."""
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    draw = torch.rand(count, layer.size, generator=generator, dtype=torch.float64)
    draw = layer.spread(draw, drive)
    # In many dimensions nearly all of a cube lies far from its centre: shrink each start by a random factor.
    draw = draw * torch.rand(count, 1, generator=generator, dtype=torch.float64)
    carried = draw[: count // 2]
    for _ in range(50):
        carried = layer.next(carried, _many(drive, carried))
    found = [torch.zeros(1, layer.size, dtype=torch.float64), carried, draw[count // 2 :]]
    if h_samples is not None:
        if not isinstance(h_samples, Tensor) or h_samples.dim() != 2 or h_samples.shape[1] != layer.size:
            came = list(h_samples.shape) if isinstance(h_samples, Tensor) else type(h_samples).__name__
            length = layer.state_is
            raise ValueError(f"h_samples must be [N, {length}] with {length} = {layer.size}, not {came}")
        found.append(finite("h_samples", h_samples))
    together = torch.cat(found)
    return together[together.isfinite().all(1)]


def _solve(layer: Layer, drive: Tensor, s: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """The ends [N, n] of damped Newton's method from the starts [N, n], and their residuals [N]."""
    G = layer.gap(s, _many(drive, s))
    residual = G.norm(dim=1)
    damping = torch.ones_like(residual)
    searching = torch.ones_like(residual, dtype=torch.bool)
    eye = torch.eye(s.shape[1], dtype=s.dtype)
    for _ in range(_ITERATIONS):
        rows = searching.nonzero().squeeze(1)
        if not len(rows):
            break
        K = layer.gap_jacobian(s[rows], _many(drive, rows))
        mu = (damping[rows] * residual[rows].square()).clamp(min=1e-30)
        normal = K.mT @ K + mu.view(-1, 1, 1) * eye
        factor, failed = torch.linalg.cholesky_ex(normal)
        step = torch.cholesky_solve(-(K.mT @ G[rows].unsqueeze(2)), factor).squeeze(2)
        trial = s[rows] + step
        trial_G = layer.gap(trial, _many(drive, rows))
        trial_residual = trial_G.norm(dim=1)
        better = (trial_residual < residual[rows]) & (failed == 0)
        damping[rows] = torch.where(better, damping[rows] / 4, damping[rows] * 8)
        moved = rows[better]
        s[moved], G[moved], residual[moved] = trial[better], trial_G[better], trial_residual[better]
        # Within tolerance a start goes on while it still improves: quadratic convergence then reaches rounding.
        searching[rows] = torch.where(residual[rows] <= tolerance, better, damping[rows] < 1e30)
    return s, residual


def _describe(layer: Layer, drive: Tensor, s: Tensor, residual: float) -> FixedPoint:
    """Of the point s [1, n]."""
    x = layer.before(s, drive)[0] if isinstance(layer, PlainLayer) else None
    eigenvalues = eigenvalues_of(layer.jacobian_at(s, drive)[0])
    eigenvalues = eigenvalues[eigenvalues.abs().argsort(descending=True)]
    largest, smallest = eigenvalues[0].abs().item(), eigenvalues[-1].abs().item()
    if min(abs(largest - 1), abs(smallest - 1)) <= _MARGINAL:
        kind = "marginal"
    elif largest < 1:
        kind = "attractor"
    else:
        kind = "repeller" if smallest > 1 else "saddle"
    return FixedPoint(s[0, : layer.hidden], x, residual, eigenvalues, largest, kind == "attractor", kind, s[0])

"""Where a recurrent layer comes to rest under a constant input, and whether it stays there.

    F(h) = leak·h + (1 − leak)·σ(W_rec h + W_in u + b)            fixed points: F(h) = h
    G(h) = σ(W_rec h + W_in u + b) − h = 0                        the same points for every leak < 1
    ∂F/∂h = leak·I + (1 − leak) diag(σ') W_rec                    its eigenvalues decide on stability

G = 0 is solved by damped Newton steps from many starts at once: (K^T K + μ I) Δ = −K^T G with K = ∂G/∂h, where μ falls
with ‖G‖² (Levenberg–Marquardt). Near a root this is Newton's method; where K is singular (a line of fixed points, dead
units) it still converges.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..checks import number, whole
from ..eigen import eigenvalues as eigenvalues_of
from .sigma import sigma, slope
from .trajectory import Layer, finite, pick_layer, read_layer

# Points nearer to each other than this (relative to 1 + ‖h‖) are one point reached from different starts.
_SAME_POINT = 1e-6
# An eigenvalue whose modulus is this close to 1 does not decide between stable and unstable.
_MARGINAL = 1e-7
_ITERATIONS = 200


@dataclass(frozen=True)
class FixedPoint:
    """One fixed point.

    Attributes:
        h: [H], the state after the nonlinearity.
        x: [H], the paper's state, before it: W_rec h + W_in u + b.
        residual: ‖σ(x) − h‖.
        eigenvalues: [H] complex, of the Jacobian ∂F/∂h, by falling modulus.
        spectral_radius: the largest modulus.
        stable: whether it is below 1.
        kind: "attractor" (all moduli below 1), "repeller" (all above), "saddle" (some of each), or "marginal" (the
            largest or smallest is 1 to within rounding, as on a line of fixed points).
    """

    h: Tensor
    x: Tensor
    residual: float
    eigenvalues: Tensor
    spectral_radius: float
    stable: bool
    kind: str


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
) -> list[FixedPoint]:
    """The fixed points of one recurrent layer under a constant input, as many as the starts lead to.

    Finding all of them is not guaranteed; more starts, or states the network really visits, find more. Of a continuum
    (a line attractor) one point is reported for each start that ends on it.

    Args:
        rnn: a torch.nn.RNN or steadygrad.RNN of any number of layers, in one direction.
        input: the constant input of that layer, [D] (of a layer above the first: [H], what the layer below sends), or
            a token; None: zeros.
        starts: how many random starts: half anywhere in σ's range, half carried 50 steps along the map first. The
            origin is always one more.
        h_samples: further starts [N, H], such as hidden states of a run.
        tolerance: the largest residual ‖σ(x) − h‖ of a point that is reported.
        generator: of the random starts; None: one of its own with seed 0.
        layer: which layer; None: the last.

    Returns:
        A list of `FixedPoint`, stable ones first, then by spectral radius.

    Example:
        >>> rnn = nn.RNN(1, 1, dtype=torch.float64)
        >>> for weight, value in zip(rnn.parameters(), (1.0, 2.0, 0.0, 0.0)):
        ...     _ = nn.init.constant_(weight, value)
        >>> [(point.kind, round(abs(point.h.item()), 4)) for point in fixed_points(rnn)]  # h = tanh(2h)
        [('attractor', 0.9575), ('attractor', 0.9575), ('repeller', 0.0)]

    Reference: Pascanu et al. 2013, section 2.2; the method: Sussillo & Barak 2013, "Opening the black box".
    """
    current = read_layer(rnn, pick_layer(rnn, layer))
    drive = _drive(current, input)
    number("tolerance", tolerance, low=0.0, open_low=True)
    h = _starts(current, drive, whole("starts", starts, low=0), h_samples, generator)
    h, residual = _solve(current, drive, h, tolerance)
    points: list[FixedPoint] = []
    for i in residual.argsort().tolist():
        if not residual[i] <= tolerance:
            break
        near = _SAME_POINT * (1 + h[i].norm())
        if all((h[i] - point.h).norm() > near for point in points):
            points.append(_describe(current, drive, h[i], residual[i].item()))
    return sorted(points, key=lambda point: (not point.stable, point.spectral_radius))


def _drive(layer: Layer, input: Tensor | int | None) -> Tensor:
    """W_in u + b [H]."""
    size = layer.weight_ih.shape[1]
    if input is None:
        return layer.bias
    if isinstance(input, Tensor) and input.is_floating_point():
        if list(input.shape) != [size] or not input.isfinite().all():
            raise ValueError(f"input must be a finite vector [{size}], not {input!r}")
        return layer.weight_ih @ input.detach().to("cpu", torch.float64) + layer.bias
    if isinstance(input, Tensor) and input.numel() == 1 and not input.is_complex() and input.dtype != torch.bool:
        input = int(input)
    if isinstance(input, (Tensor, bool)) or not isinstance(input, int) or not 0 <= input < size:
        raise ValueError(f"input must be a vector of floats [{size}] or a token from 0 to {size - 1}, not {input!r}")
    return layer.weight_ih[:, input] + layer.bias


def _starts(
    layer: Layer, drive: Tensor, count: int, h_samples: Tensor | None, generator: torch.Generator | None
) -> Tensor:
    """[N, H]."""
    hidden = len(drive)
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    draw = torch.rand(count, hidden, generator=generator, dtype=torch.float64)
    if layer.nonlinearity in ("tanh", "identity"):
        draw = 2 * draw - 1
    if layer.nonlinearity in ("relu", "identity"):
        # No range is given: the drive sets the scale.
        draw = 2 * draw * (1 + drive.abs().max())
    # In many dimensions nearly all of a cube lies far from its centre: shrink each start by a random factor.
    draw = draw * torch.rand(count, 1, generator=generator, dtype=torch.float64)
    carried = draw[: count // 2]
    for _ in range(50):
        carried = layer.step(carried, drive)[1]
    found = [torch.zeros(1, hidden, dtype=torch.float64), carried, draw[count // 2 :]]
    if h_samples is not None:
        if not isinstance(h_samples, Tensor) or h_samples.dim() != 2 or h_samples.shape[1] != hidden:
            came = list(h_samples.shape) if isinstance(h_samples, Tensor) else type(h_samples).__name__
            raise ValueError(f"h_samples must be [N, H] with H = {hidden}, not {came}")
        found.append(finite("h_samples", h_samples))
    together = torch.cat(found)
    return together[together.isfinite().all(1)]


def _solve(layer: Layer, drive: Tensor, h: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """The ends [N, H] of damped Newton's method from the starts [N, H], and their residuals [N]."""
    G = _gap(layer, drive, h)
    residual = G.norm(dim=1)
    damping = torch.ones_like(residual)
    searching = torch.ones_like(residual, dtype=torch.bool)
    eye = torch.eye(h.shape[1], dtype=h.dtype)
    for _ in range(_ITERATIONS):
        rows = searching.nonzero().squeeze(1)
        if not len(rows):
            break
        a = h[rows] @ layer.weight_hh.T + drive
        K = slope(a, layer.nonlinearity).unsqueeze(2) * layer.weight_hh - eye
        mu = (damping[rows] * residual[rows].square()).clamp(min=1e-30)
        normal = K.mT @ K + mu.view(-1, 1, 1) * eye
        factor, failed = torch.linalg.cholesky_ex(normal)
        step = torch.cholesky_solve(-(K.mT @ G[rows].unsqueeze(2)), factor).squeeze(2)
        trial = h[rows] + step
        trial_G = _gap(layer, drive, trial)
        trial_residual = trial_G.norm(dim=1)
        better = (trial_residual < residual[rows]) & (failed == 0)
        damping[rows] = torch.where(better, damping[rows] / 4, damping[rows] * 8)
        moved = rows[better]
        h[moved], G[moved], residual[moved] = trial[better], trial_G[better], trial_residual[better]
        # Within tolerance a start goes on while it still improves: quadratic convergence then reaches rounding.
        searching[rows] = torch.where(residual[rows] <= tolerance, better, damping[rows] < 1e30)
    return h, residual


def _gap(layer: Layer, drive: Tensor, h: Tensor) -> Tensor:
    return sigma(h @ layer.weight_hh.T + drive, layer.nonlinearity) - h


def _describe(layer: Layer, drive: Tensor, h: Tensor, residual: float) -> FixedPoint:
    x = layer.weight_hh @ h + drive
    eigenvalues = eigenvalues_of(layer.jacobian(slope(x, layer.nonlinearity)))
    eigenvalues = eigenvalues[eigenvalues.abs().argsort(descending=True)]
    largest, smallest = eigenvalues[0].abs().item(), eigenvalues[-1].abs().item()
    if min(abs(largest - 1), abs(smallest - 1)) <= _MARGINAL:
        kind = "marginal"
    elif largest < 1:
        kind = "attractor"
    else:
        kind = "repeller" if smallest > 1 else "saddle"
    return FixedPoint(h, x, residual, eigenvalues, largest, kind == "attractor", kind)

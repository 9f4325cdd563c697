"""A snapshot of a layer's gradients in training: Ω, the horizon, the error's norm against lag, and W_rec's spectrum.

relative_l = ‖error of step T − l‖ / ‖error of step T‖,   l = 0, stride, 2·stride, …     at most 200 values
             of an error that arises at the last step alone
ρ = max |λ_i(W_rec)|
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .eigen import eigenvalues
from .flow import CellFlow
from .storage import finite

LAGS = 200
DIGITS = 4


@dataclass(frozen=True)
class Snapshot:
    """One look at the gradients, on sequences of `steps` steps; norms are `stride` lags apart.

    `norms` are relative to the last step, None where not finite; `omega`, `active` and `horizon` as in
    `steadygrad.GradientFlow`; `eigenvalues` (pairs of real and imaginary part) are of W_rec, none for gated layers.
    """

    steps: int
    stride: int
    norms: list[float | None]
    omega: float
    active: float
    horizon: int
    spectral_radius: float
    eigenvalues: list[tuple[float, float]]


def snapshot(rnn: Any, errors: Callable[[], Any], of_last: Callable[[], Any] | None = None) -> Snapshot:
    """What `errors`, a backward pass through `rnn`, shows of its gradients.

    Where errors arise at many steps, norms are those of `of_last`, a pass with an error at the last step alone: they show
    what becomes of one error on its way back, which new errors at every step would cover.
    """
    flow = measured(rnn, errors)
    steps = flow.measured.shape[1]
    stride = math.ceil(steps / LAGS)
    norms = (flow if of_last is None else measured(rnn, of_last)).norms.flip(0)
    relative = [float(f"{each:.{DIGITS}g}") for each in (norms / norms[0])[::stride].tolist()]
    W, λ = rnn.weight_hh_l0.detach(), list[complex]()
    if W.shape[0] == W.shape[1]:  # a gated layer's gates are stacked: they have no one spectrum
        λ = eigenvalues(W).tolist() if torch.isfinite(W).all() else [complex(math.nan, math.nan)]
    radius = max(map(abs, λ), default=math.nan)
    pairs = [(round(each.real, DIGITS), round(each.imag, DIGITS)) for each in λ]
    return Snapshot(steps, stride, finite(relative), flow.omega, flow.active, flow.horizon, radius, pairs)


def measured(rnn: Any, errors: Callable[[], Any]) -> CellFlow:
    """The flow of a backward pass that is made for this alone."""
    rnn.record = True
    try:
        errors()
    finally:
        rnn.record = False
    return rnn.flow[0]

"""What the gradients do at one moment of training: Ω, the horizon, the error's norm against lag, and W_rec's spectrum.

    relative_l = ‖error of step T − l‖ / ‖error of step T‖,   l = 0, stride, 2·stride, …     at most 200 values
                 of an error that arises at the last step alone
    ρ = max |λ_i(W_rec)|

Measured on one batch of its own at the longest length of now, so that snapshots can be compared and training is
not touched: no gradient is kept, and the sequences come from a stream of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..eigen import eigenvalues
from ..flow import CellFlow
from .network import Network

LAGS = 200
DIGITS = 4


@dataclass(frozen=True)
class Snapshot:
    """One look at the gradients.

    Attributes:
        steps: the length T of the sequences it was measured on.
        stride: the distance between two lags.
        norms: the error's norm against lag, relative to the last step; None where it is not finite.
        omega, active, horizon: as in `steadygrad.GradientFlow`.
        spectral_radius: ρ(W_rec); NaN for gated layers.
        eigenvalues: of W_rec, pairs of real and imaginary part; none for gated layers.
    """

    steps: int
    stride: int
    norms: list[float | None]
    omega: float
    active: float
    horizon: int
    spectral_radius: float
    eigenvalues: list[tuple[float, float]]


def look(network: Network, length: int, generator: torch.Generator) -> Snapshot:
    """Measure the gradients of a network on one batch of sequences of `length`."""
    batch = network.problem.sample(network.config.batch, length, generator)
    parameters = [parameter for _, parameter in network.trained()]

    def errors() -> None:
        torch.autograd.grad(network.problem.loss(network.answers(batch), batch), parameters)

    def of_last() -> None:
        y = network.answers(batch)
        (error,) = torch.autograd.grad(network.problem.loss(y, batch), y, retain_graph=True)
        error[:-1] = 0
        torch.autograd.grad(y, parameters, error)

    counted = batch.steps.stop - batch.steps.start
    return snapshot(network.rnn, errors, None if counted == 1 else of_last)


def snapshot(rnn: Any, errors: Callable[[], Any], of_last: Callable[[], Any] | None = None) -> Snapshot:
    """What `errors`, a backward pass through `rnn`, shows of its gradients.

    Where errors arise at many steps, norms are those of `of_last`, a pass with an error at the last step alone: they show
    what becomes of one error on its way back, which new errors at every step would cover.
    """
    flow = measured(rnn, errors)
    steps = flow.measured.shape[1]
    stride = math.ceil(steps / LAGS)
    norms = (flow if of_last is None else measured(rnn, of_last)).norms.flip(0)
    relative = (norms / norms[0])[::stride].tolist()
    W = rnn.weight_hh_l0.detach()
    λ = (
        _eigenvalues(W) if W.shape[0] == W.shape[1] else []
    )  # a gated layer's gates are stacked: they have no one spectrum
    return Snapshot(
        steps,
        stride,
        [_rounded(each) for each in relative],
        flow.omega,
        flow.active,
        flow.horizon,
        max(map(abs, λ)) if λ else math.nan,
        [(round(each.real, DIGITS), round(each.imag, DIGITS)) for each in λ],
    )


def measured(rnn: Any, errors: Callable[[], Any]) -> CellFlow:
    """The flow of a backward pass that is made for this alone."""
    rnn.record = True
    try:
        errors()
    finally:
        rnn.record = False
    return rnn.flow[0]


def _eigenvalues(W: torch.Tensor) -> list[complex]:
    if not torch.isfinite(W).all():
        return [complex(math.nan, math.nan)]
    return eigenvalues(W).tolist()


def _rounded(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None

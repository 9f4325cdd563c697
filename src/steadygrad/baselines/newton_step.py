"""One step of Hessian-free optimisation: from two batches to an update (equations: hessian_free.py).

The order: gradient, curvature, conjugate gradients, back-tracking, reduction ratio, line search. Losses of candidates are
measured with the parameters moved there; `make` returns with them where they were.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import forward_pass, output_losses
from .conjugate_gradients import Solution, conjugate_gradients
from .curvature import GaussNewton, batch_axis, flat, split

SMALLEST_DAMPING = 1e-10
"""λ does not fall below: the damped curvature stays safely positive definite."""

SHRINK, SUFFICIENT, TRIALS = 0.8, 0.01, 60
"""Of the line search: η's factor, the part of the slope's promise a step must keep, and how many η are tried."""


class Found(NamedTuple):
    """What a step found: `rate · x` is the update."""

    x: Tensor
    rate: float
    solution: Solution
    chosen: int
    ratio: float
    loss_before: float
    loss_after: float


class LossNear:
    """E(θ + x) on the gradient batch, +∞ where it is not finite. It moves the parameters; `restore` puts them back."""

    def __init__(self, forward: forward_pass.Forward, loss: Any, parameters: Sequence[Tensor]) -> None:
        self._forward, self._loss, self._parameters = forward, loss, parameters
        self._theta = flat(parameters)

    def __call__(self, x: Tensor) -> float:
        move(self._parameters, self._theta + x)
        done = forward_pass.run(self._forward, "gradient", self._loss, needs_hidden=False, needs_graph=False)
        loss = float(done.loss)
        return loss if math.isfinite(loss) else math.inf

    def restore(self) -> None:
        """Put the parameters back, to the bit."""
        move(self._parameters, self._theta)


def make(
    forward: forward_pass.Forward,
    loss: str | output_losses.OutputLoss,
    parameters: Sequence[Tensor],
    settings: dict[str, Any],
    previous: Tensor,
    *,
    check: bool,
) -> Found:
    """Find the update.

    Args:
        forward, loss, settings: as `HessianFree` was given them.
        parameters: θ, moved and put back.
        previous: the last solution, [n].
        check: whether to verify that `forward` returns the same each time and has true derivatives (two more passes).
    """
    near = LossNear(forward, loss, parameters)
    try:
        return _find(forward, loss, parameters, settings, previous, near, check)
    finally:
        near.restore()


def _find(
    forward: forward_pass.Forward,
    loss: str | output_losses.OutputLoss,
    parameters: Sequence[Tensor],
    settings: dict[str, Any],
    previous: Tensor,
    near: LossNear,
    check: bool,
) -> Found:
    loss_before, g = gradient(forward, loss, parameters)
    if check:
        _check_repeats(near(torch.zeros_like(g)), loss_before)
        near.restore()
    damping, structural = settings["damping"], settings["structural"]
    done = forward_pass.run(forward, "curvature", loss, needs_hidden=structural > 0, needs_graph=True)
    _finite(done.loss, "curvature")
    curvature = GaussNewton(
        parameters,
        done.outputs,
        output_losses.hessian_product(loss, done.outputs, done.targets),
        done.hidden,
        batch_first=settings["batch_first"],
        distance=settings["hidden_distance"],
    )
    if check:
        _check_derivatives(curvature)
    solution = conjugate_gradients(
        lambda v: curvature.product(v, damping * structural) + damping * v,
        -g,
        settings["decay"] * previous,
        _preconditioner(curvature, done, settings),
        max_iterations=settings["cg_iterations"],
        tolerance=settings["cg_tolerance"],
    )
    chosen, x, loss_there = back_track(near, solution)
    near.restore()
    slope = float(g @ x)
    model = slope + 0.5 * float(x @ curvature.product(x))
    rate, loss_after = line_search(near, x, loss_there, loss_before, slope)
    return Found(x, rate, solution, chosen, _ratio(loss_there - loss_before, model), loss_before, loss_after)


def gradient(forward: forward_pass.Forward, loss: Any, parameters: Sequence[Tensor]) -> tuple[float, Tensor]:
    """E and its gradient [n] on the gradient batch."""
    done = forward_pass.run(forward, "gradient", loss, needs_hidden=False, needs_graph=True)
    value = _finite(done.loss, "gradient")
    g = flat(torch.autograd.grad(done.loss, list(parameters), materialize_grads=True))
    if not bool(g.isfinite().all()):
        raise FloatingPointError(
            "the gradient must be finite before a step, and it is not: the parameters are left alone"
        )
    return value, g


def back_track(near: LossNear, solution: Solution) -> tuple[int, Tensor, float]:
    """From the last kept iterate to earlier ones, as long as the loss falls: iteration, x, E(θ + x)."""
    (chosen, x), *earlier = reversed(solution.iterates)
    loss = near(x)
    for iteration, candidate in earlier:
        lower = near(candidate)
        if lower > loss or (lower == loss and math.isfinite(loss)):
            break
        chosen, x, loss = iteration, candidate, lower
    return chosen, x, loss


def line_search(near: LossNear, x: Tensor, loss: float, loss_before: float, slope: float) -> tuple[float, float]:
    """η and E(θ + η x), given E(θ + x), E(θ) and gᵀx; 0 and E(θ) where no η lowers the loss enough."""
    if not slope < 0:
        return 0.0, loss_before
    rate = 1.0
    for _ in range(TRIALS):
        if loss <= loss_before + SUFFICIENT * rate * slope:
            return rate, loss
        rate *= SHRINK
        loss = near(rate * x)
    return 0.0, loss_before


def next_damping(damping: float, ratio: float) -> float:
    """Levenberg and Marquardt's rule for λ; NaN leaves it."""
    if ratio < 0.25:
        return damping * 3 / 2
    return max(damping * 2 / 3, SMALLEST_DAMPING) if ratio > 0.75 else damping


def move(parameters: Sequence[Tensor], theta: Tensor) -> None:
    """θ ← `theta`."""
    for parameter, part in zip(parameters, split(theta, parameters), strict=True):
        # .data: the curvature's graph stays usable, and it is used only where the parameters are back in their place
        parameter.data.copy_(part)


def _finite(loss: Tensor, kind: str) -> float:
    value = float(loss.detach())
    if not math.isfinite(value):
        raise FloatingPointError(
            f"the loss of the {kind} batch must be finite before a step, not {value}: the parameters are left alone"
        )
    return value


def _ratio(change: float, model: float) -> float:
    if change == 0 and model == 0:
        return math.nan
    return change / model if model < 0 and math.isfinite(change) else -math.inf


def _preconditioner(curvature: GaussNewton, done: forward_pass.Pass, settings: dict[str, Any]) -> Tensor | None:
    """(diag(mean of squared gradients of examples) + λ)^¾."""
    if settings["pieces"] == 0:
        return None
    (error,) = torch.autograd.grad(done.loss, done.outputs, retain_graph=True)
    axis = batch_axis(error, settings["batch_first"])
    number = error.shape[axis]
    draw = torch.Generator().manual_seed(settings["seed"] * 1_000_003 + settings["steps"])
    signs = (2 * torch.randint(2, (number,), generator=draw) - 1).to(error.device)
    squares = curvature.mean_square_gradient(error, signs, axis, min(settings["pieces"], number))
    return (squares + settings["damping"]) ** 0.75


def _check_repeats(again: float, before: float) -> None:
    # 1e-4: sums on several threads may differ in the last bits; another batch or another dropout mask differs by more
    if not abs(again - before) <= 1e-4 * max(abs(again), abs(before), 1e-8):
        raise ValueError(
            f"forward must return the same each time it is called in a step, and its loss was {before:.6g}, then "
            f"{again:.6g}: draw batches before step(), and use no dropout"
        )


def _check_derivatives(curvature: GaussNewton) -> None:
    mismatch = curvature.mismatch()
    # rounding stays far below 1 %, what is no derivative is far above; NaN (the errors overflow on their way) says nothing
    if mismatch > 0.01:
        raise ValueError(
            "forward must have true derivatives, and its backward pass is not the transpose of its forward-mode derivative "
            f"(they differ by {100 * mismatch:.2g} %): set alpha=0 and clip_error=None, and use no hooks that change gradients"
        )

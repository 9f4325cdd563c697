"""Losses of a network's outputs, and the products of their Hessians in the outputs.

    z: outputs   d: targets   N: the number of predictions (entries of z, or of z without its last axis for cross-entropy)

    squared-error          E = 1/N Σ (z − d)²                              L u = 2 u / N
    sigmoid-cross-entropy  E = 1/N Σ log(1 + e^z) − d z,   p = sigmoid(z)   L u = p (1 − p) u / N
    cross-entropy          E = −1/N Σ Σ_c d_c log softmax(z)_c,  p = softmax(z)   L u = p ⊙ (u − Σ_c p_c u_c) / N
    a function E(z, d)     as it is                                         L u = ∂/∂z (∂E/∂z · u), by autograd

The first three are positive semi-definite everywhere, and so is their Gauss-Newton matrix JᵀL J. A function must be convex in
the outputs for that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from steadygrad import checks

OutputLoss = Callable[[Tensor, Any], Tensor]
Product = Callable[[Tensor], Tensor]

NAMES = ("cross-entropy", "squared-error", "sigmoid-cross-entropy")


def checked(loss: str | OutputLoss) -> str | OutputLoss:
    """`loss`, if it is a name or a function."""
    return loss if callable(loss) else checks.one_of("loss", loss, NAMES)


def value(loss: str | OutputLoss, outputs: Tensor, targets: Any) -> Tensor:
    """E, a scalar."""
    if callable(loss):
        result = loss(outputs, targets)
        if not isinstance(result, Tensor) or result.numel() != 1:
            shape = f"a tensor of shape {tuple(result.shape)}" if isinstance(result, Tensor) else repr(result)
            raise ValueError(f"loss must return one number for (outputs, targets), a tensor, not {shape}")
        return result.reshape(())
    if not isinstance(targets, Tensor):
        raise checks.WrongTypeError(f"targets must be a tensor for loss={loss!r}, not a {type(targets).__name__}")
    if loss == "cross-entropy":
        return _cross_entropy(outputs, targets)
    if targets.shape != outputs.shape:
        raise ValueError(
            f"targets must have the outputs' shape {tuple(outputs.shape)} for loss={loss!r}, not {tuple(targets.shape)}"
        )
    if loss == "squared-error":
        return F.mse_loss(outputs, targets.to(outputs.dtype))
    return F.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype))


def hessian_product(loss: str | OutputLoss, outputs: Tensor, targets: Any) -> Product:
    """u ↦ L u, both of the outputs' shape, at these outputs."""
    z = outputs.detach()
    if callable(loss):
        return _by_autograd(loss, z, targets)
    if loss == "squared-error":
        return lambda u: u * (2 / z.numel())
    if loss == "sigmoid-cross-entropy":
        p = torch.sigmoid(z)
        return lambda u: p * (1 - p) * u / z.numel()
    p = torch.softmax(z, -1)
    number = z.numel() // z.shape[-1]
    return lambda u: p * (u - (p * u).sum(-1, keepdim=True)) / number


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    classes = outputs.shape[-1]
    if targets.is_floating_point():
        if targets.shape != outputs.shape:
            raise ValueError(
                f"targets must have the outputs' shape {tuple(outputs.shape)} where they are probabilities, "
                f"not {tuple(targets.shape)}"
            )
        return F.cross_entropy(outputs.reshape(-1, classes), targets.reshape(-1, classes))
    if targets.shape != outputs.shape[:-1]:
        raise ValueError(
            f"targets must be classes of shape {tuple(outputs.shape[:-1])}, the outputs' without its last axis, "
            f"not {tuple(targets.shape)}"
        )
    low, high = int(targets.min()), int(targets.max())
    if low < 0 or high >= classes:
        raise ValueError(f"targets must be classes in 0 … {classes - 1}, the outputs' last axis, not in {low} … {high}")
    return F.cross_entropy(outputs.reshape(-1, classes), targets.reshape(-1))


def _by_autograd(loss: OutputLoss, z: Tensor, targets: Any) -> Product:
    with torch.enable_grad():
        z = z.requires_grad_()
        (slope,) = torch.autograd.grad(value(loss, z, targets), z, create_graph=True)

    def product(u: Tensor) -> Tensor:
        if not slope.requires_grad:  # a loss that is linear in the outputs
            return torch.zeros_like(u)
        (L_u,) = torch.autograd.grad(slope, z, u, retain_graph=True, materialize_grads=True)
        # 1e-3: far above what rounding makes of a zero curvature
        if float((u * L_u).sum()) < -1e-3 * float(u.norm() * L_u.norm()):
            raise ValueError(
                "loss must be convex in the outputs (uᵀLu of its Hessian L is negative here): "
                "let what is not convex be a part of the network"
            )
        return L_u

    return product

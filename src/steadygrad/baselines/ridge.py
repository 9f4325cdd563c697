"""Ridge regression from streamed sums, its penalty chosen by cross-validation over folds of those sums.

    rows v_r = [1, z_r, y_r]        z_r [F] features,  y_r [O] targets,  K = 1 + F + O
    A_f = Σ_{r in fold f} v_rᵀ v_r                                   [K, K], all that is kept of the rows of a fold

    with n, z̄, ȳ and the centred sums S_zz = Σ (z − z̄)ᵀ(z − z̄), S_zy = Σ (z − z̄)ᵀ(y − ȳ) read from A = Σ_f A_f:
    W = (S_zz + λ I)⁻¹ S_zy,    b = ȳ − z̄ W         the minimum of Σ_r ‖y_r − b − z_r W‖² + λ ‖W‖²; b is not penalised

    error of (b, W) on fold f = trace(Eᵀ A_f E),    E = [−b; −W; I]                             [K, O]
    cross-validation: the λ with the least Σ_f error on fold f of the (b, W) fitted to A − A_f

S_zz = V diag(e) Vᵀ is factorised once per fold, which serves every λ. λ = 0 gives the solution of least norm.
Sums of squares square the condition number, and an error of less than about 1e-7 of the targets' size drowns in their rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

RELATIVE = tuple(10.0**power for power in range(-14, 3))
"""The λ that are tried where none are given, as multiples of the mean variance sum trace(S_zz) / F."""


def add(sums: Tensor, features: Tensor, targets: Tensor, folds: Tensor) -> None:
    """A_f += Σ v_rᵀ v_r, in place.

    Args:
        sums: A, float64 [folds, K, K].
        features: [R, F]; targets: [R, O]; folds: int64 [R], the fold of each row.
    """
    rows = torch.cat([features.new_ones(len(features), 1), features, targets.to(features)], 1).double()
    found = folds.unique().tolist()
    for fold in found:
        chosen = rows if len(found) == 1 else rows[folds == fold]
        sums[fold] += chosen.T @ chosen


def solve(A: Tensor, penalties: Sequence[float], outputs: int) -> Tensor:
    """[b; W] for every λ, [len(penalties), 1 + F, O], from the sums A [K, K]."""
    n, features = A[0, 0], len(A) - 1 - outputs
    mean = A[0, 1:] / n
    S = A[1:, 1:] - n * mean.outer(mean)
    S_zz, S_zy = S[:features, :features], S[:features, features:]
    e, V = torch.linalg.eigh(S_zz)
    e = e.clamp(min=0.0)
    projected = V.T @ S_zy
    found: list[Tensor] = []
    for penalty in penalties:
        scale = e + penalty
        # Directions in which the rows do not differ carry rounding errors alone: without a penalty they are left out.
        alive = scale > torch.finfo(e.dtype).eps * features * scale.max() if penalty == 0 else scale > 0
        inverse = torch.where(alive, 1.0 / torch.where(alive, scale, 1.0), 0.0)
        W = V @ (inverse.unsqueeze(1) * projected)
        b = mean[features:] - mean[:features] @ W
        found.append(torch.cat([b.unsqueeze(0), W]))
    return torch.stack(found)


def squared_error(A: Tensor, weights: Tensor) -> Tensor:
    """Σ_r ‖y_r − b − z_r W‖² over the rows of A [K, K], for weights [..., 1 + F, O]; at least 0."""
    outputs = weights.shape[-1]
    identity = torch.eye(outputs, dtype=A.dtype, device=A.device).expand(*weights.shape[:-2], -1, -1)
    E = torch.cat([-weights, identity], -2)
    return (E * (A @ E)).sum((-1, -2)).clamp(min=0.0)


def candidates(A: Tensor, outputs: int) -> list[float]:
    """The λ to try: `RELATIVE` times trace(S_zz) / F."""
    features = len(A) - 1 - outputs
    mean = A[0, 1 : features + 1] / A[0, 0]
    variances = A.diagonal()[1 : features + 1] - A[0, 0] * mean.square()
    scale = variances.clamp(min=0.0).mean().item()
    return [factor * (scale or 1.0) for factor in RELATIVE]


def cross_validate(sums: Tensor, penalties: Sequence[float], outputs: int) -> Tensor:
    """The mean squared error per held-out row of every λ, [len(penalties)], from sums [folds, K, K]."""
    total, used = sums.sum(0), [A for A in sums if A[0, 0] > 0]
    if len(used) < 2:
        raise ValueError(
            "ridge must be a number where all rows fall into one fold: give more sequences or steps to choose it from"
        )
    errors = [squared_error(A, solve(total - A, penalties, outputs)) for A in used]
    return torch.stack(errors).sum(0) / total[0, 0]

"""The regulariser Ω and its immediate derivative, in closed form (Pascanu et al. 2013, equations 9 and 10).

State x_k before the nonlinearity, h_k = σ(x_k), error δ_k = ∂E/∂x_k:

    v_k = σ'(x_k) ⊙ (Wᵀ δ_{k+1})                     what arrives at step k from step k+1
    Ω_k = (‖v_k‖ / ‖δ_{k+1}‖ − 1)²
    ∂⁺Ω_k/∂W = c_k δ_{k+1} ⊗ u_k,    u_k = v_k ⊙ σ'(x_k),    c_k = 2 (‖v_k‖/‖δ_{k+1}‖ − 1) / (‖v_k‖ ‖δ_{k+1}‖)

Ω is the mean over the active pairs: those with ‖δ_{k+1}‖ ≥ 1e-10 · max_j ‖δ_j‖, the largest error of that sequence, and
v_k ≠ 0. The bound is relative, so Ω does not see the scale of the loss. A sequence of T steps has T − 1 pairs.

`convention="proceedings"` is the final edition's: the same state, but the ratio is of squared norms,
Ω_k = (‖v_k‖²/‖δ_{k+1}‖² − 1)², c_k = 4 (‖v_k‖²/‖δ_{k+1}‖² − 1) / ‖δ_{k+1}‖². Near a ratio of 1 it is four times the paper's:
the published values of α go with it.

`convention="program"` is what the authors' program computes: the state is h, its error e_k = ∂E/∂h_k, and the ratio is of
squared norms; a pair is active where ‖e_{k+1}‖² ≥ 1e-20, an absolute number.
With z = σ'(x_{k+1}) ⊙ e_{k+1}:   v_k = u_k = Wᵀ z,   Ω_k = (‖v_k‖²/‖e_{k+1}‖² − 1)²,
∂⁺Ω_k/∂W = c_k z ⊗ u_k,   c_k = 4 (‖v_k‖²/‖e_{k+1}‖² − 1) / ‖e_{k+1}‖².

Leaky units h_{k+1} = λ h_k + (1 − λ) σ(a_{k+1}) have the state h in both conventions: z = (1 − λ) σ'(a_{k+1}) ⊙ e_{k+1} and
v_k = u_k = λ e_{k+1} + Wᵀ z.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import checks

CONVENTIONS = ("paper", "proceedings", "program")
ACTIVE = 1e-20
"""A pair counts where the squared norm of its error is at least this share of the sequence's largest ("program": this)."""


def ratios(error_sq: Tensor, back_sq: Tensor, convention: str) -> tuple[Tensor, Tensor]:
    """‖v_k‖ / ‖error_{k+1}‖ of every pair, 1 where it is not active; and which are active.

    Both arguments are [T, B]: the squared norm of every step's error, and of what it sends to the step before it.
    """
    bound = ACTIVE if convention == "program" else ACTIVE * error_sq.amax(0, keepdim=True)
    active = (error_sq >= bound) & (back_sq > 0)
    return torch.where(active, back_sq / torch.where(active, error_sq, 1.0), 1.0).sqrt(), active


def value(error_sq: Tensor, back_sq: Tensor, convention: str) -> Tensor:
    """Ω from squared norms: the mean over active pairs, 0 where there is none, NaN where an error is not finite."""
    if not bool((error_sq + back_sq).isfinite().all()):
        return error_sq.new_full((), torch.nan)
    return mean(*ratios(error_sq, back_sq, convention), convention)


def mean(ratio: Tensor, active: Tensor, convention: str) -> Tensor:
    """Ω from what `ratios` returns, of errors that are finite."""
    if convention != "paper":
        ratio = ratio.square()
    return (ratio - 1).square().sum() / active.sum().clamp(min=1)


def factors(error_sq: Tensor, back_sq: Tensor, convention: str) -> Tensor:
    """c_k / N of every pair, 0 where it is not active."""
    ratio, active = ratios(error_sq, back_sq, convention)
    error_sq = torch.where(active, error_sq, 1.0)
    c = 2 * (ratio - 1) / (error_sq * ratio) if convention == "paper" else 4 * (ratio.square() - 1) / error_sq
    return torch.where(active, c, 0.0) / active.sum().clamp(min=1)


@torch.no_grad()
def omega(
    hidden: Tensor,
    errors: Tensor,
    weight_hh: Tensor,
    nonlinearity: str,
    *,
    leak: float = 0.0,
    lengths: Tensor | None = None,
    convention: str = "paper",
) -> tuple[Tensor, Tensor]:
    """Ω and its immediate derivative with respect to the recurrent matrix.

    Args:
        hidden: h_k after the nonlinearity, [T, B, H] or [T, H].
        errors: the total error of each state, of the same shape: ∂E/∂x_k before the nonlinearity; with leaky units or
            `convention="program"`, ∂E/∂h_k after it. "Total" includes what comes back through later steps.
        weight_hh: W_rec, [H, H].
        nonlinearity: 'tanh', 'relu', 'sigmoid' or 'identity'.
        leak: λ of leaky units, in [0, 1).
        lengths: [B], how many steps of each sequence are real; the others never count.
        convention: 'paper', 'proceedings' or 'program'.

    Returns:
        Ω as a scalar and ∂⁺Ω/∂W_rec as [H, H]. Both are 0 where no pair is active, and NaN where a state or an error is not
        finite.

    Example:
        An orthogonal matrix keeps the norm of every error, so a linear network has nothing to be moved for:

        >>> import torch, steadygrad as sg
        >>> W = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64))[0]
        >>> h = torch.randn(9, 2, 4, dtype=torch.float64)
        >>> e = torch.randn(9, 2, 4, dtype=torch.float64)
        >>> value, gradient = sg.omega(h, e, W, "identity")
        >>> bool(value < 1e-20), bool(gradient.abs().max() < 1e-12)
        (True, True)

    Reference:
        Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural networks, 2013.
    """
    from .recurrence import nonlinearity as nonlinearities

    sigma = nonlinearities.get(nonlinearity)
    leak = checks.number("leak", leak, low=0, high=1, open_high=True)
    checks.one_of("convention", convention, CONVENTIONS)
    hidden, errors = _batched(hidden, errors, weight_hh)
    if leak == 0:
        _check_range(hidden, nonlinearity, sigma.range)
    steps, batch, _ = hidden.shape
    if lengths is not None:
        checks.lengths(lengths, steps, batch)

    later = errors[1:]
    if leak == 0 and convention != "program":
        left, slope = later, sigma.slope(hidden[:-1])
        v = slope * (later @ weight_hh)
        right = slope * v
    else:
        activation = hidden[1:] if leak == 0 else (hidden[1:] - leak * hidden[:-1]) / (1 - leak)
        left = (1 - leak) * sigma.slope(activation) * later
        v = right = leak * later + left @ weight_hh
    error_sq = errors.double().square().sum(-1)
    back_sq = torch.cat([error_sq.new_zeros(1, batch), v.double().square().sum(-1)])
    if lengths is not None:
        running = torch.arange(steps, device=hidden.device).unsqueeze(1) < lengths.to(hidden.device)
        error_sq, back_sq = torch.where(running, error_sq, 0.0), torch.where(running, back_sq, 0.0)
    c = factors(error_sq, back_sq, convention)[1:]
    gradient = left.double().flatten(0, 1).T @ (c.unsqueeze(-1) * right.double()).flatten(0, 1)
    found = value(error_sq, back_sq, convention)
    return found.to(hidden.dtype), torch.where(found.isnan(), torch.nan, gradient).to(hidden.dtype)


def _check_range(hidden: Tensor, nonlinearity: str, allowed: tuple[float, float]) -> None:
    low, high = allowed
    slack = 8 * torch.finfo(hidden.dtype).eps  # a rounding of σ may leave its range
    if hidden.numel() and (float(hidden.min()) < low - slack or float(hidden.max()) > high + slack):
        raise ValueError(
            f"hidden must be what {nonlinearity} gives, in [{low:g}, {high:g}], "
            f"not in [{float(hidden.min()):.3g}, {float(hidden.max()):.3g}]: the states after the nonlinearity are wanted"
        )


def _batched(hidden: Tensor, errors: Tensor, weight_hh: Tensor) -> tuple[Tensor, Tensor]:
    if hidden.dim() not in (2, 3):
        raise ValueError(f"hidden must be [T, B, H] or [T, H], not of shape {tuple(hidden.shape)}")
    if errors.shape != hidden.shape:
        raise ValueError(f"errors must have the shape of hidden, {tuple(hidden.shape)}, not {tuple(errors.shape)}")
    units = hidden.shape[-1]
    if weight_hh.shape != (units, units):
        raise ValueError(f"weight_hh must be [{units}, {units}] to fit hidden, not of shape {tuple(weight_hh.shape)}")
    for name, given in (("hidden", hidden), ("errors", errors)):
        if not weight_hh.is_floating_point() or given.dtype != weight_hh.dtype or given.device != weight_hh.device:
            raise ValueError(
                f"{name} must be of weight_hh's floating-point dtype and on its device, {weight_hh.dtype} on "
                f"{weight_hh.device}, not {given.dtype} on {given.device}"
            )
    if hidden.dim() == 2:
        hidden, errors = hidden.unsqueeze(1), errors.unsqueeze(1)
    return hidden, errors

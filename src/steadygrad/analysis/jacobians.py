"""How fast the error is transported through time: singular values of ∂x_t/∂x_k against the lag t − k.

    P_l = ∂x_t/∂x_{t-l} = J_t J_{t-1} ⋯ J_{t-l+1}                                (Pascanu et al. 2013, eq. 5)
    J_i = W_rec diag(σ'(x_{i-1}))                         state "x", the paper's, before the nonlinearity
    J_i = leak·I + (1 − leak) diag(σ'(a_i)) W_rec         state "h", after it
    log‖P_l‖ ≤ l · log(leak + (1 − leak) γ σ_max(W_rec))                                            (eq. 6)

P_{l+1}^T = J^T P_l^T and P_{l+1}^{-1} = J^{-1} P_l^{-1} both grow from the left, so one kind of product serves for the
largest singular value (of P_l^T) and for the smallest (one over the largest of P_l^{-1}).
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..checks import one_of, whole
from .products import ScaledProduct
from .trajectory import Layer, Trajectory, finite, run


@dataclass(frozen=True)
class JacobianNorms:
    """What `jacobian_norms` found; every array is [L + 1], float64, for lags 0 … L, and every logarithm natural.

    Attributes:
        lags: 0 … L.
        log_largest: log of the largest singular value of P_l: the worst explosion at that lag.
        log_smallest: log of the smallest; −inf where P_l is singular (dead relu units, a singular W_rec).
        log_error: log(‖δ P_l‖ / ‖δ‖) along the error δ that was given, else None.
        log_bound: l · log(bound on one Jacobian's norm), eq. 6.
        state: "x" or "h".
    """

    lags: Tensor
    log_largest: Tensor
    log_smallest: Tensor
    log_error: Tensor | None
    log_bound: Tensor
    state: str


@torch.no_grad()
def jacobian_norms(
    rnn: nn.Module,
    inputs: Tensor,
    h0: Tensor | None = None,
    *,
    error: Tensor | None = None,
    layer: int | None = None,
    max_lag: int | None = None,
    sample: int = 0,
    state: str | None = None,
) -> JacobianNorms:
    """Largest and smallest singular value of ∂x_t/∂x_k for the last step t, against the lag t − k, in logarithms.

    Exact at every lag up to rounding, however far the values lie outside the range of floating point: the product is
    kept in scaled factors (`products.py`). Nothing is an asymptotic estimate.

    Args:
        rnn: a torch.nn.RNN or steadygrad.RNN of any number of layers, in one direction.
        inputs: [T, B, D], unbatched [T, D], or tokens [T, B] or [T].
        h0: [num_layers, B, H] or [num_layers, H]; None: zeros.
        error: δ = ∂E_t/∂(state) at the last step, [H] or [B, H].
        layer: whose recurrence; None: the last layer, where the error enters. The layers below supply its input.
        max_lag: the longest lag L; None: as far as the sequence reaches, T − 1 for state "x" (x_0 is not part of it)
            and T for "h".
        sample: which sequence of the batch.
        state: "x" (before the nonlinearity, as in the paper) or "h" (after it); None: "x", or "h" for leaky units,
            which have no other.

    Returns:
        A `JacobianNorms`.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> rnn = nn.RNN(3, 20)
        >>> _ = nn.init.orthogonal_(rnn.weight_hh_l0, gain=0.9)
        >>> norms = jacobian_norms(rnn, torch.zeros(301, 1, 3), max_lag=300)
        >>> bool((norms.log_largest <= norms.log_bound + 1e-9).all()), round(norms.log_bound[-1].item(), 2)
        (True, -31.61)

    Reference: Pascanu, Mikolov & Bengio 2013, section 2.1, eq. 5 and 6.
    """
    trajectory = run(rnn, inputs, h0, layer, sample=sample)
    if state is None:
        state = "h" if trajectory.layer.leak else "x"
    if one_of("state", state, ("x", "h")) == "x" and trajectory.layer.leak:
        raise ValueError("state must be 'h' for leaky units, whose next state x alone does not determine, not 'x'")
    reach = trajectory.steps - (state == "x")
    lags = reach if max_lag is None else whole("max_lag", max_lag, low=0)
    if lags > reach:
        raise ValueError(f"max_lag must be at most {reach} ({trajectory.steps} steps, state {state!r}), not {lags}")

    slopes = _slopes_backwards(trajectory, lags, state)
    delta = None if error is None else _error(error, trajectory, sample)
    steps = torch.arange(lags + 1, dtype=torch.float64)
    bound = trajectory.layer.log_bound()
    return JacobianNorms(
        lags=torch.arange(lags + 1),
        log_largest=_log_largest(trajectory.layer, slopes, state),
        log_smallest=_log_smallest(trajectory.layer, slopes, state),
        log_error=None if delta is None else _log_error(trajectory.layer, slopes, state, delta),
        log_bound=torch.cat([steps[:1], steps[1:] * bound]),
        state=state,
    )


def _slopes_backwards(trajectory: Trajectory, lags: int, state: str) -> Tensor:
    """The slopes of J_t, J_{t-1}, …: [L, H]."""
    slopes = trajectory.slopes()[:, 0]
    return (slopes[:-1] if state == "x" else slopes).flip(0)[:lags]


def _error(error: Tensor, trajectory: Trajectory, sample: int) -> Tensor:
    hidden = trajectory.a.shape[-1]
    if not isinstance(error, Tensor):
        raise TypeError(f"error must be a torch.Tensor or None, not {type(error).__name__}")
    if list(error.shape) not in ([hidden], [trajectory.batch, hidden]):
        raise ValueError(f"error must be [{hidden}] or [{trajectory.batch}, {hidden}], not {list(error.shape)}")
    if error.dim() == 2:
        error = error[sample]
    if not error.any():
        raise ValueError("error must have an entry that is not zero: a direction is needed")
    return finite("error", error)


def _log_largest(layer: Layer, slopes: Tensor, state: str) -> Tensor:
    W_T = layer.weight_hh.T
    product = ScaledProduct(W_T.shape[0])
    values = [0.0]
    for s in slopes:
        if layer.leak:
            product.multiply(layer.jacobian(s).T)
            product.refactor()
        elif state == "x":
            product.multiply(W_T)
            product.scale_rows(s)
            product.refactor()
        else:
            # The slopes come first here: factoring between the two keeps the rows of dead units exactly zero.
            product.scale_rows(s)
            product.refactor()
            product.multiply(W_T)
        values.append(product.log_norm())
    return torch.tensor(values, dtype=torch.float64)


def _log_smallest(layer: Layer, slopes: Tensor, state: str) -> Tensor:
    values = torch.full((len(slopes) + 1,), -math.inf, dtype=torch.float64)
    values[0] = 0.0
    product = ScaledProduct(layer.weight_hh.shape[0])
    W_inverse = None if layer.leak else _inverse(layer.weight_hh)
    for l, s in enumerate(slopes, 1):
        J_inverse = _inverse(layer.jacobian(s)) if layer.leak else W_inverse
        if J_inverse is None or (not layer.leak and not s.all()):
            break  # singular from here on: a product never regains rank
        if layer.leak:
            product.multiply(J_inverse)
        elif state == "x":
            product.multiply(J_inverse)
            product.scale_rows(s.min() / s, -math.log(s.min()))
        else:
            product.scale_rows(s.min() / s, -math.log(s.min()))
            product.multiply(J_inverse)
        product.refactor()
        values[l] = -product.log_norm()
    return values


def _inverse(matrix: Tensor) -> Tensor | None:
    """The inverse, or None where the matrix is singular to working precision."""
    values = torch.linalg.svdvals(matrix)
    if values[-1] <= values[0] * matrix.shape[0] * sys.float_info.epsilon:
        return None
    return torch.linalg.inv(matrix)


def _log_error(layer: Layer, slopes: Tensor, state: str, delta: Tensor) -> Tensor:
    values = [0.0]
    delta, _ = _unit(delta)
    for s in slopes:
        back = s * (layer.weight_hh.T @ delta) if state == "x" else layer.weight_hh.T @ (s * delta)
        delta, log_norm = _unit(layer.leak * delta + (1 - layer.leak) * back)
        values.append(values[-1] + log_norm)
    return torch.tensor(values, dtype=torch.float64)


def _unit(vector: Tensor) -> tuple[Tensor, float]:
    """The vector at length 1 and the log of its length (squares of entries below 1e-154 would underflow unscaled)."""
    top = vector.abs().max()
    if top == 0:
        return vector, -math.inf
    vector = vector / top
    norm = vector.norm()
    return vector / norm, (top.log() + norm.log()).item()

"""How fast the error is transported through time: singular values of ∂s_t/∂s_k against the lag t − k.

P_l = ∂s_t/∂s_{t-l} = J_t J_{t-1} ⋯ J_{t-l+1}                                (Pascanu et al. 2013, eq. 5)

plain layer, state "x"    J_i = W_rec diag(σ'(x_{i-1}))                      the paper's, before the nonlinearity
plain layer, state "h"    J_i = leak·I + (1 − leak) diag(σ'(a_i)) W_rec      after it
GRU, state "h"; LSTM, state "hc": h and c as one vector                      gated.py
any cell, state "s": all parts of its state as one vector                    own_cell.py

plain layer:   log‖P_l‖ ≤ l · log(leak + (1 − leak) γ σ_max(W_rec))                                     (eq. 6)
others:        log‖P_l‖ ≤ Σ_i log‖J_i‖
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..checks import one_of, whole
from . import drawing
from .layer import Layer
from .plain import PlainLayer
from .reading import finite
from .trajectory import Trajectory, run
from .transport import Along, Bound, Largest, Smallest

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class JacobianNorms:
    """What `jacobian_norms` found; every array is [L + 1], float64, for lags 0 … L, and every logarithm natural.

    Attributes:
        lags: 0 … L.
        log_largest: log of the largest singular value of P_l: the worst explosion at that lag.
        log_smallest: log of the smallest; −inf where P_l is singular (dead relu units, a singular W_rec).
        log_error: log(‖δ P_l‖ / ‖δ‖) along the error δ that was given, else None.
        log_bound: l · log(bound on one Jacobian's norm), eq. 6. Other cells than the plain one have no such bound from
            their weights: theirs is the sum of log‖J_i‖ over the steps, a bound for this trajectory alone.
        state: "x" or "h"; "hc" for an LSTM, "s" for a cell of your own.
    """

    lags: Tensor
    log_largest: Tensor
    log_smallest: Tensor
    log_error: Tensor | None
    log_bound: Tensor
    state: str

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the four against the lag, as powers of ten; returns the Axes (a new one if `ax` is None)."""
        return drawing.jacobian_norms(self, ax)


@torch.no_grad()
def jacobian_norms(
    rnn: nn.Module,
    inputs: Tensor,
    h0: Any = None,
    *,
    error: Tensor | None = None,
    layer: int | None = None,
    max_lag: int | None = None,
    sample: int = 0,
    state: str | None = None,
) -> JacobianNorms:
    """Largest and smallest singular value of ∂s_t/∂s_k for the last step t, against the lag t − k, in logarithms.

    Exact at every lag up to rounding, however far the values lie outside the range of floating point: the product is
    kept in scaled factors (`products.py`). Nothing is an asymptotic estimate.

    Args:
        rnn: an RNN, GRU or LSTM of torch or steadygrad, of any number of layers, in one direction; torch's RNNCell, GRUCell or
            LSTMCell; or a steadygrad.Recurrent around any cell.
        inputs: [T, B, D], unbatched [T, D], or tokens [T, B] or [T]. For a cell of your own: [T, B, …].
        h0: [num_layers, B, H] or [num_layers, H], for a cell [B, H] or [H]; an LSTM takes a pair of them (h0, c0), a cell of
            your own its state; None: zeros.
        error: δ = ∂E_t/∂(state) at the last step, [H] or [B, H]. Of an LSTM [2H] or [B, 2H], the errors of h and c; or of h
            alone, as before, that of c being zero.
        layer: whose recurrence; None: the last layer, where the error enters. The layers below supply its input.
        max_lag: the longest lag L; None: as far as the sequence reaches, T − 1 for state "x" (x_0 is not part of it)
            and T for all others.
        sample: which sequence of the batch.
        state: of plain units: "x" (before the nonlinearity, as in the paper) or "h" (after it); None: "x", or "h" for
            leaky units, which have no other. The state of a GRU is "h", of an LSTM "hc" (h and c as one vector), of a
            cell of your own "s" (all of its state as one vector): leave it at None.

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
    state = _state(trajectory.layer, state)
    reach = trajectory.steps - (state == "x")
    lags = reach if max_lag is None else whole("max_lag", max_lag, low=0)
    if lags > reach:
        raise ValueError(f"max_lag must be at most {reach} ({trajectory.steps} steps, state {state!r}), not {lags}")

    size = trajectory.layer.size
    largest, smallest, bound = Largest(size), Smallest(size), Bound(trajectory.layer)
    along = None if error is None else Along(_error(error, trajectory, sample))
    for factors in islice(_factors_backwards(trajectory, state), lags):
        for quantity in (largest, smallest, bound, along):
            if quantity is not None:
                quantity.step_back(factors)
    return JacobianNorms(
        lags=torch.arange(lags + 1),
        log_largest=torch.tensor(largest.logs, dtype=torch.float64),
        log_smallest=torch.tensor(smallest.logs, dtype=torch.float64),
        log_error=None if along is None else torch.tensor(along.logs, dtype=torch.float64),
        log_bound=torch.tensor(bound.logs, dtype=torch.float64),
        state=state,
    )


def _state(layer: Layer, state: str | None) -> str:
    """The name of the state, the layer's own where none is asked for."""
    if not isinstance(layer, PlainLayer):
        (own,) = layer.states
        if state is not None and state != own:
            raise ValueError(f"state must be {own!r} or None for {layer.name}, not {state!r}")
        return own
    if state is None:
        state = "h" if layer.leak else "x"
    if one_of("state", state, layer.states) == "x" and layer.leak:
        raise ValueError("state must be 'h' for leaky units, whose next state x alone does not determine, not 'x'")
    return state


def _factors_backwards(trajectory: Trajectory, state: str) -> Iterator[list[Tensor]]:
    """J_t, J_{t-1}, … as products (layer.py), left factor first."""
    layer, steps = trajectory.layer, reversed(range(trajectory.steps))
    if state == "x":
        assert isinstance(layer, PlainLayer)
        next(steps)  # J_t holds the slopes of step t − 1
    for i in steps:
        factors = layer.factors(trajectory.s[i], trajectory.drives[i])
        yield factors[::-1] if state == "x" else factors


def _error(error: Tensor, trajectory: Trajectory, sample: int) -> Tensor:
    """δ [n]; an error of what is put out has no part in the rest of the state."""
    batch, sizes = trajectory.batch, sorted({trajectory.layer.hidden, trajectory.layer.size})
    if not isinstance(error, Tensor):
        raise TypeError(f"error must be a torch.Tensor or None, not {type(error).__name__}")
    allowed = [shape for size in sizes for shape in ([size], [batch, size])]
    if list(error.shape) not in allowed:
        raise ValueError(f"error must be {' or '.join(map(str, allowed))}, not {list(error.shape)}")
    if error.dim() == 2:
        error = error[sample]
    if not error.any():
        raise ValueError("error must have an entry that is not zero: a direction is needed")
    return nn.functional.pad(finite("error", error), (0, trajectory.layer.size - error.shape[0]))

"""The gradient as a sum over time: which steps k the gradient of E_t comes from.

    ∂E_t/∂θ = Σ_{1≤k≤t}  ∂E_t/∂x_t · ∂x_t/∂x_k · ∂⁺x_k/∂θ                        (Pascanu et al. 2013, eq. 4)

With e_k = ∂E_t/∂s_k [B, n] (s the state: layer.py), carried back from e_t:

    temporal component k:   e_k · ∂⁺s_k/∂θ, summed over B          e_{k-1} = e_k · ∂s_k/∂s_{k-1}

For the plain layer (leak = 0) and the leaky one that is

    δ_k     = (1 − leak) σ'(a_k) ⊙ e_k                  = ∂E_t/∂x_t · ∂x_t/∂x_k for plain units
    e_{k-1} = leak · e_k + δ_k W_rec
    temporal component k:   W_rec: δ_k^T h_{k-1} [H, H]     W_in: δ_k^T u_k [H, D]     b: δ_k summed over B [H]

For GRU and LSTM see gated.py; of any other cell autograd takes both through one step. e_k is kept at size 1 beside a
logarithm, so that components of any size can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from ..checks import one_of, whole
from . import drawing
from .layer import Layer
from .own_cell import OwnCellLayer
from .trajectory import run

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Share(NamedTuple):
    """Parts of Σ_k ‖component k‖: they add up to 1, or are both 0 where there is no gradient at all."""

    short_term: float
    long_term: float


@dataclass(frozen=True)
class TemporalComponents:
    """What `temporal_components` found.

    The keys are "weight_hh" (W_rec), "weight_ih" (W_in) and "bias" (b) for a plain layer; "weight_hh", "weight_ih",
    "bias_ih" and "bias_hh" for GRU and LSTM; the names of its parameters for a cell of your own.

    Attributes:
        t: the step whose error E_t is meant, counted from 1.
        log_norms: key → log of the Frobenius norm of each component, [t]; entry k − 1 belongs to step k.
        sum: key → the sum of all components, ∂E_t/∂θ; a plain layer's "bias" is the gradient of bias_ih and of bias_hh alike.
    """

    t: int
    log_norms: dict[str, Tensor]
    sum: dict[str, Tensor]

    @property
    def norms(self) -> dict[str, Tensor]:
        """key → Frobenius norm of each component, [t]; 0 or inf where float64 can't hold it."""
        return {name: logs.exp() for name, logs in self.log_norms.items()}

    def share(self, long_term: int, parameter: str = "weight_hh") -> Share:
        """Which part of the components' norms is long-term, i.e. has t − k ≥ `long_term`, and which short-term.

        Args:
            long_term: the shortest lag that counts as long.
            parameter: one of the keys.
        """
        whole("long_term", long_term)
        logs = self.log_norms[one_of("parameter", parameter, self.log_norms)]
        if logs.max() == -math.inf:
            return Share(0.0, 0.0)
        parts = (logs - logs.max()).exp()
        far = parts[: max(self.t - long_term, 0)].sum().item()
        near = parts[max(self.t - long_term, 0) :].sum().item()
        return Share(near / (near + far), far / (near + far))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws each component's norm by step, as a power of ten; returns the Axes (a new one if `ax` is None)."""
        return drawing.temporal_components(self, ax)


@torch.no_grad()
def temporal_components(
    rnn: nn.Module,
    inputs: Tensor,
    loss: Callable[[Tensor], Tensor],
    t: int | None = None,
    h0: Any = None,
    *,
    layer: int | None = None,
) -> TemporalComponents:
    """The size of every step's contribution to the gradient of one step's error, for every parameter of the layer.

    Args:
        rnn: an RNN, GRU or LSTM of torch or steadygrad, of any number of layers, in one direction; torch's RNNCell, GRUCell or
            LSTMCell; or a steadygrad.Recurrent around any cell.
        inputs: [T, B, D], unbatched [T, D], or tokens [T, B] or [T]. For a cell of your own: [T, B, …].
        loss: E_t as a function of h_t [B, H] (in the model's dtype, B = 1 for unbatched inputs), returning a scalar.
            Its own parameters receive no gradient. h_t is what the layer puts out: of an LSTM h without c, of a cell of
            your own the first part of its state.
        t: the step, 1 … T; None: the last.
        h0: [num_layers, B, H] or [num_layers, H], for a cell [B, H] or [H]; an LSTM takes a pair of them (h0, c0), a cell of
            your own its state; None: zeros.
        layer: whose h_t and whose parameters; None: the last layer. Only the way through this layer's own recurrence
            counts, not one through layers above it.

    Returns:
        A `TemporalComponents`.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> rnn, readout = nn.RNN(2, 8), nn.Linear(8, 1)
        >>> found = temporal_components(rnn, torch.randn(30, 4, 2), lambda h: readout(h).pow(2).mean())
        >>> found.norms["weight_hh"].shape, found.share(long_term=10).long_term < 0.05
        (torch.Size([30]), True)

    Reference: Pascanu, Mikolov & Bengio 2013, eq. 3 to 5 and section 1.1.
    """
    trajectory = run(rnn, inputs, h0, layer)
    t = trajectory.steps if t is None else whole("t", t)
    if t > trajectory.steps:
        raise ValueError(f"t must be a step from 1 to {trajectory.steps}, not {t}")
    current = trajectory.layer
    e, log_scale = _rescaled(_error(loss, current, trajectory.s[t], next(rnn.parameters(), inputs)), 0.0)
    parameters = current.parameters()
    logs = {name: torch.full((t,), -math.inf, dtype=torch.float64) for name in parameters}
    sums = _ScaledSums(parameters)
    for k in range(t, 0, -1):
        components, e = current.pull_back(e, trajectory.s[k - 1], trajectory.drives[k - 1], trajectory.u[k - 1])
        for name, component in components.items():
            logs[name][k - 1] = _log_frobenius(component) + log_scale
        sums.add(components, log_scale)
        e, log_scale = _rescaled(e, log_scale)
    return TemporalComponents(t=t, log_norms=logs, sum=sums.values())


class _ScaledSums:
    """Σ_k of the components, with the scale e^log_scale of the largest so far kept apart."""

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        self.sums = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
        self.log_scale = -math.inf

    def add(self, components: dict[str, Tensor], log_scale: float) -> None:
        if log_scale == -math.inf:
            return
        top = max(self.log_scale, log_scale)
        for name, component in components.items():
            self.sums[name] = math.exp(self.log_scale - top) * self.sums[name] + math.exp(log_scale - top) * component
        self.log_scale = top

    def values(self) -> dict[str, Tensor]:
        # torch.exp gives inf where math.exp would raise; a component that is zero stays so beside it.
        factor = torch.tensor(self.log_scale, dtype=torch.float64).exp()
        return {name: torch.where(value == 0, value, value * factor) for name, value in self.sums.items()}


def _error(loss: Callable[[Tensor], Tensor], layer: Layer, s_t: Tensor, like: Tensor) -> Tensor:
    """∂E_t/∂s_t [B, n], by autograd through `loss` alone, which is given h_t on the device and in the dtype of `like`."""
    with torch.inference_mode(False), torch.enable_grad():
        s = s_t.clone().requires_grad_()
        h = s[:, : layer.hidden]
        if isinstance(layer, OwnCellLayer):
            h = h.reshape(-1, *layer.shapes[0])
        value = loss(h.to(like.device, like.dtype))
        if not isinstance(value, Tensor) or value.numel() != 1:
            came = f"shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"loss must return a tensor with one element, not {came}")
        gradient = None
        if value.requires_grad:
            (gradient,) = torch.autograd.grad(value.reshape(()), s, allow_unused=True)
    if gradient is None:
        raise ValueError("loss must depend on the state h_t it is given, but its value does not")
    if not gradient.isfinite().all():
        raise ValueError("loss must have a finite gradient at h_t, but it holds infinite or NaN entries")
    return gradient


def _rescaled(e: Tensor, log_scale: float) -> tuple[Tensor, float]:
    top = e.abs().max()
    return (e / top, log_scale + math.log(top)) if top > 0 else (e, -math.inf)


def _log_frobenius(component: Tensor) -> float:
    top = component.abs().max()
    return (top.log() + (component / top).norm().log()).item() if top > 0 else -math.inf

"""What the recurrent weights alone say about gradients: ρ, σ_max and the threshold 1/γ.

    ‖∂x_{k+1}/∂x_k‖ ≤ ‖W_rec‖ ‖diag(σ'(x_k))‖ ≤ γ σ_max(W_rec)                    (Pascanu et al. 2013, eq. 6)
    leaky units:  ‖∂h_{k+1}/∂h_k‖ ≤ leak + (1 − leak) γ σ_max(W_rec)

Three theorems follow, and one does not:

1. σ_max < 1/γ is sufficient for long-term components to vanish (eq. 6 and 7). The bound of leaky units is below 1
   exactly when this holds.
2. σ_max > 1/γ is therefore necessary for them to explode.
3. Linear units (σ the identity): the Jacobian is the same at every step, so its spectral radius decides. ρ < 1 is
   sufficient for vanishing, ρ > 1 necessary for exponential growth (section 2.1 and the supplement).
4. The paper states 1 and 2 with the largest *eigenvalue* of W_rec. Its proof bounds the norm ‖W_rec^T‖, the largest
   *singular* value. For normal W_rec (symmetric, orthogonal) both are the same; for any other, ρ < 1/γ does not
   suffice in the non-linear case. `counterexample` is a network with ρ = 0 whose gradients explode.

Gated cells follow other rules: gated_guarantees.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import torch
from torch import Tensor, nn

from ..checks import number
from ..eigen import spectral_radius
from . import drawing
from .gated import GatedLayer
from .gated_guarantees import GatedConditions, gated_conditions
from .plain import PlainLayer
from .reading import read_layer, square_weight, understand
from .sigma import largest_slope

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Conditions:
    """What `conditions` found.

    Attributes:
        rho: ρ(W_rec), the largest absolute eigenvalue.
        sigma_max: σ_max(W_rec), the largest singular value.
        gamma: γ, the largest slope of the nonlinearity.
        threshold: 1/γ.
        jacobian_rho: ρ of leak·I + (1 − leak) γ W_rec, the Jacobian when every slope is largest; of linear units,
            the Jacobian itself.
        jacobian_bound: leak + (1 − leak) γ σ_max, which no Jacobian's norm exceeds.
        vanishing_guaranteed: σ_max < 1/γ (linear units: jacobian_rho < 1), whatever the inputs.
        explosion_possible: σ_max > 1/γ (linear units: jacobian_rho > 1). Necessary, not sufficient.
        nonlinearity: as given.
        leak: as given.

    A value that equals its threshold to within rounding counts as equal: then neither boolean is true.
    """

    rho: float
    sigma_max: float
    gamma: float
    threshold: float
    jacobian_rho: float
    jacobian_bound: float
    vanishing_guaranteed: bool
    explosion_possible: bool
    nonlinearity: str
    leak: float

    @property
    def verdict(self) -> str:
        """The conclusion in words, with the theorem it rests on."""
        return _linear_verdict(self) if self.nonlinearity == "identity" else _nonlinear_verdict(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws ρ, σ_max and the threshold 1/γ; returns the Axes (a new one if `ax` is None)."""
        return drawing.conditions(self, ax)


@overload
def conditions(weight_hh: Tensor, nonlinearity: str, leak: float = 0.0) -> Conditions: ...
@overload
def conditions(
    weight_hh: nn.Module, *, layer: int | None = None, input_bound: float | None = None
) -> Conditions | GatedConditions: ...
def conditions(
    weight_hh: Tensor | nn.Module,
    nonlinearity: str | None = None,
    leak: float | None = None,
    *,
    layer: int | None = None,
    input_bound: float | None = None,
) -> Conditions | GatedConditions:
    """Which conditions for vanishing and exploding gradients the weights of a layer meet.

    For plain units these are the paper's; ρ and σ_max stand side by side because they support different theorems: see the
    top of this file. What can and can't be said of a GRU or LSTM: gated_guarantees.py.

    Args:
        weight_hh: W_rec [H, H] of plain units; or a whole layer or cell: RNN, GRU, LSTM, RNNCell, GRUCell, LSTMCell, or a
            steadygrad.Recurrent around one of these cells.
        nonlinearity: "tanh", "relu", "sigmoid" or "identity"; with W_rec only, a layer says its own.
        leak: of leaky units h_{k+1} = leak·h_k + (1 − leak)·σ(a_{k+1}); 0 for plain ones; with W_rec only.
        layer: which layer of a module; None: the last.
        input_bound: U of a GRU or LSTM: every entry of its input lies in [−U, U]; None: any input. What a layer above the
            first gets lies in [−1, 1] anyway.

    Returns:
        A `Conditions`; for a GRU or LSTM a `GatedConditions`. Both have a `verdict` in words.

    Example:
        >>> found = conditions(torch.tensor([[0.5, 2.0], [0.0, 0.5]]), "tanh")
        >>> round(found.rho, 3), round(found.sigma_max, 3), found.vanishing_guaranteed
        (0.5, 2.118, False)
        >>> conditions(torch.eye(3) * 3.9, "sigmoid").vanishing_guaranteed
        True
        >>> _ = torch.manual_seed(0)
        >>> found = conditions(nn.GRU(3, 8))
        >>> found.vanishing_guaranteed, found.verdict.split(":")[0]
        (False, 'Explosion is not ruled out for any input')

    Reference: Pascanu, Mikolov & Bengio 2013, section 2.1, eq. 6 and 7, and the supplement.
    """
    if isinstance(weight_hh, nn.Module):
        if nonlinearity is not None or leak is not None:
            raise ValueError("nonlinearity and leak must be left out for a layer, which says its own")
        return _of_module(weight_hh, layer, input_bound)
    if isinstance(weight_hh, Tensor) and (layer is not None or input_bound is not None):
        raise ValueError("layer and input_bound must be left out for a weight matrix; they belong to a whole layer")
    if nonlinearity is None:
        raise ValueError("nonlinearity must be given with a weight matrix: 'tanh', 'relu', 'sigmoid' or 'identity'")
    return _of_weight(weight_hh, nonlinearity, 0.0 if leak is None else leak)


def _of_module(rnn: nn.Module, layer: int | None, input_bound: float | None) -> Conditions | GatedConditions:
    source = understand(rnn)
    if source.kind == "own":
        raise TypeError(
            f"conditions must be given an RNN, GRU or LSTM or one of their cells; of {type(source.module).__name__} its "
            "weights alone say nothing: use jacobian_norms or lyapunov_spectrum"
        )
    chosen = source.pick(layer)
    current = read_layer(source, chosen)
    if isinstance(current, GatedLayer):
        bound = None if input_bound is None else number("input_bound", input_bound, low=0.0)
        if chosen > 0:
            bound = 1.0 if bound is None else min(bound, 1.0)
        return gated_conditions(current, bound)
    if input_bound is not None:
        raise ValueError("input_bound must be left out for plain units, whose conditions hold for every input")
    assert isinstance(current, PlainLayer)
    weight = getattr(source.module, f"weight_hh{source.suffix(chosen)}")
    return _of_weight(weight, current.nonlinearity, current.leak)


def _of_weight(weight_hh: Tensor, nonlinearity: str, leak: float) -> Conditions:
    W = square_weight(weight_hh)
    gamma = largest_slope(nonlinearity)
    leak = number("leak", leak, low=0.0, high=1.0, open_high=True)
    rho = spectral_radius(W)
    sigma_max = torch.linalg.matrix_norm(W, 2).item()
    jacobian_rho = spectral_radius(leak * torch.eye(W.shape[0], dtype=W.dtype) + (1 - leak) * gamma * W)
    decisive = jacobian_rho if nonlinearity == "identity" else gamma * sigma_max
    # Singular values and well-conditioned eigenvalues carry an error of about H·eps, eps that of the weights as they were
    # given: an orthogonal matrix must not seem to explode because its σ_max came out as 1 + 1e-7.
    slack = 8 * W.shape[0] * torch.finfo(weight_hh.dtype if weight_hh.is_floating_point() else W.dtype).eps
    return Conditions(
        rho=rho,
        sigma_max=sigma_max,
        gamma=gamma,
        threshold=1 / gamma,
        jacobian_rho=jacobian_rho,
        jacobian_bound=leak + (1 - leak) * gamma * sigma_max,
        vanishing_guaranteed=decisive < 1 - slack,
        explosion_possible=decisive > 1 + slack,
        nonlinearity=nonlinearity,
        leak=leak,
    )


def _linear_verdict(found: Conditions) -> str:
    rho = f"the units are linear and the Jacobian's spectral radius is {found.jacobian_rho:.4g}"
    if found.vanishing_guaranteed:
        transient = f" They may grow at first, since its norm is up to {found.jacobian_bound:.4g}."
        return (
            f"Vanishing is guaranteed: {rho} < 1, which is sufficient for long-term components to vanish "
            "(Pascanu et al. 2013, section 2.1 and supplement)." + transient * (found.jacobian_bound > 1)
        )
    if found.explosion_possible:
        return (
            f"Explosion is possible: {rho} > 1, which is necessary for exponential growth, and sufficient for every "
            "error with a component along a dominating eigenvector (Pascanu et al. 2013, supplement; linear_growth)."
        )
    return (
        f"Neither is guaranteed: {rho}, equal to 1 within rounding, so components neither vanish nor grow "
        "exponentially; they may grow polynomially if an eigenvalue of modulus 1 is defective (Pascanu et al. 2013, "
        "supplement)."
    )


def _nonlinear_verdict(found: Conditions) -> str:
    limit = f"1/γ = {found.threshold:.4g}"
    if found.vanishing_guaranteed:
        return (
            f"Vanishing is guaranteed: σ_max = {found.sigma_max:.4g} < {limit}, so every Jacobian's norm is at most "
            f"{found.jacobian_bound:.4g} < 1 (Pascanu et al. 2013, eq. 6 and 7)."
        )
    if not found.explosion_possible:
        return (
            f"Neither is guaranteed: σ_max equals {limit} within rounding, so no Jacobian's norm exceeds 1 and "
            "gradients can't explode; whether they vanish depends on the slopes (Pascanu et al. 2013, eq. 6)."
        )
    opening = (
        f"Explosion is possible: σ_max = {found.sigma_max:.4g} > {limit}, the necessary condition (Pascanu et al. "
        "2013, eq. 6 inverted); it is not sufficient, since slopes below γ can still make gradients vanish."
    )
    if found.rho < found.threshold:
        return opening + (
            f" ρ = {found.rho:.4g} < {limit} does not guarantee vanishing: the paper's text says eigenvalue, but its "
            "proof bounds the norm, the largest singular value, larger for a non-normal W_rec (see counterexample)."
        )
    return opening + f" ρ = {found.rho:.4g} is not below {limit} either."

"""What the weights of a GRU or LSTM say about gradients, and what they can't say.

A plain unit multiplies its error by σ' W_rec at every step; a gated one also hands it on through a gate, and the gate, in
(0, 1), depends on the input. An input that drives it to 1 (z → 1, f → 1) lets the error of that unit pass unchanged. So where
inputs reach that gate, no recurrent weights guarantee vanishing for every input. For inputs with |u_j| ≤ U the gates keep
away from 1, and a bound of the Jacobian row by row decides. With |h_j| ≤ 1 (true at every step if it is true of h_0), ‖w‖₁ the
sum of the absolute entries of a unit's row of weights, and each gate between its values at the extreme pre-activations

    b − R ≤ a ≤ b + R,       R = U ‖w_i‖₁ + ‖w_h‖₁,       b = b_i + b_h

GRU: the sums of the absolute entries of J's rows are, with M = ‖w_hn‖₁ + |b_hn| ≥ |m|, at most

    β = max over units and their z of:   z + (1 − z) (r ‖w_hn‖₁ + ¼ M ‖w_hr‖₁ + 2 z ‖w_hz‖₁)

LSTM: |c| ≤ C = i / (1 − f) for the largest i and f (if c_0 is). The sums over the blocks of J are at most

    A = [o k + ¼ ‖w_ho‖₁   o f]       k = ¼ ‖w_hi‖₁ + ¼ C ‖w_hf‖₁ + i ‖w_hg‖₁
        [       k           f ]       each entry the largest over the units,        β = ρ(A)

|J_t ⋯ J_k| is at most β^(t−k) in the row-sum norm (GRU), or bounded by A^(t−k) block by block (LSTM). Hence:

1. β < 1 is sufficient for long-term components to vanish, for all inputs within U.
2. β > 1 is necessary for them to grow exponentially. It is far from sufficient: β adds up absolute values.
3. The eigenvalues of W_hr, W_hf, … decide nothing by themselves; they are reported to be looked at.

Bounds of this kind are known from the stability theory of these cells: Bonassi et al. 2021, "On the stability properties of
gated recurrent units neural networks"; Terzi et al. 2021, "Learning model predictive control with long short-term memory
networks".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from ..eigen import spectral_radius
from . import drawing
from .gated import GatedLayer, GRULayer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GATES = {"GRU": ("r", "z", "n"), "LSTM": ("i", "f", "g", "o")}
_SLACK = 1e-12


class GateSize(NamedTuple):
    """Of the square block of weight_hh that belongs to one gate."""

    rho: float
    sigma_max: float


@dataclass(frozen=True)
class GatedConditions:
    """What `conditions` found for a GRU or LSTM.

    Attributes:
        cell: "GRU" or "LSTM".
        gates: ρ and σ_max of each gate's recurrent weights, by torch's letters: r, z, n or i, f, g, o. They support no
            theorem here.
        jacobian_bound: β, the bound on the growth of long-term components per step; inf if there is none.
        input_bound: U, as given; None for inputs of any size. Of a layer above the first at most 1: the layer below puts out
            no more (its initial state within ±1, and no dropout between them).
        vanishing_guaranteed: β < 1.
        explosion_possible: β > 1. Necessary for exponential growth, not sufficient.

    A value that equals 1 to within rounding counts as equal: then neither boolean is true. The initial state is taken to be
    one the layer can reach: |h_0| ≤ 1, and |c_0| within the bound of c.
    """

    cell: str
    gates: dict[str, GateSize]
    jacobian_bound: float
    input_bound: float | None
    vanishing_guaranteed: bool
    explosion_possible: bool

    @property
    def verdict(self) -> str:
        """The conclusion in words: what these weights say, and what they can't."""
        return _verdict(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws ρ and σ_max of each gate's weights; returns the Axes (a new one if `ax` is None)."""
        return drawing.gated_conditions(self, ax)


def gated_conditions(layer: GatedLayer, input_bound: float | None) -> GatedConditions:
    """The conditions of one layer (`conditions` in guarantees.py); `input_bound` is U, None for any input."""
    cell = "GRU" if isinstance(layer, GRULayer) else "LSTM"
    sizes = {
        gate: GateSize(spectral_radius(block), torch.linalg.matrix_norm(block, 2).item())
        for gate, block in zip(GATES[cell], layer.weight_hh.chunk(len(GATES[cell])), strict=True)
    }
    bound = (gru_bound if cell == "GRU" else _lstm_bound)(layer, math.inf if input_bound is None else input_bound)
    return GatedConditions(
        cell=cell,
        gates=sizes,
        jacobian_bound=bound,
        input_bound=input_bound,
        vanishing_guaranteed=bound < 1 - _SLACK,
        explosion_possible=bound > 1 + _SLACK,
    )


def _extremes(
    layer: GatedLayer, input_bound: float
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The least and the largest pre-activation of every gate, and ‖w_h‖₁; each a tuple of [H], gate by gate."""
    count = layer.weight_hh.shape[0] // layer.hidden
    recurrent = layer.weight_hh.abs().sum(1)
    by_input = layer.weight_ih.abs().sum(1)
    # 0 · inf: a gate that no input reaches.
    reach = recurrent + torch.where(by_input == 0, 0.0, by_input * input_bound)
    bias = torch.zeros_like(reach)
    for each in (layer.bias_ih, layer.bias_hh):
        bias = bias if each is None else bias + each
    return (bias - reach).chunk(count), (bias + reach).chunk(count), recurrent.chunk(count)


def gru_bound(layer: GatedLayer, input_bound: float) -> float:
    """β of a GRU."""
    low, high, (w_r, w_z, w_n) = _extremes(layer, input_bound)
    bias_n = torch.zeros_like(w_n) if layer.bias_hh is None else layer.bias_hh.chunk(3)[2].abs()
    k = torch.sigmoid(high[0]) * w_n + (w_n + bias_n) * w_r / 4

    def row_sum(z: Tensor) -> Tensor:
        return z + (1 - z) * (k + 2 * z * w_z)

    # A parabola in z, open below: largest at its top, or at the end of the interval that is nearer to it.
    z_low, z_high = torch.sigmoid(low[1]), torch.sigmoid(high[1])
    top = torch.where(w_z > 0, (1 - k + 2 * w_z) / (4 * w_z), torch.where(k < 1, math.inf, -math.inf))
    return row_sum(torch.minimum(torch.maximum(top, z_low), z_high)).max().item()


def lstm_blocks(layer: GatedLayer, input_bound: float) -> Tensor:
    """A, [2, 2]: what no block of a Jacobian exceeds in the row-sum norm; inf where c has no bound."""
    _, high, (w_i, w_f, w_g, w_o) = _extremes(layer, input_bound)
    i, f, o = (torch.sigmoid(high[gate]) for gate in (0, 1, 3))
    C = i / torch.sigmoid(-high[1])
    k = w_i / 4 + torch.where(w_f == 0, 0.0, C * w_f) / 4 + i * w_g
    return torch.stack([torch.stack([(o * k + w_o / 4).max(), (o * f).max()]), torch.stack([k.max(), f.max()])])


def _lstm_bound(layer: GatedLayer, input_bound: float) -> float:
    A = lstm_blocks(layer, input_bound)
    return spectral_radius(A) if A.isfinite().all() else math.inf


def _verdict(found: GatedConditions) -> str:
    gate = {"GRU": "update gate z", "LSTM": "forget gate f"}[found.cell]
    inputs = "any input" if found.input_bound is None else f"inputs within ±{found.input_bound:g}"
    bound = f"β = {found.jacobian_bound:.4g}"
    if found.vanishing_guaranteed:
        return (
            f"Vanishing is guaranteed for {inputs}: the rows of every Jacobian allow a growth of at most {bound} < 1 per "
            "step (analysis/gated_guarantees.py)."
        )
    look = "Look at what it does on your data: jacobian_norms, lyapunov_spectrum."
    if found.input_bound is None:
        cannot = (
            f"The weights of a {found.cell} can't guarantee vanishing for every input, since one that drives its {gate} "
            "towards 1 keeps the error as it is; give input_bound for inputs of a known size."
        )
    else:
        cannot = f"Nor is vanishing guaranteed for {inputs}."
    if not found.explosion_possible:
        return f"Explosion is ruled out for {inputs}: {bound}, so components can't grow exponentially. {cannot} {look}"
    return (
        f"Explosion is not ruled out for {inputs}: {bound} > 1, the necessary condition; it is far from sufficient, since it "
        f"adds up absolute values. {cannot} {look}"
    )

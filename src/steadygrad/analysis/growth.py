"""Linear units: how an error grows on its way back through time, by the power iteration of the paper's supplement.

Column convention, as everywhere in this package: x_t = W_rec x_{t-1}, ∂x_t/∂x_k = W_rec^l with l = t − k, and the error
δ = ∂E_t/∂x_t is a row vector, so what arrives at step k is

    δ W_rec^l = Σ_i c_i λ_i^l p_i^T,    δ = Σ_i c_i p_i^T,    p_i^T W_rec = λ_i p_i^T   (left eigenvectors, ‖p_i‖ = 1)

The supplement writes ∂x_t/∂x_k as (W_rec^T)^l and so meets the same sum with q_i in place of p_i. The dominating index
j is the first, by falling |λ_i|, with c_j ≠ 0:

    ‖δ W_rec^l‖ ≈ |c_j| |λ_j|^l,   along p_j

What the paper leaves to the Jordan form is done with A = W_rec^T block by block. Eigenvalues whose eigenvectors are
parallel to working precision (a defective matrix has such) are merged into one block c: an orthonormal basis B_c [H, m]
of its invariant subspace, the m × m matrix A_c = B_c^H A B_c = λ_c I + N_c, and the error's part B_c y_c in it:

    A^l δ = Σ_c B_c A_c^l y_c,       ‖B_c A_c^l y_c‖ ~ |λ_c|^l l^degree,   degree the largest p with N_c^p y_c ≠ 0
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..checks import number, whole
from ..eigen import eigenpairs
from . import drawing
from .reading import finite, square_weight

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Eigenvalues closer than this many times their own rounding errors are one eigenvalue.
_MARGIN = 10
# Two moduli this close (relatively) can't be told apart in fewer than a million steps.
_SAME_MODULUS = 1e-8


@dataclass(frozen=True)
class LinearGrowth:
    """What `linear_growth` found.

    Attributes:
        eigenvalues: [m] complex, by falling modulus; one for each block, the mean of those that were merged.
        multiplicities: [m], how many eigenvalues each block holds.
        coefficients: [m], the norm of the error's part in each block: |c_i| for a simple eigenvalue.
        dominating: j, the first index whose coefficient is not zero; None for an error of zeros.
        rate: |λ_j|, the growth per step in the limit; 0.0 if nothing arrives after finitely many steps.
        degree: the norm grows like rate^l · l^degree; above 0 only for a defective λ_j. Found as far as rounding
            shows it: a lower bound for Jordan blocks of more than about five.
        directions: [H, d], an orthonormal real basis of the space that δ W_rec^l tends to: d = 1 for one real
            eigenvalue, 2 for a complex pair (an invariant plane) or for λ and −λ, more if more share the modulus.
        gap: the next smaller modulus that δ holds, over |λ_j|: `predict` errs by O(gap^l); 0.0 if there is none.
    """

    eigenvalues: Tensor
    multiplicities: Tensor
    coefficients: Tensor
    dominating: int | None
    rate: float
    degree: int
    directions: Tensor
    gap: float
    _leading: tuple[tuple[Tensor, Tensor, Tensor], ...]

    def plot(self, ax: Axes | None = None, *, lags: int = 50) -> Axes:
        """Draws `predict` for the lags 0 … `lags`; returns the Axes (a new one if `ax` is None)."""
        return drawing.linear_growth(self, ax, whole("lags", lags))

    def log_predict(self, lag: int) -> float:
        """log of `predict`, for lags where the norm itself leaves the range of floating point."""
        whole("lag", lag, low=0)
        if self.dominating is None or (self.rate == 0.0 and lag > self.degree):
            return -math.inf
        scale = self.rate or 1.0
        total = torch.zeros(self.directions.shape[0], dtype=torch.complex128)
        for basis, block, part in self._leading:
            total = total + basis @ (torch.linalg.matrix_power(block / scale, lag) @ part)
        norm = total.real.norm().item()
        return math.log(norm) + lag * math.log(scale) if norm > 0 else -math.inf

    def predict(self, lag: int) -> float:
        """‖δ W_rec^lag‖ by the terms of modulus |λ_j| alone: all of them, so that the beat of a complex pair and the
        polynomial factor of a defective eigenvalue are right at every lag, not only in the limit."""
        log_norm = self.log_predict(lag)
        return math.exp(log_norm) if log_norm < 709 else math.inf


@torch.no_grad()
def linear_growth(weight_hh: Tensor, error: Tensor, *, tolerance: float = 1e-9) -> LinearGrowth:
    """The rate, the direction and the polynomial factor at which a linear network carries an error back.

    Args:
        weight_hh: W_rec [H, H].
        error: δ = ∂E_t/∂x_t [H].
        tolerance: a part of the error below `tolerance` times its norm counts as zero.

    Returns:
        A `LinearGrowth`.

    Example:
        >>> W = torch.tensor([[0.9, 1.0], [0.0, 1.1]], dtype=torch.float64)
        >>> growth = linear_growth(W, torch.tensor([0.0, 1.0]))
        >>> round(growth.rate, 6), round(growth.predict(100) / 1.1**100, 6)
        (1.1, 1.0)
        >>> linear_growth(torch.tensor([[0.5, 1.0], [0.0, 0.5]]), torch.tensor([1.0, 0.0])).degree
        1

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "Analytical analysis of the exploding and vanishing
    gradients problem".
    """
    A = square_weight(weight_hh).T
    delta = _error(error, A.shape[0])
    number("tolerance", tolerance, low=0.0, high=1.0, open_low=True, open_high=True)
    blocks, parts = _decompose(A, delta)
    largest = torch.linalg.matrix_norm(A, 2).item()
    found = []
    for (eigenvalue, basis), part in zip(blocks, parts, strict=True):
        # What is left of a zero eigenvalue is rounding of A's size.
        eigenvalue = 0j if abs(eigenvalue) <= 1e-12 * largest else eigenvalue
        found.append((eigenvalue, basis, basis.mH @ A.to(basis.dtype) @ basis, part))
    found.sort(key=lambda block: -abs(block[0]))
    sizes = [part.norm().item() for *_, part in found]
    active = [i for i, size in enumerate(sizes) if size > tolerance * delta.norm().item()]
    rate = abs(found[active[0]][0]) if active else 0.0
    leading = [i for i in active if abs(found[i][0]) >= rate * (1 - _SAME_MODULUS)]
    others = [abs(found[i][0]) for i in active if i not in leading]
    degree, vectors = _limits([found[i] for i in leading], tolerance)
    return LinearGrowth(
        eigenvalues=torch.tensor([value for value, *_ in found], dtype=torch.complex128),
        multiplicities=torch.tensor([basis.shape[1] for _, basis, *_ in found]),
        coefficients=torch.tensor(sizes, dtype=torch.float64),
        dominating=active[0] if active else None,
        rate=rate,
        degree=degree,
        directions=_real_span(vectors, A.shape[0]),
        gap=others[0] / rate if others and rate > 0 else 0.0,
        _leading=tuple(found[i][1:] for i in leading),
    )


def _error(error: Tensor, hidden: int) -> Tensor:
    if not isinstance(error, Tensor):
        raise TypeError(f"error must be a torch.Tensor, not {type(error).__name__}")
    if list(error.shape) != [hidden]:
        raise ValueError(f"error must be [H] = [{hidden}], not {list(error.shape)}")
    return finite("error", error)


def _decompose(A: Tensor, delta: Tensor) -> tuple[list[tuple[complex, Tensor]], list[Tensor]]:
    """Blocks (λ_c, B_c) whose bases stand side by side in an invertible matrix, and y_c for each.

    An eigenvalue is known to within eps ‖A‖ κ, where κ, its condition, is the norm of the projection onto its
    eigenvector. A Jordan block of size m comes out as m eigenvalues some eps^(1/m) apart, and κ is then so large that
    each lies within the error of the next: such neighbours are merged, until none are left.
    """
    unit = sys.float_info.epsilon * torch.linalg.matrix_norm(A, 2)
    values, vectors = eigenpairs(A)
    spread = torch.linalg.svdvals(vectors)
    if spread[-1] <= 1e-13 * spread[0]:
        # An exact Jordan block has exactly parallel eigenvectors and an infinite κ. Noise of the size of rounding turns
        # it into the general case.
        noise = torch.randn(A.shape, generator=torch.Generator().manual_seed(0), dtype=A.dtype)
        A = A + unit * noise / len(A) ** 0.5
        values, vectors = eigenpairs(A)
    groups = [[i] for i in range(len(values))]
    bases = [vectors[:, [i]] for i in range(len(values))]
    while True:
        widths = [basis.shape[1] for basis in bases]
        inverse = torch.linalg.inv(torch.cat(bases, 1))
        kappa = torch.stack([torch.linalg.matrix_norm(rows) for rows in inverse.split(widths)])
        centres = torch.stack([values[group].mean() for group in groups])
        reach = _MARGIN * unit * kappa
        distance = (centres.unsqueeze(0) - centres.unsqueeze(1)).abs()
        merged = _components(distance <= torch.maximum(reach.unsqueeze(0), reach.unsqueeze(1)))
        if len(merged) == len(groups):
            break
        bases = [bases[c[0]] if len(c) == 1 else _invariant_subspace(A, values[_members(groups, c)]) for c in merged]
        groups = [_members(groups, c) for c in merged]
    parts = (inverse @ delta.to(inverse.dtype)).split(widths)
    return list(zip(centres.tolist(), bases, strict=True)), list(parts)


def _members(groups: list[list[int]], chosen: list[int]) -> list[int]:
    return [i for c in chosen for i in groups[c]]


def _components(linked: Tensor) -> list[list[int]]:
    """The connected components of a symmetric relation [n, n]."""
    label = torch.arange(len(linked))
    linked = linked | torch.eye(len(linked), dtype=torch.bool)
    for _ in range(len(linked)):
        label = torch.where(linked, label, len(linked)).amin(1)
    return [(label == root).nonzero().squeeze(1).tolist() for root in label.unique().tolist()]


def _invariant_subspace(A: Tensor, values: Tensor) -> Tensor:
    """An orthonormal basis [H, m] of the space in which Π (A − λ_i I) = 0."""
    H, m = A.shape[0], len(values)
    eye = torch.eye(H, dtype=values.dtype)
    if m == H:
        return eye
    product = eye
    for value in values:
        product = (A.to(values.dtype) - value * eye) @ product
        product = product / torch.linalg.matrix_norm(product)
    return torch.linalg.svd(product).Vh[-m:].mH


def _limits(leading: list[tuple[complex, Tensor, Tensor, Tensor]], tolerance: float) -> tuple[int, list[Tensor]]:
    """The degree of the polynomial factor, and for each eigenvalue that reaches it the vector B_c N_c^degree y_c."""
    degree, vectors = 0, []
    values: list[complex] = []
    for eigenvalue, basis, block, part in leading:
        N = block - eigenvalue * torch.eye(block.shape[0], dtype=block.dtype)
        size = torch.linalg.matrix_norm(N, 2)
        chain = [part]
        # A nilpotent part of the size of rounding is rounding.
        while len(chain) < len(block) and size > 1e-11 * torch.linalg.matrix_norm(block, 2):
            power = N @ chain[-1] / size
            if power.norm() <= tolerance * part.norm():
                break
            chain.append(power)
        if len(chain) - 1 > degree:
            degree, values, vectors = len(chain) - 1, [], []
        if len(chain) - 1 < degree:
            continue
        same = [i for i, value in enumerate(values) if abs(value - eigenvalue) <= _SAME_MODULUS * abs(eigenvalue)]
        if same:
            vectors[same[0]] = vectors[same[0]] + basis @ chain[-1] * size ** (len(chain) - 1)
        else:
            values.append(eigenvalue)
            vectors.append(basis @ chain[-1] * size ** (len(chain) - 1))
    return degree, vectors


def _real_span(vectors: list[Tensor], hidden: int) -> Tensor:
    """An orthonormal basis of the real and imaginary parts of the vectors, without those that rounding added."""
    if not vectors:
        return torch.zeros(hidden, 0, dtype=torch.float64)
    columns = torch.stack([part for vector in vectors for part in (vector.real, vector.imag)], 1)
    U, sizes, _ = torch.linalg.svd(columns, full_matrices=False)
    return U[:, sizes > 1e-6 * sizes[0]]

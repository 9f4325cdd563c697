"""Long products of matrices whose entries would over- or underflow, kept as N · diag(e^d) · T.

    P_l = A_l ⋯ A_2 A_1      [H, H]
        = N · diag(e^d) · T        N [H, r],  d [r],  T [r, H],   r ≥ rank(P_l)

After `refactor`, N = Q has orthonormal columns (a QR factorisation whose columns are first sorted by size), d holds the
scales in falling order, as logarithms, and every row of T has largest entry 1. Multiplying from the left changes only
N, and a QR factorisation commutes with the column scales e^d: no number of the size of P_l is ever formed, and
directions of very different growth do not drown each other. A row of N that is exactly zero (a dead relu unit) is left
out of the factorisation, so that a loss of rank is exact and rounding cannot bring the direction back to life.

‖P_l‖ is *exact at every l* in the sense of floating point: it is the norm of a product whose factors are changed by
rounding. It is not the running sum of log|R_ii|, which agrees with it only in the limit l → ∞ (that sum is what
`lyapunov_spectrum` needs). The smallest singular value of P is 1/‖P⁻¹‖: a second product, of the inverses.

This is the stabilised product of determinant quantum Monte Carlo (Loh et al. 1989; the sorting: Tomás et al. 2012).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Terms below e^-45 ≈ 3e-20 of the largest are beyond float64's 1e-16, with room for the H of them that may add up.
NEGLIGIBLE = -45.0
DUST = 1e-60


class ScaledProduct:
    """A growing product of H × H matrices that starts as the identity.

    Example:
        >>> product = ScaledProduct(2)
        >>> for _ in range(1000):
        ...     product.multiply(torch.tensor([[0.0, 3.0], [1e-3, 0.0]], dtype=torch.float64))
        ...     product.refactor()
        >>> round(product.log_norm(), 6) == round(500 * math.log(3e-3), 6)
        True
    """

    def __init__(self, size: int) -> None:
        self.N = torch.eye(size, dtype=torch.float64)
        self.d = torch.zeros(size, dtype=torch.float64)
        self.T = torch.eye(size, dtype=torch.float64)
        self._orthonormal = True

    def multiply(self, matrix: Tensor) -> None:
        """P ← matrix · P, with matrix [H, H]."""
        self.N = matrix @ self.N
        self._orthonormal = False

    def scale_rows(self, scales: Tensor, log_scale: float = 0.0) -> None:
        """P ← e^log_scale · diag(scales) · P, with scales [H]."""
        self.N = scales.unsqueeze(1) * self.N
        self.d = self.d + log_scale
        self._orthonormal = False

    def refactor(self) -> None:
        """Make the columns of N orthonormal again; drop what has become exactly zero."""
        N, alive = self.N, self.N.ne(0).any(1)
        order = torch.argsort(N.abs().amax(0).log() + self.d, descending=True)
        d = self.d[order]
        Q, R = torch.linalg.qr((N if alive.all() else N[alive])[:, order])
        # The sorting bounds |R_ij| e^(d_j − d_i) by column i of N. So only entries that are exactly zero meet the upper
        # clamp, where 0 · inf would be NaN; the lower one avoids subnormal numbers, which slow a processor.
        gap = d - d[: R.shape[0]].unsqueeze(1)
        T = (R * gap.clamp(-200.0, 700.0).exp()) @ self.T[order]
        d, largest = d[: R.shape[0]], T.abs().amax(1)
        kept = largest > 0
        if not kept.all():
            Q, T, d, largest = Q[:, kept], T[kept], d[kept], largest[kept]
        T = T / largest.unsqueeze(1)
        self.T = torch.where(T.abs() < DUST, 0.0, T)
        self.d = d + largest.log()
        self.N = Q if len(Q) == len(N) else N.new_zeros(len(N), Q.shape[1]).index_put((alive,), Q)
        self._orthonormal = True

    def log_norm(self) -> float:
        """log ‖P‖₂; −inf once the product is exactly zero."""
        if self.d.numel() == 0:
            return -math.inf
        top = self.d.max()
        near = self.d > top + NEGLIGIBLE
        S = (self.d[near] - top).exp().unsqueeze(1) * self.T[near]
        if not self._orthonormal:
            S = self.N[:, near] @ S
        squared = torch.linalg.eigvalsh(S @ S.T)[-1].item()
        return top.item() + 0.5 * math.log(squared) if squared > 0 else -math.inf

"""Eigenvalues of a general real matrix, by numpy.

    A p_i = λ_i p_i        A [n, n],  λ [n] complex,  p_i the columns of [n, n] complex, ‖p_i‖ = 1

Not by torch: with the LAPACK of its CPU builds, torch.linalg.eig and eigvals fail to converge on many matrices of low
rank (recurrent weights that store a few patterns are such), and have been seen to corrupt memory on them. numpy's
LAPACK converges on the same matrices.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def eigenvalues(A: Tensor) -> Tensor:
    """λ [n], complex, in no particular order.

    >>> sorted(eigenvalues(torch.tensor([[2.0, 1.0], [0.0, 3.0]])).real.tolist())
    [2.0, 3.0]
    """
    return torch.from_numpy(np.linalg.eigvals(A.double().numpy())).to(torch.complex128)


def eigenpairs(A: Tensor) -> tuple[Tensor, Tensor]:
    """λ [n] and the eigenvectors as columns [n, n], both complex."""
    values, vectors = np.linalg.eig(A.double().numpy())
    return torch.from_numpy(values).to(torch.complex128), torch.from_numpy(vectors).to(torch.complex128)


def spectral_radius(A: Tensor) -> float:
    """ρ(A), the largest |λ_i|."""
    return eigenvalues(A).abs().max().item()

"""The slope σ' from the pre-activation x, to full relative precision in the tails; σ and γ are the core's.

    σ'(x):   tanh 4q²/(1 + q²)²,   sigmoid q/(1 + q)²,   relu [x > 0],   identity 1,        with q = exp(−|x|)

Training takes σ' from h = σ(x), where it is at hand. But 1 − h² is rounded to 0 once |x| > 19, while the slope itself
is 4 exp(−2|x|): small, not zero. It decides how small the smallest singular value of a product of Jacobians is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..recurrence.nonlinearity import get


def largest_slope(nonlinearity: str) -> float:
    """γ = max |σ'(x)| (Pascanu et al. 2013, section 2.1), or one sentence that names the nonlinearities there are.

    >>> largest_slope("sigmoid")
    0.25
    """
    return get(nonlinearity).bound


def sigma(x: Tensor, nonlinearity: str) -> Tensor:
    """h = σ(x)."""
    return get(nonlinearity).value(x)


def slope(x: Tensor, nonlinearity: str) -> Tensor:
    """σ'(x); relu's at 0 is 0, as autograd has it.

    >>> f"{slope(torch.tensor(30.0, dtype=torch.float64), 'tanh').item():.3e}"
    '3.503e-26'
    """
    if nonlinearity == "tanh":
        decay = torch.exp(-2 * x.abs())
        return 4 * decay / (1 + decay) ** 2
    if nonlinearity == "relu":
        return (x > 0).to(x.dtype)
    if nonlinearity == "sigmoid":
        decay = torch.exp(-x.abs())
        return decay / (1 + decay) ** 2
    return torch.ones_like(x)

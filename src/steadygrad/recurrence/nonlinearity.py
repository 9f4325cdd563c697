"""The nonlinearities σ, their derivatives σ' as functions of the value h = σ(x), and the bound γ ≥ |σ'|.

| name     | σ(x)          | σ' by h   | γ   |
|----------|---------------|-----------|-----|
| tanh     | tanh x        | 1 − h²    | 1   |
| relu     | max(x, 0)     | [h > 0]   | 1   |
| sigmoid  | 1 / (1 + e⁻ˣ) | h (1 − h) | 1/4 |
| identity | x             | 1         | 1   |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..checks import one_of


@dataclass(frozen=True)
class Nonlinearity:
    """One σ. `value_` works in place; `slope` takes h = σ(x), not x, and may write into `out`."""

    name: str
    value: Callable[[Tensor], Tensor]
    value_: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    bound: float
    range: tuple[float, float]


def _positive(h: Tensor) -> Tensor:
    return (h > 0).to(h.dtype)


def _same(x: Tensor) -> Tensor:
    return x


NONLINEARITIES = {
    each.name: each
    for each in (
        Nonlinearity(
            "tanh", torch.tanh, torch.tanh_, lambda h: torch.addcmul(h.new_ones(()), h, h, value=-1), 1.0, (-1, 1)
        ),
        Nonlinearity("relu", torch.relu, torch.relu_, _positive, 1.0, (0, math.inf)),
        Nonlinearity(
            "sigmoid", torch.sigmoid, torch.sigmoid_, lambda h: torch.addcmul(h, h, h, value=-1), 0.25, (0, 1)
        ),
        Nonlinearity("identity", _same, _same, torch.ones_like, 1.0, (-math.inf, math.inf)),
    )
}


def get(name: str) -> Nonlinearity:
    """The nonlinearity of that name.

    >>> get("sigmoid").bound
    0.25
    """
    return NONLINEARITIES[one_of("nonlinearity", name, NONLINEARITIES)]

"""L1 and L2 penalties on the recurrent weights: their value, and their derivative added to the gradient.

    L1:  P = λ Σ_W Σ_ij |W_ij|         ∂P/∂W = λ sign(W)         (0 where W_ij = 0)
    L2:  P = λ Σ_W Σ_ij W_ij²          ∂P/∂W = 2 λ W             (so torch's weight_decay d is λ = d/2)

over every recurrent matrix W of a module: each parameter whose name begins with weight_hh (of GRU and LSTM: all gates). Call
after `loss.backward()` and before clipping and `optimizer.step()`:

    loss.backward()
    penalty.add_l2(model, 1e-3)
    optimizer.step()

A penalty strong enough to keep the spectral radius ρ(W) < 1 keeps gradients from exploding, and makes what is in the state die
out exponentially (Pascanu et al. 2013, section 3.1; forgetting.py shows it). `radii` tracks ρ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from .. import checks
from ..eigen import spectral_radius
from ..init.matrices import layers


def add_l1(module: nn.Module, strength: float) -> Tensor:
    """Add λ sign(W) to the gradient of every recurrent matrix, and return λ Σ |W|.

    Args:
        module: a recurrent layer, or anything that contains one. Frozen matrices count neither in the value nor otherwise.
        strength: λ, at least 0.

    Returns:
        The value of the penalty, a scalar without a graph: the loss that was minimised is the data's plus this.

    Example:
        >>> rnn = torch.nn.RNN(2, 3)
        >>> rnn(torch.ones(4, 1, 2))[0].sum().backward()
        >>> before = rnn.weight_hh_l0.grad.clone()
        >>> value = add_l1(rnn, 0.1)
        >>> torch.equal(rnn.weight_hh_l0.grad, before + 0.1 * rnn.weight_hh_l0.sign())
        True
    """
    return _add(module, strength, torch.sign, torch.abs, 1.0)


def add_l2(module: nn.Module, strength: float) -> Tensor:
    """Add 2 λ W to the gradient of every recurrent matrix, and return λ Σ W².

    Args:
        module: a recurrent layer, or anything that contains one. Frozen matrices count neither in the value nor otherwise.
        strength: λ, at least 0.

    Returns:
        The value of the penalty, a scalar without a graph.
    """
    return _add(module, strength, Tensor.clone, torch.square, 2.0)


@torch.no_grad()
def radii(module: nn.Module) -> dict[str, float]:
    """ρ of every square recurrent matrix, by the name of its parameter; gated layers have none.

    >>> list(radii(torch.nn.Sequential(torch.nn.RNN(2, 3), torch.nn.GRU(3, 3))))
    ['0.weight_hh_l0']
    """
    square = [(name, W) for name, W in _recurrent(module) if W.shape[0] == W.shape[1]]
    return {name: spectral_radius(W.detach().cpu()) for name, W in square}


@torch.no_grad()
def _add(
    module: nn.Module,
    strength: float,
    slope: Callable[[Tensor], Tensor],
    value: Callable[[Tensor], Tensor],
    factor: float,
) -> Tensor:
    strength = checks.number("strength", strength, low=0)
    found = [W for _, W in _recurrent(module) if W.requires_grad]
    if not found:
        raise ValueError("module must have a recurrent matrix that is trained, and every weight_hh of it is frozen")
    total = found[0].new_zeros((), dtype=torch.float64)
    for W in found:
        total += strength * value(W.detach()).sum(dtype=torch.float64).to(total.device)
        if strength > 0:
            added = factor * strength * slope(W.detach())
            W.grad = added if W.grad is None else W.grad.add_(added)
    return total


def _recurrent(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Every recurrent matrix of a module, once, with its full name."""
    for _ in layers(module):  # refuses what is no module, and parametrized layers, whose matrix is no parameter
        pass
    found = [(name, p) for name, p in module.named_parameters() if name.rpartition(".")[2].startswith("weight_hh")]
    if not found:
        raise ValueError(
            f"module must hold a recurrent layer (a parameter weight_hh…): {type(module).__name__} has none"
        )
    yield from found

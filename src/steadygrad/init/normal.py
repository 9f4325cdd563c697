"""Weights drawn from normal distributions: the initialisations of the paper and of its authors' program."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Generator, nn

from steadygrad import checks
from steadygrad.eigen import spectral_radius

from .matrices import Module, layers, orthogonal_, plain_only, recurrent_matrices

CONNECTIONS = 15
RADIUS = 0.95
MEMORY = 0.05


def normal_(module: Module, std: float, *, generator: Generator | None = None) -> Module:
    """Draw all weights of recurrent and Linear layers from N(0, std²) and set their biases to 0.

    Gated layers: the weights of every gate, and all biases 0, also the forget gate's: gates begin half open. `remember_` or
    `chrono_` afterwards opens them.

    Args:
      module: a recurrent layer, a Linear, or anything that contains some.
      std: the standard deviation, above 0.
      generator: the source of randomness; torch's global one if None.

    Returns:
      The same module.

    Example:
      >>> layer = normal_(torch.nn.RNN(2, 3), std=0.1)
      >>> layer.bias_hh_l0.tolist()
      [0.0, 0.0, 0.0]
    """
    checks.number("std", std, low=0, open_low=True)
    found = list(layers(module))
    if not found:
        raise ValueError(f"module must hold a recurrent or a Linear layer, and {type(module).__name__} holds neither")
    with torch.no_grad():
        for layer in found:
            for name, parameter in layer.named_parameters(recurse=False):
                if name.startswith("bias"):
                    parameter.zero_()
                elif name.startswith("weight"):
                    parameter.normal_(0.0, std, generator=generator)
    return module


def basic_tanh_(module: Module, *, generator: Generator | None = None) -> Module:
    """All weights from N(0, 0.1²), biases 0: what the paper trains its tanh networks from.

    Gated layers: as `normal_` says.

    Args:
      module: a recurrent layer, a Linear, or anything that contains some.
      generator: the source of randomness; torch's global one if None.

    Returns:
      The same module.

    Example:
      >>> layer = basic_tanh_(torch.nn.RNN(2, 3))

    Reference: Pascanu, Mikolov & Bengio 2013, appendix, "The temporal order problem".
    """
    return normal_(module, 0.1, generator=generator)


def sigmoid_(module: Module, *, generator: Generator | None = None) -> Module:
    """All weights from N(0, 0.01²), biases 0: what the authors' program trains sigmoid networks from.

    Gated layers: as `normal_` says.

    Args:
      module: a recurrent layer, a Linear, or anything that contains some.
      generator: the source of randomness; torch's global one if None.

    Returns:
      The same module.

    Example:
      >>> layer = sigmoid_(torch.nn.RNN(2, 3))

    Reference: the program of Pascanu, Mikolov & Bengio 2013 (pascanur/trainingRNNs), init "sigmoid".
    """
    return normal_(module, 0.01, generator=generator)


def smart_tanh_(
    module: Module,
    *,
    connections: Literal["incoming", "outgoing"] = "incoming",
    generator: Generator | None = None,
) -> Module:
    """All weights from N(0, 0.01²), biases 0; W_hh made sparse and scaled to spectral radius 0.95.

        W_hh: 15 entries of each row kept (all, if there are fewer), the others 0;    W_hh ← 0.95 W_hh / ρ(W_hh)

    weight_hh is [to, from]: its row i holds what unit i receives. The authors' program stores [from, to] and keeps 15
    entries of each of *its* rows: what a unit sends. connections="outgoing" does that, by columns of weight_hh.
    The eigenvalues have the same distribution either way. Gated layers are refused.

    Args:
      module: a recurrent layer, or anything that contains one (and perhaps Linear layers).
      connections: whether each unit keeps 15 incoming (rows) or 15 outgoing (columns) recurrent weights.
      generator: the source of randomness; torch's global one if None.

    Returns:
      The same module.

    Example:
      >>> layer = smart_tanh_(torch.nn.RNN(2, 20))
      >>> (layer.weight_hh_l0 != 0).sum(1).unique().tolist()
      [15]

    Reference: the program of Pascanu, Mikolov & Bengio 2013 (pascanur/trainingRNNs), init "smart_tanh".
    """
    across = checks.one_of("connections", connections, ("incoming", "outgoing")) == "outgoing"
    plain_only("smart_tanh_", "a gate's matrix has no spectral radius of its own", module)
    recurrent = recurrent_matrices(module)
    normal_(module, 0.01, generator=generator)
    with torch.no_grad():
        for W in recurrent:
            for row in W.T if across else W:
                order = torch.randperm(len(row), generator=generator, device=W.device)
                row[order[CONNECTIONS:]] = 0.0
            # float64, so that float32 weights miss 0.95 by their own rounding alone
            ρ = spectral_radius(W.cpu())
            W.copy_(W.double() * (RADIUS / ρ))
    return module


def input_driven_(module: Module, *, generator: Generator | None = None) -> Module:
    """W_in from N(0, 1/γ²), W_hh ← 0.05 Q with a random orthogonal Q; other weights from N(0, 0.1²), biases 0.

    γ is 1/4 for a layer whose `nonlinearity` is "sigmoid", 1 for every other. A state is at first a random code of its own
    input, told apart at a glance, and memory is learned from there. For inputs that are one of many symbols, such as the
    characters of a text: with small W_in their traces of many steps lie in one another's way. Gated layers are refused.

    Args:
      module: a recurrent layer, or anything that contains one (and perhaps Linear layers).
      generator: the source of randomness; torch's global one if None.

    Returns:
      The same module.

    Example:
      >>> layer = input_driven_(torch.nn.RNN(2, 3))
      >>> (torch.linalg.svdvals(layer.weight_hh_l0.detach()) / 0.05).round(decimals=4).tolist()
      [1.0, 1.0, 1.0]
    """
    plain_only("input_driven_", "gates driven by such inputs would be shut or open for good", module)
    orthogonal_(normal_(module, 0.1, generator=generator), MEMORY, generator=generator)
    with torch.no_grad():
        for layer in layers(module):
            for name, parameter in layer.named_parameters(recurse=False):
                if name.startswith("weight_ih"):
                    parameter.normal_(0.0, 1.0 / _steepest(layer), generator=generator)
    return module


def _steepest(layer: nn.Module) -> float:
    """γ, the steepest slope of the layer's nonlinearity."""
    return 0.25 if getattr(layer, "nonlinearity", None) == "sigmoid" else 1.0

"""Recurrent matrices of a known shape: orthogonal, the identity, a cycle."""

from __future__ import annotations

import torch
from torch import Generator, nn

from steadygrad import checks

from .found import Module, layers, plain_only, recurrent_matrices


def orthogonal_(module: Module, gain: float = 1.0, *, generator: Generator | None = None) -> Module:
    """W_hh ← gain · Q with a random orthogonal Q. Input weights, biases and Linear layers keep what they have.

    All singular values of W_hh are then `gain`: with 1, a linear network keeps every gradient's norm.

    Gated layers: each gate's [H, H] gets a Q of its own; biases, also the forget gate's, stay.

    Args:
      module: a recurrent layer, or anything that contains one.
      gain: the singular value, above 0.
      generator: the source of randomness; torch's global one if None.

    Returns:
      The same module.

    Example:
      >>> layer = orthogonal_(torch.nn.RNN(2, 3))
      >>> torch.linalg.svdvals(layer.weight_hh_l0.detach()).round(decimals=4).tolist()
      [1.0, 1.0, 1.0]
    """
    checks.number("gain", gain, low=0, open_low=True)
    for W in recurrent_matrices(module):
        nn.init.orthogonal_(W, gain, generator)
    return module


def identity_(module: Module, scale: float = 1.0, *, generator: Generator | None = None) -> Module:
    """W_hh ← scale · I. Input weights, biases and Linear layers keep what they have.

    Gated layers: each gate's [H, H] becomes scale · I; biases, also the forget gate's, stay.

    Args:
      module: a recurrent layer, or anything that contains one.
      scale: the number on the diagonal, above 0.
      generator: nothing is drawn; it is there so that all initialisations are called alike.

    Returns:
      The same module.

    Example:
      >>> layer = identity_(torch.nn.RNN(2, 2), scale=0.5)
      >>> layer.weight_hh_l0.tolist()
      [[0.5, 0.0], [0.0, 0.5]]

    Reference: Le, Jaitly & Hinton 2015, "A simple way to initialize recurrent networks of rectified linear units".
    """
    checks.number("scale", scale, low=0, open_low=True)
    with torch.no_grad():
        for W in recurrent_matrices(module):
            W.copy_(scale * torch.eye(len(W), dtype=W.dtype, device=W.device))
    return module


def hold_(module: Module, *, generator: Generator | None = None) -> Module:
    """W_hh ← I, W_in from U(0, 1/√H), biases 0. Linear layers keep what they have.

    Nothing in the state is ever below 0: rectified units (nonlinearity="relu") are linear then, forget nothing, and keep
    every gradient's norm, however long the sequence. Gated layers are refused: their gates are never linear.

    Args:
      module: a recurrent layer, or anything that contains one.
      generator: the source of randomness; torch's global one if None.

    Returns:
      The same module.

    Example:
      >>> layer = hold_(torch.nn.RNN(2, 2, nonlinearity="relu"))
      >>> layer.weight_hh_l0.tolist(), layer.weight_ih_l0.min().item() >= 0
      ([[1.0, 0.0], [0.0, 1.0]], True)
    """
    plain_only("hold_", "gates are never linear", module)
    return _from_above(identity_(module), generator)


def cycle_(module: Module, *, generator: Generator | None = None) -> Module:
    """W_hh e_i ← e_{i+1}, round a cycle of all H units; W_in from U(0, 1/√H), biases 0. Linear layers keep what they have.

    A conveyor belt: every step moves the whole state on by one unit, and as with `hold_` rectified units lose nothing of it.
    What came L steps ago stands L units further on, where a readout finds it: for what is to be repeated after a known time.
    Gated layers are refused: their gates are never linear.

    Args:
      module: a recurrent layer, or anything that contains one.
      generator: the source of randomness; torch's global one if None.

    Returns:
      The same module.

    Example:
      >>> layer = cycle_(torch.nn.RNN(2, 3, nonlinearity="relu"))
      >>> layer.weight_hh_l0.tolist()
      [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]

    Reference: Henaff, Szlam & LeCun 2016, "Recurrent orthogonal networks and long-memory tasks", for the cycle.
    """
    plain_only("cycle_", "gates are never linear", module)
    for W in recurrent_matrices(identity_(module)):
        W.copy_(W.roll(1, 0))
    return _from_above(module, generator)


def _from_above(module: Module, generator: Generator | None) -> Module:
    """W_in from U(0, 1/√H), the upper half of torch's own, and biases 0, in all recurrent layers."""
    with torch.no_grad():
        for layer in layers(module):
            if isinstance(layer, nn.Linear):
                continue
            for name, parameter in layer.named_parameters(recurse=False):
                if name.startswith("bias"):
                    parameter.zero_()
                elif name.startswith("weight_ih"):
                    width = layer.get_parameter(name.replace("_ih", "_hh")).shape[1]
                    parameter.uniform_(0.0, width**-0.5, generator=generator)
    return module

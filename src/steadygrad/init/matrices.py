"""Recurrent matrices of a known shape (orthogonal, the identity, a cycle) or spectral radius, and where a module has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor, nn

from steadygrad import checks
from steadygrad.eigen import spectral_radius

Module = TypeVar("Module", bound=nn.Module)


def layers(module: nn.Module) -> Iterator[nn.Module]:
    """The recurrent and Linear layers in `module`, itself included."""
    if not isinstance(module, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"module must be a torch.nn.Module, not {type(module).__name__}")
    for layer in module.modules():
        names = [name for name, _ in layer.named_parameters(recurse=False)]
        parametrizations: Any = getattr(layer, "parametrizations", ())
        computed: list[str] = list(parametrizations)
        if isinstance(layer, nn.Linear) or any(name.startswith("weight_hh") for name in [*names, *computed]):
            if computed:
                raise ValueError(
                    f"module must hold its weights as plain parameters, but those of its {type(layer).__name__} are "
                    f"parametrized ({', '.join(computed)}): initialise it before that"
                )
            yield layer


def gates_of(layer: nn.Module) -> str | None:
    """'GRU' or 'LSTM' where the layer has gates in torch's order, None where it has none."""
    mode: Any = getattr(layer, "mode", None)
    if mode in ("GRU", "LSTM"):
        return mode
    return "GRU" if isinstance(layer, nn.GRUCell) else "LSTM" if isinstance(layer, nn.LSTMCell) else None


def plain_only(function: str, why: str, module: nn.Module) -> None:
    """Refuses gated layers, and modules without a recurrent one, before anything is written."""
    recurrent_matrices(module)
    for layer in layers(module):
        for name, parameter in layer.named_parameters(recurse=False):
            if name.startswith("weight_hh") and parameter.shape[0] != parameter.shape[1]:
                raise ValueError(
                    f"{function} is for layers without gates ({why}), and module holds a {type(layer).__name__}: "
                    "orthogonal_, remember_ and chrono_ are for gated layers"
                )


def recurrent_matrices(module: nn.Module) -> list[Tensor]:
    """Every square recurrent matrix W_hh [H, H] in `module`, as a view of its parameter: one a layer, or one a gate."""
    found: list[Tensor] = []
    for layer in layers(module):
        for name, parameter in layer.named_parameters(recurse=False):
            if name.startswith("weight_hh"):
                rows, columns = parameter.shape
                if rows % columns or getattr(layer, "proj_size", 0):
                    raise ValueError(
                        f"module must have square recurrent matrices, or gates of them one upon another, but {name} of "
                        f"its {type(layer).__name__} is {rows}x{columns}"
                    )
                found.extend(parameter.detach().view(-1, columns, columns).unbind())
    if not found:
        raise ValueError(
            f"module must hold a recurrent layer (a parameter weight_hh…): {type(module).__name__} has none"
        )
    return found


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


def spectral_(module: Module, radius: float, *, generator: Generator | None = None) -> Module:
    """W_hh ← radius · W_hh / ρ(W_hh). Input weights, biases and Linear layers keep what they have.

    ρ is the largest |eigenvalue|. With a radius below 1 a linear network forgets exponentially; with one above 1 a plain tanh
    network begins with states that do not die out. Only the scale changes: draw the weights first, by any other
    initialisation. Gated layers are refused.

    Args:
      module: a recurrent layer, or anything that contains one.
      radius: the spectral radius, above 0.
      generator: nothing is drawn; it is there so that all initialisations are called alike.

    Returns:
      The same module.

    Example:
      >>> layer = spectral_(torch.nn.RNN(2, 3), 1.1)
      >>> round(spectral_radius(layer.weight_hh_l0.detach()), 5)
      1.1

    Reference: Doya 1993 (start in the regime that the target needs); Jaeger 2001, for ρ as the setting.
    """
    radius = checks.number("radius", radius, low=0, open_low=True)
    plain_only("spectral_", "a gate's matrix has no spectral radius of its own", module)
    found = recurrent_matrices(module)
    factors: list[float] = []
    for W in found:
        if not bool(W.isfinite().all()):
            raise ValueError("module must have finite recurrent weights, and a weight_hh of it holds inf or NaN")
        ρ = spectral_radius(W.cpu())
        # Rounding gives a nilpotent matrix eigenvalues of about eps^(1/H), so only exact zeros are surely told apart.
        if ρ == 0:
            raise ValueError("module must have recurrent matrices of a spectral radius above 0, and that of one is 0")
        factors.append(radius / ρ)
    with torch.no_grad():
        for matrix, factor in zip(found, factors, strict=True):
            matrix.copy_(
                matrix.double() * factor
            )  # in float64, so that float32 weights miss it by their own rounding alone
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

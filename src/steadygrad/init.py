"""The initialisations of the paper and of its authors' program, in place.

    basic_tanh   all weights N(0, 0.1²), biases 0       (Pascanu et al. 2013, appendix: the temporal order problem)
    sigmoid      all weights N(0, 0.01²), biases 0
    smart_tanh   as sigmoid; then each unit keeps 15 recurrent weights, and W_hh ← 0.95 W_hh / ρ(W_hh)
    orthogonal   W_hh ← gain · Q,   QᵀQ = I
    identity     W_hh ← scale · I
    hold         W_hh ← I,               W_in from U(0, 1/√H), biases 0
    cycle        W_hh e_i ← e_{i+1},     W_in from U(0, 1/√H), biases 0
    input_driven W_in from N(0, 1/γ²), W_hh ← 0.05 Q,   QᵀQ = I; the other weights N(0, 0.1²), biases 0

ρ is the spectral radius, γ the steepest slope of the layer's nonlinearity (sigmoid: 1/4; others: 1). "All weights" are
those of recurrent layers (weight_ih…, weight_hh…: `steadygrad.RNN`, `torch.nn.RNN`, any module with parameters of those
names) and of `torch.nn.Linear` layers, wherever they sit in the module: the program drew its readout W_hy from the same
distribution. Other layers are left alone. Where weight_hh stacks gates (`torch.nn.GRU`, `torch.nn.LSTM`, shape [3H, H] or
[4H, H]), "W_hh" is each gate's [H, H] in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Protocol, TypeVar

import torch
from torch import Generator, Tensor, nn

from steadygrad import checks
from steadygrad.eigen import spectral_radius

CONNECTIONS = 15
RADIUS = 0.95
MEMORY = 0.05

Module = TypeVar("Module", bound=nn.Module)


class Initialisation(Protocol):
    """What `get` returns: a function that fills a module in place and returns it."""

    def __call__(self, module: Module, *, generator: Generator | None = None) -> Module: ...


def normal_(module: Module, std: float, *, generator: Generator | None = None) -> Module:
    """Draw all weights of recurrent and Linear layers from N(0, std²) and set their biases to 0.

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
    layers = list(_layers(module))
    if not layers:
        raise ValueError(f"module must hold a recurrent or a Linear layer, and {type(module).__name__} holds neither")
    with torch.no_grad():
        for layer in layers:
            for name, parameter in layer.named_parameters(recurse=False):
                if name.startswith("bias"):
                    parameter.zero_()
                elif name.startswith("weight"):
                    parameter.normal_(0.0, std, generator=generator)
    return module


def basic_tanh_(module: Module, *, generator: Generator | None = None) -> Module:
    """All weights from N(0, 0.1²), biases 0: what the paper trains its tanh networks from.

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
    The eigenvalues have the same distribution either way.

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
    recurrent = _recurrent(module)
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


def orthogonal_(module: Module, gain: float = 1.0, *, generator: Generator | None = None) -> Module:
    """W_hh ← gain · Q with a random orthogonal Q. Input weights, biases and Linear layers keep what they have.

    All singular values of W_hh are then `gain`: with 1, a linear network keeps every gradient's norm.

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
    for W in _recurrent(module):
        nn.init.orthogonal_(W, gain, generator)
    return module


def identity_(module: Module, scale: float = 1.0, *, generator: Generator | None = None) -> Module:
    """W_hh ← scale · I. Input weights, biases and Linear layers keep what they have.

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
        for W in _recurrent(module):
            W.copy_(scale * torch.eye(len(W), dtype=W.dtype, device=W.device))
    return module


def hold_(module: Module, *, generator: Generator | None = None) -> Module:
    """W_hh ← I, W_in from U(0, 1/√H), biases 0. Linear layers keep what they have.

    Nothing in the state is ever below 0: rectified units (nonlinearity="relu") are linear then, forget nothing, and keep
    every gradient's norm, however long the sequence.

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
    return _from_above(identity_(module), generator)


def cycle_(module: Module, *, generator: Generator | None = None) -> Module:
    """W_hh e_i ← e_{i+1}, round a cycle of all H units; W_in from U(0, 1/√H), biases 0. Linear layers keep what they have.

    A conveyor belt: every step moves the whole state on by one unit, and as with `hold_` rectified units lose nothing of it.
    What came L steps ago stands L units further on, where a readout finds it: for what is to be repeated after a known time.

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
    for W in _recurrent(identity_(module)):
        W.copy_(W.roll(1, 0))
    return _from_above(module, generator)


def input_driven_(module: Module, *, generator: Generator | None = None) -> Module:
    """W_in from N(0, 1/γ²), W_hh ← 0.05 Q with a random orthogonal Q; other weights from N(0, 0.1²), biases 0.

    γ is 1/4 for a layer whose `nonlinearity` is "sigmoid", 1 for every other. A state is at first a random code of its own
    input, told apart at a glance, and memory is learned from there. For inputs that are one of many symbols, such as the
    characters of a text: with small W_in their traces of many steps lie in one another's way.

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
    _recurrent(module)  # a module that has none is refused before anything is written
    orthogonal_(normal_(module, 0.1, generator=generator), MEMORY, generator=generator)
    with torch.no_grad():
        for layer in _layers(module):
            for name, parameter in layer.named_parameters(recurse=False):
                if name.startswith("weight_ih"):
                    parameter.normal_(0.0, 1.0 / _steepest(layer), generator=generator)
    return module


REGISTRY: dict[str, Initialisation] = {
    "basic_tanh": basic_tanh_,
    "smart_tanh": smart_tanh_,
    "sigmoid": sigmoid_,
    "orthogonal": orthogonal_,
    "identity": identity_,
    "hold": hold_,
    "cycle": cycle_,
    "input_driven": input_driven_,
}


OF_RECURRENT_LAYERS = frozenset({"orthogonal", "identity", "hold", "cycle"})
"""Those that leave all other weights as they are: whoever wants these drawn from a seed draws them first."""


def get(name: str) -> Initialisation:
    """The initialisation of that name.

    >>> get("smart-tanh")
    Traceback (most recent call last):
    ValueError: name must be one of 'basic_tanh', ..., not 'smart-tanh' (did you mean 'smart_tanh'?)
    """
    return REGISTRY[checks.one_of("name", name, REGISTRY)]


def _layers(module: nn.Module) -> Iterator[nn.Module]:
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


def _from_above(module: Module, generator: Generator | None) -> Module:
    """W_in from U(0, 1/√H), the upper half of torch's own, and biases 0, in all recurrent layers."""
    with torch.no_grad():
        for layer in _layers(module):
            if isinstance(layer, nn.Linear):
                continue
            for name, parameter in layer.named_parameters(recurse=False):
                if name.startswith("bias"):
                    parameter.zero_()
                elif name.startswith("weight_ih"):
                    width = layer.get_parameter(name.replace("_ih", "_hh")).shape[1]
                    parameter.uniform_(0.0, width**-0.5, generator=generator)
    return module


def _steepest(layer: nn.Module) -> float:
    """γ, the steepest slope of the layer's nonlinearity; that of gates counts as 1."""
    return 0.25 if getattr(layer, "nonlinearity", None) == "sigmoid" else 1.0


def _recurrent(module: nn.Module) -> list[Tensor]:
    """Every square recurrent matrix W_hh [H, H] in `module`, as a view of its parameter: one a layer, or one a gate."""
    found: list[Tensor] = []
    for layer in _layers(module):
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

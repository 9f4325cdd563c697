"""torch's recurrent layers inside a model become ours, and back; their parameters stay the same objects."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportPrivateUsage=false
# (much of what is used of torch here is not annotated)

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch

from .. import checks
from .base import RecurrentLayer
from .gru import GRU
from .lstm import LSTM
from .rnn import RNN

OURS: dict[type[torch.nn.RNNBase], type[RecurrentLayer]] = {
    torch.nn.RNN: RNN,
    torch.nn.GRU: GRU,
    torch.nn.LSTM: LSTM,
}
TORCHS: dict[type[RecurrentLayer], type[torch.nn.RNNBase]] = {ours: torchs for torchs, ours in OURS.items()}
_SHARED = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional")


@dataclass(frozen=True)
class Conversion:
    """What was replaced in a model, and what was left alone and why; by the names of `model.named_modules()`."""

    replaced: dict[str, torch.nn.Module]
    left: dict[str, str]

    def __str__(self) -> str:
        lines = [f"replaced {name}: {layer}" for name, layer in self.replaced.items()]
        lines += [f"left {name}: {why}" for name, why in self.left.items()]
        return "\n".join(lines) or "no recurrent layers found"


def convert(
    model: torch.nn.Module, alpha: float = 1.0, *, omega: str = "paper", clip_error: float | None = None
) -> Conversion:
    """Replace every torch.nn.RNN, GRU and LSTM inside a model, in place, by ours with the same weights, and give them Ω.

    The parameters are the same objects: an optimizer made before keeps working. Hooks and the training mode move along.

    Args:
        model: any module that contains recurrent layers.
        alpha, omega, clip_error: as in `steadygrad.RNN`, for every layer.

    Returns:
        What was replaced, and what was left alone and why. Print it.

    Example:
        >>> import torch, steadygrad as sg
        >>> model = torch.nn.ModuleDict({"memory": torch.nn.GRU(3, 8), "readout": torch.nn.Linear(8, 2)})
        >>> print(sg.convert(model, alpha=1.0))
        replaced memory: GRU(3, 8, alpha=1.0)
        >>> print(sg.revert(model))
        replaced memory: GRU(3, 8)
    """
    _check_model(model, OURS, "sg.RNN, sg.GRU or sg.LSTM with load_state_dict")
    alpha = checks.number("alpha", alpha, low=0)
    probe = RNN(
        1, 1, alpha=alpha, omega=omega, clip_error=clip_error, device="meta"
    )  # says what is wrong before anything changes

    def ours(layer: Any) -> torch.nn.Module | str | None:
        if type(layer) not in OURS:
            return _why_not(layer)
        if layer.proj_size:
            return f"proj_size is {layer.proj_size}, and ours has no projections"
        if (why := _changed_parameters(layer)) is not None:
            return why
        given = {name: getattr(layer, name) for name in _SHARED}
        if isinstance(layer, torch.nn.RNN):
            given["nonlinearity"] = layer.nonlinearity
        options: Any = {"alpha": alpha, "omega": omega, "clip_error": probe.clip_error}
        return _with_parameters_of(layer, OURS[type(layer)], {**given, **options})

    return _replace(model, ours)


def revert(model: torch.nn.Module) -> Conversion:
    """Replace every `steadygrad.RNN`, `GRU` and `LSTM` inside a model, in place, by torch's with the same weights.

    Args:
        model: any module that contains our layers, such as one that `convert` has changed.

    Returns:
        What was replaced, and what was left alone and why: torch.nn.RNN has no leaky, sigmoid or identity units.
    """
    _check_model(model, TORCHS, "torch.nn.RNN, GRU or LSTM with load_state_dict")

    def torchs(layer: Any) -> torch.nn.Module | str | None:
        if type(layer) not in TORCHS:
            parametrized = isinstance(layer, RecurrentLayer) and torch.nn.utils.parametrize.is_parametrized(layer)
            return "its weights are parametrized" if parametrized else None
        assert isinstance(layer, RecurrentLayer)
        if (why := _changed_parameters(layer)) is not None:
            return why
        given = {name: getattr(layer, name) for name in _SHARED}
        if isinstance(layer, RNN):
            if layer.leak > 0 or layer.nonlinearity not in ("tanh", "relu"):
                return f"torch.nn.RNN has no {'leaky' if layer.leak > 0 else layer.nonlinearity} units"
            given["nonlinearity"] = layer.nonlinearity
        return _with_parameters_of(layer, TORCHS[type(layer)], given)

    return _replace(model, torchs)


def _check_model(model: Any, kinds: Any, instead: str) -> None:
    if not isinstance(model, torch.nn.Module):
        raise checks.WrongTypeError(f"model must be a torch.nn.Module, not a {type(model).__name__}")
    if type(model) in kinds:
        raise ValueError(
            f"model must contain the layers to replace, and is itself a {type(model).__name__}: make {instead} of it"
        )


def _why_not(layer: torch.nn.Module) -> str | None:
    if isinstance(layer, torch.nn.RNNCellBase):
        return "a cell that its owner calls step by step: wrap it in sg.Recurrent and call that once"
    if torch.nn.utils.parametrize.is_parametrized(layer) and isinstance(layer, torch.nn.RNNBase):
        return "its weights are parametrized"
    if isinstance(layer, torch.nn.RNNBase) and not isinstance(layer, RecurrentLayer):
        return f"{type(layer).__name__} is a class of its own, whose forward pass may differ"
    return None


def _changed_parameters(layer: torch.nn.RNNBase) -> str | None:
    missing = [name for names in layer._all_weights for name in names if name not in layer._parameters]
    return f"{missing[0]} is not a parameter of its own: pruned, or with a norm of its own" if missing else None


def _with_parameters_of(layer: torch.nn.RNNBase, kind: Any, given: dict[str, Any]) -> torch.nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of dropout with one layer, which was said when the model was made
        other: Any = kind(**given, device="meta")
    other._parameters.update(layer._parameters)
    other._init_flat_weights()
    other.train(layer.training)
    for name in vars(layer):
        if name.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called")):
            setattr(other, name, getattr(layer, name))
    return other


def _replace(model: torch.nn.Module, other_of: Any) -> Conversion:
    replaced: dict[str, torch.nn.Module] = {}
    left: dict[str, str] = {}
    made: dict[int, Any] = {}  # a layer that is used in two places stays one layer
    for path, parent in list(model.named_modules()):
        for name, layer in list(parent._modules.items()):
            if layer is None:
                continue
            full = f"{path}.{name}" if path else name
            if id(layer) not in made:
                made[id(layer)] = (layer, other_of(layer))
            other = made[id(layer)][1]
            if isinstance(other, str):
                left[full] = other
            elif other is not None:
                parent._modules[name] = other
                replaced[full] = other
    return Conversion(replaced, left)

"""The layers of a module that are initialised, their recurrent matrices, and which of them have gates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from torch import Tensor, nn

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

"""Which modules of a model are watched, what they are called, and what is said of those that are not."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..flow import GradientFlow

WRAPPERS = ("module.", "_orig_mod.")
"""What DistributedDataParallel, DataParallel and torch.compile put before a module's name."""


def plain_name(name: str) -> str:
    """The name without what wrappers put before it.

    >>> plain_name("module._orig_mod.encoder.rnn")
    'encoder.rnn'
    """
    name += "."
    while any(name.startswith(wrapper) for wrapper in WRAPPERS):
        name = name.partition(".")[2]
    return name.removesuffix(".")


def can_be_run_again(module: nn.Module) -> bool:
    """Whether it is torch's RNN, GRU or LSTM, or ours: layers whose equations are known."""
    return isinstance(module, nn.RNNBase) and getattr(module, "proj_size", 0) == 0


def has_flow(module: nn.Module) -> bool:
    """Whether it says itself what its backward pass saw: `sg.Recurrent`, or a layer of the user's."""
    return isinstance(getattr(type(module), "flow", None), property) and isinstance(
        getattr(module, "flow", None), GradientFlow
    )


def find(model: nn.Module) -> tuple[dict[str, nn.Module], tuple[str, ...]]:
    """The recurrent layers by name, and a sentence for each module that can't be watched."""
    found: dict[str, nn.Module] = {}
    notes: list[str] = []
    inside: list[str] = []
    for path, module in model.named_modules():
        name = plain_name(path)
        if any(path.startswith(other + ".") for other in inside):
            continue
        if can_be_run_again(module) or has_flow(module):
            found[name] = module
            inside.append(path)
        elif isinstance(module, nn.RNNBase):
            notes.append(f"{name or 'the model'} is not watched: an LSTM with proj_size is not re-run step by step.")
        elif isinstance(module, nn.RNNCellBase):
            kind = type(module).__name__
            notes.append(
                f"{name or 'the model'} is not watched: a {kind} is one step; sg.Recurrent makes a layer of it."
            )
    return found, tuple(notes)


def kinds_inside(model: nn.Module) -> str:
    """What a model is made of, for a message."""
    kinds = sorted({type(module).__name__ for module in model.modules() if not list(module.children())})
    return ", ".join(kinds[:6]) + (", …" if len(kinds) > 6 else "")


def is_compiled(model: nn.Module) -> bool:
    """Whether torch.compile has been there."""
    return any("_orig_mod" in module._modules or _compiled_call(module) is not None for module in model.modules())


def _compiled_call(module: Any) -> Any:
    return getattr(module, "_compiled_call_impl", None)


def gradient_norms(model: torch.nn.Module) -> dict[str, float | None]:
    """‖∂E/∂p‖ of every trained parameter; None where it has no gradient. In float64: no square overflows."""
    found: dict[str, float | None] = {}
    for path, parameter in model.named_parameters():
        if parameter.requires_grad:
            grad = parameter.grad
            if grad is not None and grad.is_sparse:
                grad = grad.coalesce().values()
            wide = torch.float32 if grad is None or grad.device.type == "mps" else torch.float64
            name = plain_name(path)
            found[name] = None if grad is None else torch.linalg.vector_norm(grad.detach(), dtype=wide).item()
    return found

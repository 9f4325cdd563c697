"""Which parameters are at fault when a gradient is not finite, and how to take a half-made step back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim import LBFGS, Optimizer

from .gradients import nonfinite_parameters

Names = dict[int, tuple[str, Tensor]]


def parameters_of(optimizer: Optimizer) -> list[Tensor]:
    """All parameters of all groups, in order."""
    return [tensor for group in optimizer.param_groups for tensor in group["params"]]


def names_by_id(named_parameters: Iterable[tuple[str, Tensor]] | None, optimizer: Optimizer) -> Names:
    """id(tensor) → (name, tensor): an id is only good while its tensor lives, so that is kept beside it."""
    if named_parameters is None:
        return {}
    if isinstance(named_parameters, torch.nn.Module):
        raise TypeError("named_parameters must be pairs of name and tensor: module.named_parameters(), not the module")
    names = {id(tensor): (name, tensor) for name, tensor in named_parameters}
    if not any(id(tensor) in names for tensor in parameters_of(optimizer)):
        raise ValueError("named_parameters must name the optimizer's parameters, but none of them is among its tensors")
    return names


def recurrent_ids(recurrent: Iterable[Tensor] | None, names: Names, optimizer: Optimizer) -> frozenset[int]:
    """The ids of the recurrent matrices: those given, or those named weight_hh…, among the optimizer's parameters."""
    known = {id(tensor) for tensor in parameters_of(optimizer)}
    if recurrent is None:
        ids = {key for key, (name, _) in names.items() if name.rpartition(".")[2].startswith("weight_hh")} & known
        if not ids:
            raise ValueError(
                "nonfinite='shrink' must know the recurrent matrices: give recurrent=[tensors], or named_parameters "
                "in which some are called weight_hh…"
            )
        return frozenset(ids)
    ids = {id(tensor) for tensor in recurrent}
    if not ids or not ids <= known:
        raise ValueError(f"recurrent must be parameters of the optimizer, but {len(ids - known)} of {len(ids)} are not")
    return frozenset(ids)


def at_fault(optimizer: Optimizer, names: Names) -> tuple[str, ...]:
    """The names of the optimizer's parameters whose gradient has an infinite or NaN entry."""
    return tuple(nonfinite_parameters(named(optimizer, names)))


def undo(optimizer: Optimizer) -> Callable[[], None]:
    """A function that puts parameters, state and options back to what they are now, bit for bit."""
    if type(optimizer).__module__.startswith("torch.optim.") and not isinstance(optimizer, LBFGS):
        # these evaluate their closure once, before they change anything: no need to copy the model every step
        return lambda: None
    tensors = [(tensor, tensor.detach().clone()) for tensor in parameters_of(optimizer)]
    state = {tensor: copy.deepcopy(entry) for tensor, entry in optimizer.state.items()}
    options = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]

    def back() -> None:
        with torch.no_grad():
            for tensor, saved in tensors:
                tensor.copy_(saved)
        optimizer.state.clear()
        optimizer.state.update(state)
        for group, saved in zip(optimizer.param_groups, options, strict=True):
            group.update(saved)

    return back


def named(optimizer: Optimizer, names: Names) -> Iterator[tuple[str, Tensor]]:
    """Every parameter of the optimizer with a name: the one given, the optimizer's own, or its place and shape."""
    for i, group in enumerate(optimizer.param_groups):
        own: list[Any] = group.get("param_names") or []
        for j, tensor in enumerate(group["params"]):
            if id(tensor) in names:
                yield names[id(tensor)]
            elif j < len(own):
                yield own[j], tensor
            else:
                yield f"parameter {j} of group {i} (shape {'x'.join(map(str, tensor.shape)) or 'scalar'})", tensor

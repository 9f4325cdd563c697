"""Which parameters are at fault when a gradient is not finite, and how to take a half-made step back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.optim import LBFGS, Optimizer

from .gradients import nonfinite_parameters
from .units import Names, named, parameters_of


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

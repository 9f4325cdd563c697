"""Tensors that are not plain memory: what is done with them, in place of reading numbers that are not there.

Hand-written derivatives are for ordinary tensors. A subclass (FakeTensor, DTensor, a user's own) goes through operations that
torch dispatches itself (oracle.py), and leaves no flow; Ω is computed where its numbers can be read, else refused by name.
"""

from __future__ import annotations

from types import NoneType
from typing import Any

import torch
from torch import Tensor

from ..checks import WrongInputError
from ..flow import Recorder
from .options import Given, Options

_ORDINARY = frozenset((Tensor, torch.nn.Parameter, NoneType))
_dispatch_modes: Any = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)  # pyright: ignore[reportPrivateUsage]


def are_ordinary(given: Given) -> bool:
    """Whether all tensors hold their numbers themselves."""
    return all(type(each) in _ORDINARY for each in given)


def is_watched() -> bool:
    """Whether somebody watches or replaces torch's operations."""
    return _dispatch_modes() > 0


def what_is_left(given: Given, options: Options, recorder: Recorder | None) -> tuple[Options, Recorder | None]:
    """The options and the recorder for tensors that are not ordinary."""
    kinds = {type(each) for each in given} - _ORDINARY
    names = {base.__name__ for kind in kinds for base in kind.__mro__}
    if "MaskedTensor" in names:
        raise WrongInputError(
            "input and parameters must not be MaskedTensors, whose operations do not include a recurrent layer's: "
            "give sequences of unequal lengths as a PackedSequence"
        )
    if "FakeTensor" in names:  # shapes without numbers: Ω and clipped errors change none
        return options._replace(alpha=0.0, clip_error=None), None
    if "DTensor" in names and options.alpha > 0:
        raise WrongInputError(
            "alpha must be 0 where parameters are DTensors: Ω needs the whole of each (FSDP2 gathers them before forward)"
        )
    return options, None


def holds_its_numbers(tensor: Tensor) -> bool:
    """Whether the storage is as large as what the tensor says it holds; false where it was freed."""
    return tensor.untyped_storage().nbytes() > 0 or tensor.numel() == 0 or tensor.is_meta or tensor._is_zerotensor()


def check_storage(given: Given) -> None:
    """Refuses a tensor whose storage was freed: not all of torch's operations look, and those that do not crash."""
    for name, tensor in zip(Given._fields, given, strict=True):
        if tensor is not None and not holds_its_numbers(tensor):
            shown = "input" if name == "inputs" else name
            raise WrongInputError(f"{shown} must hold its numbers, and its storage was freed")

"""Tensors that are not plain memory: what is done with them, in place of reading numbers that are not there.

Hand-written derivatives are for ordinary tensors. A subclass (FakeTensor, DTensor, a user's own) goes through operations that
torch dispatches itself (oracle.py), and leaves no flow; Ω is computed where its numbers can be read, else refused by name.

The kernel gets addresses (`Memory`). No raw pointer is read that was not checked at that very call: a tensor may come back from
autograd other than it was saved, with other strides from a compiled graph or a hook, as a subclass without memory of its own,
negated lazily, with its storage freed. What can be laid out anew is copied; the rest is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
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


_PARAMETER, _STRIDED = torch.nn.Parameter, torch.strided


def plain_address(tensor: Any, shape: tuple[int, ...], numbers: int, dtype: torch.dtype, size: int) -> int | None:
    """Where the `numbers` of this shape begin, row by row without gaps, each of `size` bytes; None where they do not lie so."""
    kind = type(tensor)  # pyright: ignore[reportUnknownVariableType]
    if (kind is not _PARAMETER and kind is not Tensor) or tensor.dtype is not dtype or tensor.shape != shape:
        return None
    try:
        if not tensor.is_cpu or tensor.layout is not _STRIDED or tensor.is_neg() or not tensor.is_contiguous():
            return None
        found: int = tensor.data_ptr()
        enough = tensor.untyped_storage().nbytes() >= (tensor.storage_offset() + numbers) * size
    except RuntimeError:  # a wrapper of torch.func or vmap, without memory of its own
        return None
    return found if found and enough else None


class Memory:
    """The tensors one call of the kernel reads and writes; keeps copies alive until it is over."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: list[Tensor] = []

    def address(self, name: str, tensor: Tensor | None, shape: Sequence[int], dtype: torch.dtype) -> int:
        """Where the numbers of `tensor` begin, row by row without gaps; 0 for None."""
        if tensor is None:
            return 0
        if type(tensor) not in _ORDINARY or tensor.shape != shape or tensor.dtype is not dtype or not tensor.is_cpu:
            raise RuntimeError(
                f"{name} must be an ordinary CPU tensor of {dtype} and shape {tuple(shape)} for the kernel, "
                f"not a {type(tensor).__name__} of {tensor.dtype}, shape {tuple(tensor.shape)}, on {tensor.device}"
            )
        if not tensor.is_contiguous() or tensor.is_neg():
            if not holds_its_numbers(tensor):  # torch's copy would not look
                raise RuntimeError(f"{name} must hold its numbers, and its storage was freed or is too small")
            tensor = tensor.detach().resolve_neg().contiguous()
            self._kept.append(tensor)
        found = tensor.data_ptr()
        begin = tensor.storage_offset() * tensor.itemsize
        if found == 0 or tensor.untyped_storage().nbytes() - begin < tensor.nbytes:
            if tensor.numel() == 0:
                return found
            if not tensor._is_zerotensor():
                raise RuntimeError(f"{name} must hold its numbers, and its storage was freed or is too small")
            tensor = torch.zeros_like(tensor)
            self._kept.append(tensor)
            found = tensor.data_ptr()
        return found

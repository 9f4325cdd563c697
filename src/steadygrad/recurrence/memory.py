"""The addresses of tensors, for the kernel. No raw pointer is read that was not checked at that very call.

A tensor may come back from autograd other than it was saved: with other strides from a compiled graph or a hook, as a subclass
without memory of its own, negated lazily, with its storage freed. What can be laid out anew is copied; the rest is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from . import strange

_ORDINARY = frozenset((Tensor, torch.nn.Parameter))


class Memory:
    """The tensors one call of the kernel reads and writes; keeps copies alive until it is over."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: list[Tensor] = []

    def address(self, name: str, tensor: Tensor | None, shape: Sequence[int], dtype: torch.dtype) -> int | None:
        """Where the numbers of `tensor` begin, row by row without gaps; None for None."""
        if tensor is None:
            return None
        if type(tensor) not in _ORDINARY or tensor.shape != shape or tensor.dtype is not dtype or not tensor.is_cpu:
            raise RuntimeError(
                f"{name} must be an ordinary CPU tensor of {dtype} and shape {tuple(shape)} for the kernel, "
                f"not a {type(tensor).__name__} of {tensor.dtype}, shape {tuple(tensor.shape)}, on {tensor.device}"
            )
        if not tensor.is_contiguous() or tensor.is_neg():
            if not strange.holds_its_numbers(tensor):  # torch's copy would not look
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

"""The norm of a gradient that is spread over many tensors, and its product with a number: the arithmetic of clipping.

    ‖g‖_p = (Σ_i |g_i|^p)^(1/p)        g: the gradients of all parameters, read as one vector

In float32 Σ g_i² overflows from |g_i| ≈ 1e19 on and vanishes below 1e-23. A norm outside the range in which neither
can matter is therefore taken again, tensor by tensor, as m · ‖g / m‖ with m = max |g_i|.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _foreach_utils  # pyright: ignore[reportPrivateUsage]

# Between these, what float32 loses of Σ g_i² is below its own rounding: squares that underflow are each under 1e-38,
# a billion of them under 1e-29, against a sum of at least 1e-24.
SAFE_LOW, SAFE_HIGH = 1e-12, 1e18
SMALL = 1e-30
NARROW = (torch.float16, torch.bfloat16)
Kind = tuple[torch.device, torch.dtype, type[Tensor]]

# torch gives these no types
vector_norm: Callable[..., Tensor] = torch.linalg.vector_norm  # pyright: ignore
foreach_norm: Callable[..., list[Tensor]] = torch._foreach_norm  # pyright: ignore
foreach_mul_: Callable[..., None] = torch._foreach_mul_  # pyright: ignore
device_has_foreach: Callable[[torch.device], bool] = _foreach_utils._device_has_foreach_support  # pyright: ignore


def by_device_and_dtype(gradients: Iterable[Tensor]) -> list[list[Tensor]]:
    """The gradients in lists of one device, dtype and class each, which is what a foreach kernel takes."""
    groups: dict[Kind, list[Tensor]] = {}
    for g in gradients:
        if g.layout is not torch.strided:
            raise ValueError(
                f"parameters must have dense gradients, not one of layout {g.layout} (shape {tuple(g.shape)})"
            )
        groups.setdefault(_kind(g), []).append(g)
    return list(groups.values())


def measured(gradients: list[Tensor], p: float = 2.0, foreach: bool | None = None) -> tuple[float, list[list[Tensor]]]:
    """The joint norm of gradients of any kind, and the tensors of this process to scale. Collective if any is sharded."""
    groups = by_device_and_dtype(gradients)
    if all(type(group[0]) is Tensor for group in groups):
        return total_norm(groups, p, foreach), groups
    return sharded().measured(gradients, p, foreach)


@functools.cache
def sharded() -> Any:
    """What knows gradients that are spread over processes (sharded.py): loaded where there may be some."""
    from . import sharded

    return sharded


def refuse_fsdp1(parameters: Iterable[Tensor]) -> None:
    """Raises ValueError if one of them is managed by FullyShardedDataParallel, whose shards are plain tensors."""
    if any(getattr(p, "_fsdp_flattened", False) or getattr(p, "_is_flat_param", False) for p in parameters):
        raise ValueError(
            "parameters must not be managed by FullyShardedDataParallel (FSDP1), whose gradients are shards that do not "
            "tell which ranks hold the rest: use torch.distributed.fsdp.fully_shard (FSDP2), or the model's own "
            "clip_grad_norm_()"
        )


def total_norm(groups: list[list[Tensor]], p: float = 2.0, foreach: bool | None = None) -> float:
    """The joint p-norm of all gradients in `groups`, as a number on the host: in the common case one read, p = 2."""
    if p == 2.0:
        norm = math.hypot(*_two_norms(groups, foreach))
        if SAFE_LOW <= norm <= SAFE_HIGH:
            return norm
    elif foreach:
        for group in groups:
            _use_foreach(group, foreach)
    return joined([_scaled_norm(g, p) for group in groups for g in group], p)


def each_norm(gradients: list[Tensor], p: float = 2.0) -> list[float]:
    """The p-norm of every gradient by itself, in the order they came: in the common case one read, p = 2."""
    if p != 2.0:
        return [_scaled_norm(g, p) for g in gradients]
    groups = by_device_and_dtype(gradients)
    norms = iter(_two_norms(groups, None))
    found = {_kind(group[0]): iter([next(norms) for _ in group]) for group in groups}
    each = [next(found[_kind(g)]) for g in gradients]
    return [
        norm if SAFE_LOW <= norm <= SAFE_HIGH else _scaled_norm(g, p) for g, norm in zip(gradients, each, strict=True)
    ]


def joined(norms: list[float], p: float = 2.0) -> float:
    """The p-norm of the norms of the parts, which is the norm of the whole."""
    if any(math.isnan(norm) for norm in norms):
        return math.nan
    if p == 2.0:
        return math.hypot(*norms)
    m = max(norms, default=0.0)
    if m == 0 or m == math.inf or p == math.inf:
        return m
    return m * sum((norm / m) ** p for norm in norms) ** (1 / p)


def scale_(groups: list[list[Tensor]], factor: float, foreach: bool | None = None) -> None:
    """Multiply every gradient by `factor`, in place."""
    if 0 < factor < SMALL:
        # so small a factor may be no normal float32, but its square root is one
        scale_(groups, math.sqrt(factor), foreach)
        scale_(groups, math.sqrt(factor), foreach)
        return
    for group in groups:
        device, dtype = group[0].device, group[0].dtype
        by: float | Tensor = factor
        if device.type == "cpu" and (dtype is torch.float32 or dtype is torch.float64):
            # a 0-d tensor made once: torch would make one of the number for every gradient, at thrice the cost
            by = torch.scalar_tensor(factor, dtype=dtype)
        if _use_foreach(group, foreach):
            foreach_mul_(group, by)
        else:
            for g in group:
                g.mul_(by)


def clamp_(gradients: list[Tensor], bound: float) -> None:
    """Every entry to [−bound, bound], in place."""
    if any(g.is_complex() for g in gradients):
        raise ValueError("per='entry' must have real gradients, and one of them is complex")
    for g in gradients:
        g.clamp_(-bound, bound)


def _kind(g: Tensor) -> Kind:
    return g.device, g.dtype, type(g)


def _two_norms(groups: list[list[Tensor]], foreach: bool | None) -> list[float]:
    norms: list[Tensor] = []
    for group in groups:
        # a float16 norm would overflow at 65,504 and have three digits
        dtype = torch.float32 if group[0].dtype in NARROW else None
        if _use_foreach(group, foreach):
            norms.extend(foreach_norm(group, 2.0, dtype))
        else:
            norms.extend([vector_norm(g, 2.0, dtype=dtype) for g in group])
    if all(norm.is_cpu for norm in norms):
        return [norm.item() for norm in norms]
    stacked = torch.stack([norm.to(norms[0].device) for norm in norms]).to("cpu")
    return [norm.item() for norm in stacked.unbind()]


def _scaled_norm(g: Tensor, p: float) -> float:
    """m · ‖g / m‖ with m = max |g_i|: no power of an entry can overflow, nor can all of them vanish."""
    if g.numel() == 0:
        return 0.0
    size = g.abs().to(torch.float32) if g.dtype in NARROW else g.abs()
    m = size.max()
    largest: float = m.item()
    if largest == 0 or p == math.inf or not math.isfinite(largest):
        return largest
    return largest * vector_norm(size / m, p).item()


def _use_foreach(group: list[Tensor], foreach: bool | None) -> bool:
    if foreach is False:
        return False
    device = group[0].device.type
    if _has_foreach(device):
        return foreach or type(group[0]) is Tensor
    if foreach:
        raise RuntimeError(f"foreach must be None or False for gradients on {device}, which has no foreach kernels")
    return False


@functools.cache
def _has_foreach(device: str) -> bool:
    return device_has_foreach(torch.device(device))

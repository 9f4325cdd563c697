"""Gradients spread over processes: DTensor, as FSDP2 (`fully_shard`) and tensor parallelism make them.

    ‖g‖_p = (Σ_r ‖g^(r)‖_p^p)^(1/p)        g^(r): what rank r holds of g

The sum runs over the ranks along every mesh dimension that shards g. Along a dimension that replicates g it is counted
once. Along one where g is a partial sum, the sum is taken first, in a copy.

The functions that say "collective" must be called by all ranks together. They return the same numbers, to the bit, on
every rank: what is decided from them is decided by all ranks alike.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .norm import by_device_and_dtype, each_norm, joined, total_norm

if TYPE_CHECKING:
    from .ranks import Layout

LINEAR = ("sum", "avg")  # f times the sum is the sum of f times the parts: each rank may scale its own
# Replicas differ by rounding at most, at worst bfloat16's 4e-3 in single entries and far less in a norm of many;
# gradients that were never averaged over the ranks differ by much more.
SAME = 1e-3


def is_sharded(gradient: Tensor) -> bool:
    """Whether it is a DTensor, whatever its placements."""
    return type(gradient) is not Tensor and isinstance(gradient, _dtensor())


def measured(gradients: list[Tensor], p: float = 2.0, foreach: bool | None = None) -> tuple[float, list[list[Tensor]]]:
    """The joint norm of gradients of any kind, and the tensors of this process to scale. Collective if any is sharded."""
    groups = by_device_and_dtype(gradients)
    if not any(is_sharded(group[0]) for group in groups):
        return total_norm(groups, p, foreach), groups
    (norm,) = unit_norms(gradients, [0] * len(gradients), 1, p)
    return norm, by_device_and_dtype(local_parts(gradients))


def unit_norms(gradients: list[Tensor], units: list[int], count: int, p: float = 2.0) -> list[float]:
    """The joint norms of `count` units, gradient i belonging to unit `units[i]`. Collective if any is sharded."""
    if not any(map(is_sharded, gradients)):
        return _by_unit(each_norm(gradients, p), units, count, p)
    from .ranks import Column, over_ranks

    held = [_held(g) for g in gradients]
    # a unit's plain gradients have a column even if there are none, so that every rank sends as many numbers
    parts: dict[tuple[int, Layout | None], list[float]] = {(unit, None): [] for unit in range(count)}
    for (_, layout), unit, norm in zip(held, units, each_norm([local for local, _ in held], p), strict=True):
        parts.setdefault((unit, layout), []).append(norm)
    join = functools.partial(joined, p=p)
    values = [(join(norms), layout) for (_, layout), norms in parts.items()]
    columns = [Column(value, layout, join, _largest) for value, layout in values]
    columns += [Column(value, layout, join, _smallest) for value, layout in values]
    found = over_ranks(columns, [layout.mesh for _, layout in values if layout])
    high, low = found[: len(parts)], found[len(parts) :]
    for (_, layout), most, least in zip(parts, high, low, strict=True):
        if math.isfinite(most) and most - least > SAME * most:
            kind = "plain (not sharded)" if layout is None else "replicated"
            raise ValueError(
                f"parameters must have the same {kind} gradients on every rank, but their norm lies between {least:.6g} "
                f"and {most:.6g}: average them over the ranks before clipping, or shard these parameters too"
            )
    return _by_unit(high, [unit for unit, _ in parts], count, p)


def local_parts(gradients: Iterable[Tensor]) -> list[Tensor]:
    """What this rank holds of each gradient; to multiply all of them by a number is to multiply the gradients."""
    return [_local(g) if is_sharded(g) else g for g in gradients]


def anywhere(flags: list[bool], gradients: list[Tensor | None]) -> list[bool]:
    """Each flag, true where it is on any rank of the gradients' meshes. Collective if any gradient is sharded."""
    layouts = list({_layout(g): None for g in gradients if g is not None and is_sharded(g)})
    if not layouts:
        return flags
    from .ranks import Column, over_ranks

    columns = [Column(flag, None, max, max) for flag in flags]
    return list(map(bool, over_ranks(columns, [layout.mesh for layout in layouts])))


def count_nonfinite(gradients: list[Tensor]) -> int:
    """How many entries are infinite or NaN. Collective if any is sharded."""
    from .ranks import Column, over_ranks

    held = [_held(g) if is_sharded(g) else (g, None) for g in gradients]
    bad = [int((~torch.isfinite(local)).sum()) for local, _ in held]
    columns = [Column(count, layout, sum, max) for count, (_, layout) in zip(bad, held, strict=True)]
    return int(sum(over_ranks(columns, [layout.mesh for _, layout in held if layout])))


def all_finite(gradient: Tensor) -> bool:
    """Whether what this rank holds of it is finite. Collective if it is a partial sum."""
    local = _held(gradient)[0] if is_sharded(gradient) else gradient.to_dense()
    return bool(torch.isfinite(local).all())


def whole_sum(gradient: Tensor) -> Tensor:
    """The gradient with its partial sums taken, if it has any: replicated there. Collective if so."""
    placements: Any = getattr(gradient, "placements", ())
    if not is_sharded(gradient) or not any(each.is_partial() for each in placements):
        return gradient
    from torch.distributed.tensor import Replicate

    given: Any = gradient
    return given.redistribute(placements=[Replicate() if each.is_partial() else each for each in placements])


def processes_joined() -> bool:
    """Whether this process belongs to a group of processes."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _dtensor() -> tuple[type, ...]:
    # a DTensor can only exist where its module was imported; to import it here would cost every user a second
    for name in ("torch.distributed.tensor", "torch.distributed._tensor"):
        found = getattr(sys.modules.get(name), "DTensor", None)
        if found is not None:
            return (found,)
    return ()


def _held(gradient: Tensor) -> tuple[Tensor, Layout | None]:
    """What this rank holds of it, with partial sums taken, and the layout of that."""
    if not is_sharded(gradient):
        return gradient, None
    layout = _layout(gradient)
    return _local(whole_sum(gradient)), layout


def _layout(gradient: Any) -> Layout:
    mesh, placements = gradient.device_mesh, gradient.placements
    if mesh.get_coordinate() is None:
        raise ValueError(
            f"parameters must lie on this rank too, but there is a gradient (shape {tuple(gradient.shape)}) on {mesh}, "
            f"and rank {torch.distributed.get_rank()} is not in it"
        )
    for each in placements:
        if each.is_partial() and each.reduce_op not in LINEAR:
            raise ValueError(
                "parameters must have gradients that are sums or averages over ranks, "
                f"not one (shape {tuple(gradient.shape)}) to be reduced by {each.reduce_op!r}"
            )
    from .ranks import Layout

    return Layout(mesh, tuple(not each.is_replicate() and not each.is_partial() for each in placements))


def _local(gradient: Any) -> Tensor:
    local = gradient.to_local()
    # a collective may still be under way in it
    return local.wait() if hasattr(local, "wait") else local


def _by_unit(norms: list[float], units: list[int], count: int, p: float) -> list[float]:
    parts: list[list[float]] = [[] for _ in range(count)]
    for norm, unit in zip(norms, units, strict=True):
        parts[unit].append(norm)
    return [joined(each, p) for each in parts]


def _largest(values: list[float]) -> float:
    return math.nan if any(map(math.isnan, values)) else max(values)


def _smallest(values: list[float]) -> float:
    return math.nan if any(map(math.isnan, values)) else min(values)

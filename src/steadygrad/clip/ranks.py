"""Numbers of single ranks combined into numbers of all ranks, the same, to the bit, on every one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

# torch gives it no types
all_gather: Callable[..., Any] = torch.distributed.all_gather if torch.distributed.is_available() else None  # pyright: ignore


class Layout(NamedTuple):
    """How a gradient lies over the ranks of a mesh: for each dimension, whether it is sharded (or else replicated)."""

    mesh: Any
    sharded: tuple[bool, ...]


class Column(NamedTuple):
    """A number of this rank, and how it is combined with those of other ranks; no layout: a plain tensor's."""

    value: float
    layout: Layout | None
    over_shards: Callable[[list[float]], float]
    over_replicas: Callable[[list[float]], float]


def over_ranks(columns: list[Column], meshes: list[Any]) -> list[float]:
    """Every column combined over the ranks of all `meshes`. Collective.

    A column is combined over the dimensions of its own mesh first, and then, as replicated, over all others: after the
    pass over one dimension it is equal along that dimension, so that in the end all ranks have the same numbers.
    """
    values = [column.value for column in columns]
    by_size = sorted(dict.fromkeys(meshes), key=lambda mesh: mesh.size())
    done: set[Any] = {None}
    for mesh in [*by_size, *by_size[:-1]]:
        own = mesh not in done
        done.add(mesh)
        sent = [i for i, column in enumerate(columns) if (column.layout and column.layout.mesh) in done]
        for dimension in range(mesh.ndim):
            rows = _gathered([values[i] for i in sent], mesh, dimension)
            for i, seen in zip(sent, zip(*rows, strict=True), strict=True):
                layout = columns[i].layout
                shards = own and layout is not None and layout.mesh == mesh and layout.sharded[dimension]
                combine = columns[i].over_shards if shards else columns[i].over_replicas
                values[i] = combine(list(seen))
    return values


def _gathered(values: list[float], mesh: Any, dimension: int) -> list[list[float]]:
    if mesh.size(dimension) == 1:
        return [values]
    own = torch.tensor(values, dtype=torch.float64, device=mesh.device_type)
    rows = [torch.empty_like(own) for _ in range(mesh.size(dimension))]
    all_gather(rows, own, group=mesh.get_group(dimension))
    return torch.stack(rows).tolist()  # pyright: ignore

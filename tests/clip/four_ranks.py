"""Cases for four processes: every placement on meshes of one and two dimensions. What they return is equal on all ranks."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
import torch.distributed
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh

from steadygrad.clip import NormClipper, clip_grad_norm_, grad_norm, nonfinite_parameters

SHAPE = (5, 3)
PLACEMENTS = {
    "shard 0": Shard(0),
    "shard 1": Shard(1),
    "replicate": Replicate(),
    "sum": Partial("sum"),
    "average": Partial("avg"),
}


def drawn(seed: int) -> Tensor:
    return torch.randn(SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def parameter(mesh: Any, placements: list[Any], seed: int = 0) -> Any:
    """A parameter replicated over the mesh, with a gradient of the given placements."""
    made: Any = nn.Parameter(distribute_tensor(drawn(50), mesh, [Replicate()] * mesh.ndim))
    if any(each.is_partial() for each in placements):
        # a part of its own for each coordinate along the dimensions that are summed over
        at = mesh.get_coordinate()
        parts = [100 * at[i] * (i + 1) for i, each in enumerate(placements) if each.is_partial()]
        whole = [Replicate() if each.is_partial() else each for each in placements]
        everywhere = DTensor.from_local(drawn(seed + sum(parts)), mesh, [Replicate()] * mesh.ndim, run_check=False)
        local = everywhere.redistribute(placements=whole).to_local()
        made.grad = DTensor.from_local(local.clone(), mesh, placements, shape=torch.Size(SHAPE), stride=(3, 1))
    else:
        made.grad = distribute_tensor(drawn(seed), mesh, placements)
    return made


def full(tensor: Any) -> Tensor:
    return tensor.detach().full_tensor().clone()  # a replicated one would give its own storage


def meshes() -> dict[str, Any]:
    return {"4": init_device_mesh("cpu", (4,)), "2x2": init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))}


def layouts() -> list[tuple[str, Any, list[Any]]]:
    found = []
    for key, mesh in meshes().items():
        for names in itertools.product(PLACEMENTS, repeat=mesh.ndim):
            kinds = {PLACEMENTS[name].reduce_op for name in names if PLACEMENTS[name].is_partial()}
            if len(kinds) > 1:  # torch cannot redistribute two kinds of partial sums
                continue
            found.append((f"{key}: {', '.join(names)}", mesh, [PLACEMENTS[name] for name in names]))
    return found


def every_placement_has_the_norm_of_the_whole() -> dict[str, Any]:
    found = {}
    for name, mesh, placements in layouts():
        tensor = parameter(mesh, placements)
        whole = full(tensor.grad)
        for p in (1.0, 2.0, math.inf):
            norm = grad_norm(tensor, p)
            expected = torch.linalg.vector_norm(whole, p)
            torch.testing.assert_close(norm, expected, rtol=1e-12, atol=0, msg=lambda m, name=name: f"{name}: {m}")
        clip_grad_norm_(tensor, 0.5)
        assert list(tensor.grad.placements) == placements
        torch.testing.assert_close(full(tensor.grad), whole * (0.5 / whole.norm()), rtol=1e-12, atol=1e-15)
        found[name] = grad_norm(tensor)
    assert len(found) == 5 + 5 * 5 - 2  # all but the two that mix sum and average
    return found


def different_placements_share_one_norm() -> dict[str, Any]:
    tensors = [parameter(mesh, placements, seed) for seed, (_, mesh, placements) in enumerate(layouts())]
    wholes = [full(tensor.grad) for tensor in tensors]
    norm = clip_grad_norm_(tensors, 2.0)
    expected = torch.cat([whole.flatten() for whole in wholes]).norm()
    torch.testing.assert_close(norm, expected, rtol=1e-12, atol=0)
    for tensor, whole in zip(tensors, wholes, strict=True):
        torch.testing.assert_close(full(tensor.grad), whole * (2.0 / expected), rtol=1e-12, atol=1e-15)
    return {"norm": norm}


def meshes_of_single_dimensions_share_one_norm() -> dict[str, Any]:
    """One parameter lies over "dp", one over "tp", one over both: none of the small meshes has all ranks."""
    both = meshes()["2x2"]
    tensors = [
        parameter(both["dp"], [Shard(0)], 1),
        parameter(both["tp"], [Shard(0)], 2),
        parameter(both, [Shard(0), Shard(1)], 3),
    ]
    expected = torch.cat([drawn(seed).flatten() for seed in (1, 2, 3)]).norm()
    norms = {name: grad_norm(chosen) for name, chosen in {"small": tensors[:2], "all": tensors}.items()}
    torch.testing.assert_close(norms["all"], expected, rtol=1e-12, atol=0)
    # one replica is a little off, as rounding may leave it: all ranks must still go by one number
    if torch.distributed.get_rank() == 3:
        tensors[0].grad.to_local().mul_(1 + 1e-9)
        tensors[1].grad.to_local().mul_(1 - 1e-9)
    return {"a little off": grad_norm(tensors[:2]), "of all": grad_norm(tensors), **norms}


def entries_of_every_placement_are_bounded() -> dict[str, Any]:
    for name, mesh, placements in layouts():
        tensor = parameter(mesh, placements)
        whole = full(tensor.grad)
        optimizer = torch.optim.SGD([tensor], lr=0.0)
        clipper = NormClipper(optimizer, 0.5, per="entry")
        optimizer.step()
        torch.testing.assert_close(full(tensor.grad), whole.clamp(-0.5, 0.5), rtol=1e-12, atol=0, msg=name)
        assert clipper.stats.norm_after == pytest.approx(whole.clamp(-0.5, 0.5).norm().item(), rel=1e-12), name
    return {}


def not_finite_is_named_on_all_ranks_for_every_placement() -> dict[str, Any]:
    found = {}
    for name, mesh, placements in layouts():
        good, bad = parameter(mesh, placements), parameter(mesh, placements, 1)
        local = bad.grad.to_local()
        if torch.distributed.get_rank() == 2 and local.numel():
            local.view(-1)[0] = math.inf
        optimizer = torch.optim.SGD([good, bad], lr=1.0)
        before = full(bad).clone()
        clipper = NormClipper(optimizer, 1.0, named_parameters=[("good", good), ("bad", bad)])
        optimizer.step()
        assert nonfinite_parameters([("good", good), ("bad", bad)]) == ["bad"], name
        assert clipper.stats.last_skipped == ("bad",), name
        assert torch.equal(full(bad), before)
        found[name] = str(clipper.stats)
    return found


def shrink_works_for_every_placement() -> dict[str, Any]:
    for name, mesh, placements in layouts():
        recurrent, other = parameter(mesh, placements), parameter(mesh, placements, 1)
        if torch.distributed.get_rank() == 2:
            other.grad.to_local().fill_(math.nan)
        optimizer = torch.optim.SGD([recurrent, other], lr=0.5)
        clipper = NormClipper(optimizer, 1.0, nonfinite="shrink", recurrent=[recurrent])
        optimizer.step()
        torch.testing.assert_close(full(recurrent), 0.99 * drawn(50), rtol=1e-14, atol=0, msg=name)
        torch.testing.assert_close(full(other), drawn(50), rtol=0, atol=0, msg=name)
        assert clipper.stats.norm_after == pytest.approx(0.02 * drawn(50).norm().item(), rel=1e-12), name
    return {}


def largest_part_is_refused() -> dict[str, Any]:
    found = {}
    for operation in ("max", "product"):
        with pytest.raises(
            ValueError, match=r"gradients that are sums or averages over ranks, not .* reduced by"
        ) as error:
            grad_norm(parameter(meshes()["4"], [Partial(operation)]))
        found[operation] = str(error.value)
    return found


def rank_outside_the_mesh_is_told() -> dict[str, Any]:
    from torch.distributed.device_mesh import DeviceMesh

    mesh = DeviceMesh("cpu", [0, 1, 2])
    tensor: Any = nn.Parameter(distribute_tensor(drawn(0), mesh, [Shard(0)]))
    tensor.grad = distribute_tensor(drawn(1), mesh, [Shard(0)])
    if torch.distributed.get_rank() == 3:
        with pytest.raises(ValueError, match=r"parameters must lie on this rank too, .* rank 3 is not in it"):
            grad_norm(tensor)
    else:
        torch.testing.assert_close(grad_norm(tensor), drawn(1).norm(), rtol=1e-12, atol=0)
    return {}


CASES = {
    case.__name__: case
    for case in (
        every_placement_has_the_norm_of_the_whole,
        different_placements_share_one_norm,
        meshes_of_single_dimensions_share_one_norm,
        entries_of_every_placement_are_bounded,
        not_finite_is_named_on_all_ranks_for_every_placement,
        shrink_works_for_every_placement,
        largest_part_is_refused,
        rank_outside_the_mesh_is_told,
    )
}

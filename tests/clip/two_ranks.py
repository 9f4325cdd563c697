"""Cases for two processes: FSDP2, FSDP1, and plain gradients beside sharded ones. What they return is equal on both ranks."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
import torch.distributed
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh

from steadygrad.clip import Auto, NormClipper, clip_grad_norm_, grad_norm, nonfinite_parameters

NORMS = (1.0, 2.0, 3.5, math.inf)


def network() -> Any:
    """7 rows over two ranks are 4 and 3, and the last bias lies on the first rank alone."""
    torch.manual_seed(0)
    return nn.ModuleDict({"rnn": nn.RNN(3, 7), "readout": nn.Linear(7, 1)}).double()


def loss(model: Any, x: Tensor, scale: float = 1.0) -> Tensor:
    return scale * model["readout"](model["rnn"](x)[0]).square().mean()


def batch(rank: int | None = None, step: int = 0) -> Tensor:
    """The half of one rank, or all."""
    draw = torch.Generator().manual_seed(step)
    x = torch.randn(5, 4, 3, dtype=torch.float64, generator=draw)
    return x if rank is None else x.chunk(2, dim=1)[rank]


def sharded(model: Any) -> Any:
    for layer in model.values():
        fully_shard(layer)
    return model


def with_gradients(scale: float = 1.0) -> tuple[Any, Any]:
    """The model on this rank with sharded gradients, and the same in one piece."""
    whole, model = network(), sharded(network())
    loss(whole, batch(), scale).backward()
    loss(model, batch(torch.distributed.get_rank()), scale).backward()
    assert all(isinstance(p.grad, DTensor) for p in model.parameters())
    return model, whole


def full(tensor: Any) -> Tensor:
    return tensor.detach().full_tensor().clone() if isinstance(tensor, DTensor) else tensor.detach()


def same(model: Any, whole: Any, rtol: float = 1e-12) -> None:
    """Gradients and parameters agree; rounding alone: sums in another order."""
    for (name, a), b in zip(model.named_parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(full(a), full(b), rtol=rtol, atol=1e-15, msg=lambda m, name=name: f"{name}: {m}")
        torch.testing.assert_close(full(a.grad), full(b.grad), rtol=rtol, atol=1e-15)


def fsdp2_norm_equals_torch() -> dict[str, Any]:
    model, whole = with_gradients()
    found = {}
    for p in NORMS:
        ours = grad_norm(model.parameters(), p)
        if p != math.inf:  # there torch refuses the empty shard of the last bias
            theirs = nn.utils.get_total_norm([q.grad for q in model.parameters()], p)
            torch.testing.assert_close(ours, full(theirs), rtol=1e-12, atol=0)
        torch.testing.assert_close(ours, grad_norm(whole.parameters(), p), rtol=1e-12, atol=0)
        found[str(p)] = ours
    return found


def fsdp2_clipping_equals_torch() -> dict[str, Any]:
    found = {}
    for p in NORMS:
        (model, whole), (other, _) = with_gradients(), with_gradients()
        found[str(p)] = clip_grad_norm_(model.parameters(), 0.01, p)
        clip_grad_norm_(whole.parameters(), 0.01, p)
        same(model, whole)
        if p != math.inf:
            nn.utils.clip_grad_norm_(other.parameters(), 0.01, p)
            same(model, other, rtol=2e-4)  # torch adds 1e-6 to the norm, which is at least 0.01
        assert grad_norm(model.parameters(), p).item() == pytest.approx(0.01, rel=1e-12)
    return found


def fsdp2_gradient_below_the_threshold_is_not_written() -> dict[str, Any]:
    model, _ = with_gradients()
    before = [p.grad.to_local()._version for p in model.parameters()]
    clip_grad_norm_(model.parameters(), 1e6)
    assert [p.grad.to_local()._version for p in model.parameters()] == before
    return {}


def fsdp2_huge_gradients_are_clipped() -> dict[str, Any]:
    model, whole = with_gradients(1e200)
    norm = clip_grad_norm_(model.parameters(), 1.0)
    assert norm.item() == pytest.approx(grad_norm(whole.parameters()).item(), rel=1e-12)
    assert norm.item() > 1e190  # its square is beyond float64
    clip_grad_norm_(whole.parameters(), 1.0)
    same(model, whole)
    return {"norm": norm}


def fsdp2_training_with_a_clipper_equals_one_process() -> dict[str, Any]:
    whole, model = network(), sharded(network())
    found: list[Any] = []
    for each in (model, whole):
        optimizer = torch.optim.Adam(each.parameters(), lr=0.05)
        clipper = NormClipper(optimizer, Auto(warmup=3, multiple=0.9, window=5))
        for step in range(12):
            optimizer.zero_grad()
            loss(each, batch(torch.distributed.get_rank() if each is model else None, step)).backward()
            optimizer.step()
        found.append(clipper.stats)
    ours, theirs = found
    # the threshold is taken from norms that differ in their last bits, and twelve steps of Adam magnify that
    same(model, whole, rtol=1e-7)
    assert ours.clipped == theirs.clipped
    assert 0 < ours.clipped < 12
    return {"history": ours.history, "threshold": ours.threshold}


def fsdp2_units_are_clipped_as_in_one_process() -> dict[str, Any]:
    found = {}
    for per in ("group", "parameter", "entry"):
        model, whole = with_gradients(100.0)
        for each in (model, whole):
            groups = [{"params": list(layer.parameters())} for layer in each.values()]
            optimizer = torch.optim.SGD(groups, lr=0.0)
            clipper = NormClipper(optimizer, 2.0, per=per)
            optimizer.step()
            if each is model:
                found[per] = str(clipper.stats), clipper.stats.clipped_by
        assert clipper.stats.clipped == 1
        assert found[per][1] == clipper.stats.clipped_by
        same(model, whole)
    return found


def poison(model: Any, name: str, value: float) -> None:
    """One entry that lies on the second rank alone: the last of the parameter."""
    if torch.distributed.get_rank() == 1:
        model.get_parameter(name).grad.to_local().view(-1)[-1] = value


def fsdp2_names_what_is_not_finite_on_another_rank() -> dict[str, Any]:
    model, _ = with_gradients()
    assert nonfinite_parameters(model.named_parameters()) == []
    poison(model, "rnn.weight_hh_l0", math.nan)
    poison(model, "rnn.bias_ih_l0", math.inf)
    assert nonfinite_parameters(model.named_parameters()) == ["rnn.weight_hh_l0", "rnn.bias_ih_l0"]
    assert math.isnan(grad_norm(model.parameters()))
    entries = sum(p.numel() for p in model.parameters())
    with pytest.raises(RuntimeError, match=f"is nan: 2 of {entries} entries are infinite or NaN"):
        clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    return {"names": nonfinite_parameters(model.named_parameters())}


def fsdp2_skips_on_all_ranks() -> dict[str, Any]:
    found = {}
    for value in (math.nan, math.inf):
        model, _ = with_gradients()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        clipper = NormClipper(optimizer, 1.0, named_parameters=model.named_parameters())
        before = [full(p).clone() for p in model.parameters()]
        poison(model, "rnn.weight_ih_l0", value)
        optimizer.step()
        assert not optimizer.state
        assert all(torch.equal(full(p), b) for p, b in zip(model.parameters(), before, strict=True))
        assert clipper.stats.last_skipped == ("rnn.weight_ih_l0",)
        found[str(value)] = str(clipper.stats)
    return found


def fsdp2_raises_on_all_ranks() -> dict[str, Any]:
    model, _ = with_gradients()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    NormClipper(optimizer, 1.0, nonfinite="raise", named_parameters=model.named_parameters())
    poison(model, "rnn.weight_ih_l0", math.inf)
    with pytest.raises(FloatingPointError, match=r"is inf because of rnn\.weight_ih_l0; no update was made") as error:
        optimizer.step()
    return {"sentence": str(error.value)}


def fsdp2_shrinks_on_all_ranks() -> dict[str, Any]:
    found = {}
    for value in (math.nan, 1e11):
        model, _ = with_gradients()
        before = {name: full(p).clone() for name, p in model.named_parameters()}
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        clipper = NormClipper(optimizer, 1.0, nonfinite="shrink", named_parameters=model.named_parameters())
        poison(model, "rnn.weight_ih_l0", value)
        optimizer.step()
        for name, p in model.named_parameters():
            expected = 0.99 * before[name] if name == "rnn.weight_hh_l0" else before[name]
            torch.testing.assert_close(full(p), expected, rtol=1e-14, atol=0)
        assert clipper.stats.shrunk == 1
        expected_norm = 0.02 * before["rnn.weight_hh_l0"].norm().item()
        assert clipper.stats.norm_after == pytest.approx(expected_norm, rel=1e-12)
        found[str(value)] = str(clipper.stats)
    return found


class TwoEvaluations(torch.optim.Optimizer):
    """Makes two plain descent steps, each with a gradient of its own."""

    def __init__(self, tensors: Any) -> None:
        super().__init__(tensors, {})

    def step(self, closure: Any = None) -> Any:
        for _ in range(2):
            value = closure()
            with torch.no_grad():
                for p in self.param_groups[0]["params"]:
                    p.sub_(p.grad)
        return value


def fsdp2_undoes_a_closure_step() -> dict[str, Any]:
    model = sharded(network())
    optimizer = TwoEvaluations(model.parameters())
    clipper = NormClipper(optimizer, 1e3, named_parameters=model.named_parameters())
    before = [full(p) for p in model.parameters()]
    count = 0

    def closure() -> Tensor:
        nonlocal count
        count += 1
        optimizer.zero_grad()
        value = loss(model, batch(torch.distributed.get_rank()))
        value.backward()
        if count == 4:
            poison(model, "rnn.weight_hh_l0", math.nan)
        return value.detach()

    optimizer.step(closure)
    after = [full(p) for p in model.parameters()]
    assert not any(torch.equal(a, b) for a, b in zip(after, before, strict=True))
    optimizer.step(closure)
    assert all(torch.equal(full(p), a) for p, a in zip(model.parameters(), after, strict=True))
    return {"count": count, "skipped": clipper.stats.last_skipped}


def plain_parameter(value: list[float]) -> nn.Parameter:
    parameter = nn.Parameter(torch.zeros(len(value), dtype=torch.float64))
    parameter.grad = torch.tensor(value, dtype=torch.float64)
    return parameter


def sharded_parameter(value: list[float], placement: Any) -> nn.Parameter:
    mesh = init_device_mesh("cpu", (2,))
    gradient = torch.tensor(value, dtype=torch.float64)
    parameter = nn.Parameter(distribute_tensor(torch.zeros_like(gradient), mesh, [placement]))
    parameter.grad = distribute_tensor(gradient, mesh, [placement])
    return parameter


def plain_beside_sharded_share_one_norm() -> dict[str, Any]:
    found = {}
    for placement in (Shard(0), Replicate()):
        plain, spread = plain_parameter([12.0]), sharded_parameter([3.0, 4.0], placement)
        norm = clip_grad_norm_([plain, spread], 6.5)
        assert norm.item() == 13.0
        assert plain.grad.tolist() == [6.0]
        assert full(spread.grad).tolist() == [1.5, 2.0]
        optimizer = torch.optim.SGD([plain, spread], lr=1.0)
        clipper = NormClipper(optimizer, 3.25)
        # torch's own foreach step does not take the two kinds at once
        optimizer.param_groups[0]["foreach"] = False
        optimizer.step()
        torch.testing.assert_close(plain.data, torch.tensor([-3.0], dtype=torch.float64))
        torch.testing.assert_close(full(spread), torch.tensor([-0.75, -1.0], dtype=torch.float64))
        found[str(placement)] = str(clipper.stats)
    return found


def plain_that_is_not_finite_on_one_rank_is_skipped_on_both() -> dict[str, Any]:
    rank = torch.distributed.get_rank()
    plain, spread = plain_parameter([math.inf if rank else 1.0]), sharded_parameter([3.0, 4.0], Shard(0))
    optimizer = torch.optim.SGD([plain, spread], lr=1.0, foreach=False)
    clipper = NormClipper(optimizer, 1.0)
    optimizer.step()
    assert clipper.stats.skipped == 1
    assert full(spread).tolist() == [0.0, 0.0]
    return {"skipped": clipper.stats.last_skipped}


def plain_that_differs_between_ranks_is_refused_on_both() -> dict[str, Any]:
    rank = torch.distributed.get_rank()
    plain, spread = plain_parameter([12.0 + rank]), sharded_parameter([3.0, 4.0], Shard(0))
    found = {}
    for ask in (grad_norm, lambda tensors: clip_grad_norm_(tensors, 1.0)):
        with pytest.raises(ValueError, match=r"same plain .* on every rank, .* between 12 and 13: average") as error:
            ask([plain, spread])
        found[str(len(found))] = str(error.value)
    assert plain.grad.item() == 12.0 + rank
    return found


def fsdp1_is_refused() -> dict[str, Any]:
    found = {}
    for use_orig_params in (True, False):
        model: Any = FullyShardedDataParallel(
            copy.deepcopy(network()["readout"]), device_id=torch.device("cpu"), use_orig_params=use_orig_params
        )
        model(torch.ones(2, 7, dtype=torch.float64)).sum().backward()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        for ask in (
            lambda m: grad_norm(m.parameters()),
            lambda m: clip_grad_norm_(m.parameters(), 1.0),
            lambda m: nonfinite_parameters(m.named_parameters()),
            lambda _, optimizer=optimizer: NormClipper(optimizer, 1.0),
        ):
            with pytest.raises(ValueError, match="must not be managed by FullyShardedDataParallel") as error:
                ask(model)
            found[str(len(found))] = str(error.value)
        assert "step" not in vars(optimizer)
    return found


CASES = {
    case.__name__: case
    for case in (
        fsdp2_norm_equals_torch,
        fsdp2_clipping_equals_torch,
        fsdp2_gradient_below_the_threshold_is_not_written,
        fsdp2_huge_gradients_are_clipped,
        fsdp2_training_with_a_clipper_equals_one_process,
        fsdp2_units_are_clipped_as_in_one_process,
        fsdp2_names_what_is_not_finite_on_another_rank,
        fsdp2_skips_on_all_ranks,
        fsdp2_raises_on_all_ranks,
        fsdp2_shrinks_on_all_ranks,
        fsdp2_undoes_a_closure_step,
        plain_beside_sharded_share_one_norm,
        plain_that_is_not_finite_on_one_rank_is_skipped_on_both,
        plain_that_differs_between_ranks_is_refused_on_both,
        fsdp1_is_refused,
    )
}

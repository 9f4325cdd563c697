"""A copied or unpickled clipper clips the copied optimizer, with statistics of its own; the original is untouched."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from clip_cases import explode, frozen, recurrent_model
from torch import nn

from steadygrad.clip import Auto, NormClipper, Percentile, Spike


def pickled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


each_way = pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled], ids=["deepcopy", "pickle"])
Duplicate = Callable[[Any], Any]


def trained(threshold: Any = 0.5, **options: Any) -> tuple[Any, Any, NormClipper]:
    model = recurrent_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    clipper = NormClipper(optimizer, threshold, named_parameters=model.named_parameters(), **options)
    for k in range(3):
        train(model, optimizer, k)
    return model, optimizer, clipper


def train(model: Any, optimizer: Any, k: int, scale: float = 1.0) -> None:
    torch.manual_seed(k)
    optimizer.zero_grad()
    (scale * model["readout"](model["rnn"](torch.randn(5, 3, 2, dtype=torch.float64))[0]).square().mean()).backward()
    optimizer.step()


@each_way
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (2, 0, 1)], ids=str)
@pytest.mark.parametrize("threshold", [0.01, Auto(warmup=2), Percentile(50), Spike(z=0.1, warmup=2)], ids=repr)
def test_copy_of_all_three_goes_on_as_the_original_would(
    duplicate: Duplicate, order: tuple[int, ...], threshold: Any
) -> None:
    originals = trained(threshold)
    found = duplicate(tuple(originals[i] for i in order))
    model, optimizer, clipper = (found[order.index(i)] for i in range(3))
    assert clipper.optimizer is optimizer
    assert clipper.attached
    before = frozen(list(originals[0].parameters()), originals[1]), originals[2].state_dict()
    for k in range(3, 8):
        train(model, optimizer, k, scale=10.0**k)
    assert (frozen(list(originals[0].parameters()), originals[1]), originals[2].state_dict()) == before
    for k in range(3, 8):
        train(originals[0], originals[1], k, scale=10.0**k)
    assert frozen(list(model.parameters()), optimizer) == frozen(list(originals[0].parameters()), originals[1])
    assert clipper.state_dict() == originals[2].state_dict()
    assert clipper.stats.clipped > before[1]["clipped"]


@each_way
def test_copy_names_its_own_parameters(duplicate: Duplicate) -> None:
    model, optimizer, clipper = duplicate(trained())
    explode(model, "rnn.weight_hh_l0", math.nan)
    optimizer.step()
    assert clipper.stats.last_skipped == ("rnn.weight_hh_l0",)


@each_way
def test_copy_shrinks_its_own_recurrent_matrix(duplicate: Duplicate) -> None:
    model, optimizer, clipper = duplicate(trained(nonfinite="shrink"))
    optimizer.param_groups[0]["lr"] = 0.0
    explode(model, "readout.bias", math.inf)
    optimizer.step()
    W = model["rnn"].weight_hh_l0
    torch.testing.assert_close(W.grad, 0.02 * W.detach(), rtol=1e-14, atol=0)
    assert clipper.stats.shrunk == 1


@each_way
def test_copy_of_the_clipper_alone_brings_its_optimizer(duplicate: Duplicate) -> None:
    _, optimizer, clipper = trained()
    twin = duplicate(clipper)
    assert twin.attached
    assert twin.optimizer is not optimizer
    (weight, *_), (own, *_) = twin.optimizer.param_groups[0]["params"], optimizer.param_groups[0]["params"]
    before = own.detach().clone()
    weight.grad = torch.full_like(weight, 100.0)
    twin.optimizer.step()
    assert weight.grad.norm().item() == pytest.approx(0.5)
    assert torch.equal(own, before)
    assert (twin.stats.steps, clipper.stats.steps) == (4, 3)


@each_way
def test_copy_of_the_optimizer_alone_has_no_clipper(duplicate: Duplicate) -> None:
    model, optimizer, clipper = trained()
    twin_model, twin = duplicate((model, optimizer))
    train(twin_model, twin, 3)
    assert "step" not in vars(twin)
    assert clipper.stats.steps == 3
    assert NormClipper(twin, 1.0).attached


@each_way
def test_copy_of_a_detached_clipper_is_detached(duplicate: Duplicate) -> None:
    model, optimizer, clipper = trained()
    clipper.detach()
    twin_model, twin_optimizer, twin = duplicate((model, optimizer, clipper))
    train(twin_model, twin_optimizer, 3, scale=1e6)
    assert not twin.attached
    assert twin.stats.steps == 3


def test_shallow_copy_is_detached_and_shares_nothing_that_changes() -> None:
    model, optimizer, clipper = trained(Auto(warmup=2))
    twin = copy.copy(clipper)
    assert not twin.attached
    assert twin.optimizer is optimizer
    threshold = twin.threshold
    train(model, optimizer, 3)
    assert (clipper.stats.steps, twin.stats.steps, twin.threshold) == (4, 3, threshold)


def test_copy_detaches_without_the_original() -> None:
    _, optimizer, clipper = trained()
    twin = copy.deepcopy(clipper)
    twin.detach()
    assert "step" not in vars(twin.optimizer)
    assert clipper.attached
    assert vars(optimizer)["step"]._norm_clipper is clipper


class Remembers(torch.optim.SGD):
    """An optimizer that is copied with all its attributes, the wrapped step among them."""

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))


def test_optimizer_copied_with_its_attributes_steps_itself() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer = Remembers([weight], lr=1.0)
    clipper = NormClipper(optimizer, 1.0)
    twin = copy.deepcopy(optimizer)
    (other,) = twin.param_groups[0]["params"]
    other.grad = torch.tensor([3.0, 4.0])
    twin.step()
    assert other.tolist() == [-2.0, -3.0]
    assert weight.tolist() == [1.0, 1.0]
    assert clipper.stats.steps == 0
    pair_optimizer, pair = copy.deepcopy((optimizer, clipper))
    (other,) = pair_optimizer.param_groups[0]["params"]
    other.grad = torch.tensor([3.0, 4.0])
    pair_optimizer.step()
    torch.testing.assert_close(other.data, torch.tensor([0.4, 0.2]))
    assert (pair.stats.clipped, clipper.stats.steps) == (1, 0)

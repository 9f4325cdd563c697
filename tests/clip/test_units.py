"""per=…: everything together, each group, each parameter or each entry is clipped, against the same by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from clip_cases import fresh, frozen, give, gradients, parameters, random_parameters
from torch import nn

from steadygrad.clip import Auto, NormClipper, Percentile, Spike, clip_grad_norm_

THRESHOLD = 3.0
SHAPES = [(3, 3), (3,), (2, 2), (), (4,)]


def two_groups(tensors: list[Any], **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD([{"params": tensors[:2], "name": "first"}, {"params": tensors[2:]}], lr=0.1, **options)


def five(seed: int = 0) -> list[Any]:
    draw = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=draw, dtype=torch.float64)) for shape in SHAPES]


def drawn(steps: int) -> list[list[Any]]:
    draw = torch.Generator().manual_seed(5)
    return [[2 * torch.randn(shape, generator=draw, dtype=torch.float64) for shape in SHAPES] for _ in range(steps)]


@pytest.mark.parametrize("per", ["all", "group", "parameter", "entry"])
def test_step_equals_clipping_each_unit_by_hand(per: Any) -> None:
    ours, theirs = five(), five()
    optimizer, reference = two_groups(ours, momentum=0.9), two_groups(theirs, momentum=0.9)
    threshold = 1.5 if per == "entry" else THRESHOLD
    clipper = NormClipper(optimizer, threshold, per=per)
    units = {"all": [theirs], "group": [theirs[:2], theirs[2:]], "parameter": [[p] for p in theirs]}
    before, clipped = [], 0
    for values in drawn(8):
        give(ours, values)
        give(theirs, values)
        before.append(torch.cat([v.flatten() for v in values]).norm().item())
        norms = [clip_grad_norm_(unit, threshold).item() for unit in units.get(per, [])]
        if per == "entry":
            clipped += any((v.abs() > threshold).any() for v in values)
            nn.utils.clip_grad_value_(theirs, threshold)
        clipped += any(norm >= threshold for norm in norms)
        optimizer.step()
        reference.step()
        after = torch.cat([p.grad.flatten() for p in theirs]).norm().item()
        assert clipper.stats.norm_after == pytest.approx(after, rel=1e-12)
    assert frozen(ours, optimizer) == frozen(theirs, reference)
    assert [b for b, _ in clipper.stats.history] == pytest.approx(before, rel=1e-12)
    assert clipper.stats.clipped == clipped > 0


@pytest.mark.parametrize("per", ["group", "parameter"])
@pytest.mark.parametrize("rule", [Auto(warmup=3), Percentile(50), Spike(z=0.5, warmup=3)], ids=repr)
def test_each_unit_has_the_threshold_of_its_own_norms(per: Any, rule: Any) -> None:
    tensors = five()
    optimizer = two_groups(tensors)
    clipper = NormClipper(optimizer, rule, per=per)
    alone = []
    for members in [tensors[:2], tensors[2:]] if per == "group" else [[p] for p in tensors]:
        twins = [nn.Parameter(p.detach().clone()) for p in members]
        single = torch.optim.SGD(twins, lr=0.1)
        alone.append((members, twins, NormClipper(single, rule)))
    for k, values in enumerate(drawn(12)):
        give(tensors, [v * (k + 1) for v in values])
        for members, twins, each in alone:
            give(twins, [p.grad for p in members])
            each.optimizer.step()
        optimizer.step()
    assert list(clipper.stats.thresholds.values()) == pytest.approx([each.threshold for *_, each in alone], rel=1e-12)
    assert list(clipper.stats.clipped_by.values()) == [each.stats.clipped for *_, each in alone]
    assert clipper.threshold == min(clipper.stats.thresholds.values())
    assert 0 < sum(clipper.stats.clipped_by.values()) < 12 * len(alone)


def test_units_have_names() -> None:
    tensors = five()
    optimizer = two_groups(tensors)
    assert list(NormClipper(optimizer, 1.0, per="group").stats.thresholds) == ["first", "group 1"]
    other = torch.optim.SGD(five(), lr=0.1)
    named = [(f"w{i}", p) for i, p in enumerate(other.param_groups[0]["params"])]
    clipper = NormClipper(other, 1.0, per="parameter", named_parameters=named)
    assert list(clipper.stats.thresholds) == ["w0", "w1", "w2", "w3", "w4"]
    give([p for _, p in named], [torch.full_like(p, 5.0 if name == "w2" else 0.1) for name, p in named])
    other.step()
    assert clipper.stats.clipped_by == {"w0": 0, "w1": 0, "w2": 1, "w3": 0, "w4": 0}


def test_nothing_finite_anywhere_means_no_update_of_any_unit() -> None:
    for per in ("group", "parameter", "entry"):
        tensors = five()
        optimizer = two_groups(tensors)
        clipper = NormClipper(optimizer, 1.0, per=per)
        give(tensors, drawn(1)[0])
        tensors[4].grad[1] = math.nan
        before = frozen(tensors, optimizer)
        optimizer.step()
        assert frozen(tensors, optimizer) == before
        assert clipper.stats.last_skipped == ("parameter 2 of group 1 (shape 4)",)


def test_spike_of_one_unit_skips_the_update_and_is_named() -> None:
    tensors = five()
    optimizer = two_groups(tensors)
    clipper = NormClipper(optimizer, Spike(action="skip", warmup=3), per="group")
    for k in range(4):
        give(tensors, [torch.full_like(p, 1.0 + k / 10) for p in tensors])
        optimizer.step()
    before = frozen(tensors, optimizer)
    give(tensors, [torch.full_like(p, 1.0 if i < 2 else 90.0) for i, p in enumerate(tensors)])
    optimizer.step()
    assert frozen(tensors, optimizer) == before
    (reason,) = clipper.stats.last_skipped
    assert reason.endswith("in group 1")


def test_group_added_later_gets_a_threshold() -> None:
    tensors = fresh()
    optimizer = torch.optim.SGD(tensors[:1], lr=0.1)
    clipper = NormClipper(optimizer, 2.0, per="group")
    optimizer.add_param_group({"params": tensors[1:]})
    give(tensors, next(gradients(1)))
    optimizer.step()
    assert [p.grad.norm().item() for p in tensors] == pytest.approx([2.0, 2.0])
    assert list(clipper.stats.clipped_by.values()) == [1, 1]


def test_parameters_below_their_threshold_are_not_written() -> None:
    small, large = parameters([0.3, 0.4], [3.0, 4.0])
    optimizer = torch.optim.SGD([small, large], lr=0.0)
    NormClipper(optimizer, 1.0, per="parameter")
    before = small.grad._version
    optimizer.step()
    assert small.grad._version == before
    assert large.grad.tolist() == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("magnitude", [1e-44, 1e-30, 1e-3, 1e18, 1e30])
def test_every_parameter_is_measured_without_overflow_or_underflow(magnitude: float) -> None:
    tensors = parameters(torch.tensor([3.0, 4.0]) * magnitude, torch.tensor([3.0, 4.0]), torch.zeros(2))
    optimizer = torch.optim.SGD(tensors, lr=0.0)
    clipper = NormClipper(optimizer, Percentile(100), per="parameter")
    optimizer.step()
    first, *_ = clipper.stats.thresholds.values()
    # the smallest float32 is 1.4e-45
    assert first == pytest.approx(5 * magnitude, rel=0.2 if magnitude < 1e-40 else 1e-6)


def test_mixed_dtypes_are_measured_in_the_right_order() -> None:
    tensors = random_parameters(dtype=torch.float64)
    for p in tensors[1::2]:
        p.data, p.grad = p.data.float(), None
        p.grad = torch.ones_like(p)
    optimizer = torch.optim.SGD(tensors, lr=0.0)
    clipper = NormClipper(optimizer, Percentile(100), per="parameter")
    expected = [p.grad.norm().item() for p in tensors]
    optimizer.step()
    assert list(clipper.stats.thresholds.values()) == pytest.approx(expected, rel=1e-6)


def test_entries_under_a_grad_scaler_are_clipped_unscaled() -> None:
    (tensor,) = tensors = parameters([0.0, 0.0], dtype=torch.float32)
    optimizer = torch.optim.SGD(tensors, lr=1.0, fused=True)
    clipper = NormClipper(optimizer, threshold=1.0, per="entry")
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(torch.zeros(()))
    tensor.grad = 1024.0 * torch.tensor([0.5, -4.0])
    scaler.step(optimizer)
    torch.testing.assert_close(tensor.data, torch.tensor([0.5, 2.0]))
    assert clipper.stats.norm_after == pytest.approx(math.hypot(0.5, 1.0))


def test_entry_at_most_the_threshold_counts_as_not_clipped() -> None:
    (tensor,) = tensors = parameters([1.0, -1.0, 1.0])  # the norm √3 is above 1, no entry is
    optimizer = torch.optim.SGD(tensors, lr=0.0)
    clipper = NormClipper(optimizer, 1.0, per="entry")
    optimizer.step()
    assert clipper.stats.clipped == 0
    assert tensor.grad.tolist() == [1.0, -1.0, 1.0]


def test_complex_entries_are_refused() -> None:
    tensors = parameters(torch.ones(2, dtype=torch.complex64))
    optimizer = torch.optim.SGD(tensors, lr=0.0)
    NormClipper(optimizer, 1.0, per="entry")
    with pytest.raises(ValueError, match="per='entry' must have real gradients"):
        optimizer.step()

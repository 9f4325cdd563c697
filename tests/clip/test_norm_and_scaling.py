"""clip_grad_norm_ and grad_norm against torch's and against float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from clip_cases import (
    flat,
    parameters,
    random_parameters,
)
from torch import nn
from torch.nn import Parameter

from steadygrad.clip import clip_grad_norm_, grad_norm, nonfinite_parameters

INF, NAN = math.inf, math.nan


def test_worked_example_is_scaled_to_half() -> None:
    # ‖(3, 4, 12)‖ = √(9 + 16 + 144) = √169 = 13, over two tensors; 6.5 / 13 = 1/2, and halves are exact
    first, second = parameters([3.0, 4.0], [[12.0]])
    assert clip_grad_norm_([first, second], 6.5).item() == 13.0
    assert first.grad.tolist() == [1.5, 2.0]
    assert second.grad.tolist() == [[6.0]]


@pytest.mark.parametrize("foreach", [None, True, False])
@pytest.mark.parametrize("norm_type", [0.5, 1, 2, 3.5, INF, "inf"])
@pytest.mark.parametrize("max_norm", [0.1, 1.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_clip_equals_torch(dtype: torch.dtype, max_norm: float, norm_type: Any, foreach: bool | None) -> None:
    ours, theirs = random_parameters(dtype=dtype), random_parameters(dtype=dtype)
    norm = clip_grad_norm_(iter(ours), max_norm, norm_type, foreach=foreach)
    expected = nn.utils.clip_grad_norm_(iter(theirs), max_norm, norm_type, foreach=foreach)
    # the norms here are at least 1: torch's +1e-6 shifts its factor by at most 1e-6, float32 rounding adds less
    torch.testing.assert_close(norm, expected, rtol=1e-6, atol=0)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=2e-6, atol=0)


def test_clipped_norm_is_the_threshold_to_the_last_digits() -> None:
    for threshold in (1e-3, 0.7, 2.0):
        tensors = random_parameters()
        clip_grad_norm_(tensors, threshold)
        # float64: a product and a norm, a few roundings of 1e-16 each
        assert flat(tensors).norm().item() == pytest.approx(threshold, rel=1e-14)


def test_gradient_below_the_threshold_is_not_written() -> None:
    tensors = random_parameters()
    before = [p.grad._version for p in tensors]
    copies = [p.grad.clone() for p in tensors]
    clip_grad_norm_(tensors, 1e4)
    clip_grad_norm_(tensors, INF)
    assert [p.grad._version for p in tensors] == before
    assert all(torch.equal(p.grad, c) for p, c in zip(tensors, copies, strict=True))


def test_norm_equal_to_the_threshold_changes_no_bit() -> None:
    (tensor,) = parameters([3.0, 4.0])
    clip_grad_norm_(tensor, 5.0)
    assert tensor.grad.tolist() == [3.0, 4.0]


def test_parameters_without_gradient_are_passed_over() -> None:
    tensors = [Parameter(torch.ones(2)), *parameters([6.0, 8.0])]
    assert clip_grad_norm_(tensors, 1.0).item() == 10.0
    assert tensors[0].grad is None


def test_nothing_to_clip_gives_zero() -> None:
    assert clip_grad_norm_([], 1.0).item() == 0.0
    assert clip_grad_norm_([Parameter(torch.ones(2))], 1.0).item() == 0.0
    assert grad_norm([]).item() == 0.0
    assert clip_grad_norm_(parameters([0.0, 0.0]), 0.0).item() == 0.0
    assert clip_grad_norm_(parameters(torch.zeros(0, 3)), 1.0).item() == 0.0
    with pytest.warns(UserWarning, match="empty generator"):
        clip_grad_norm_((p for p in ()), 1.0)


def test_zero_threshold_gives_zero_gradients_not_nan() -> None:
    tensors = parameters([3.0, 4.0], [0.0])
    clip_grad_norm_(tensors, 0.0)
    assert flat(tensors).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("magnitude", [1e-44, 1e-38, 1e-30, 1e-20, 1e-12, 1e-3, 1e10, 1e18, 1e19, 1e25, 1e30, 1e38])
@pytest.mark.parametrize("norm_type", [1, 2, 3, INF])
def test_float32_norm_neither_overflows_nor_underflows(magnitude: float, norm_type: float) -> None:
    tensors = parameters(*[(magnitude * torch.tensor(v)).float() for v in ([1.0, -2.0], [[0.5]], [0.0])])
    wide = flat(tensors)
    exact = np.linalg.norm(wide.numpy() / magnitude, norm_type) * magnitude
    # float32 rounding of a sum of three; the smallest float32 is 1.4e-45, so at 1e-44 it shows in the second digit
    assert grad_norm(tensors, norm_type).item() == pytest.approx(exact, rel=2e-7, abs=1e-45)
    threshold = float(exact) / 8
    clip_grad_norm_(tensors, threshold, norm_type)
    torch.testing.assert_close(flat(tensors), wide / 8, rtol=1e-6, atol=1e-45)


def test_huge_float32_gradient_is_clipped_where_torch_makes_it_zero() -> None:
    ours, theirs = (parameters([3e30, 4e30], dtype=torch.float32) for _ in range(2))
    clip_grad_norm_(ours, 1.0)
    nn.utils.clip_grad_norm_(theirs, 1.0)
    assert flat(theirs).tolist() == [0.0, 0.0]
    torch.testing.assert_close(flat(ours), torch.tensor([0.6, 0.8], dtype=torch.float64), rtol=2e-7, atol=0)


def test_norm_too_large_for_float32_is_returned_in_float64() -> None:
    (tensor,) = parameters(torch.full((10_000,), 3e38))
    norm = clip_grad_norm_(tensor, 1e-3)
    assert norm.dtype is torch.float64
    assert norm.item() == pytest.approx(3e40, rel=1e-6)
    # every entry is threshold / √10,000; the factor 3e-44 itself would be no normal float32
    torch.testing.assert_close(tensor.grad, torch.full((10_000,), 1e-5), rtol=1e-6, atol=0)


def test_float64_gradient_near_its_own_limit_is_clipped() -> None:
    (tensor,) = parameters([3e300, 4e300])
    assert clip_grad_norm_(tensor, 1.0).item() == pytest.approx(5e300, rel=1e-15)
    torch.testing.assert_close(tensor.grad, torch.tensor([0.6, 0.8], dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_gradients_have_a_float32_norm(dtype: torch.dtype) -> None:
    (tensor,) = parameters(torch.full((10_000,), 1024.0, dtype=dtype))
    norm = clip_grad_norm_(tensor, 100.0)
    assert norm.dtype is torch.float32
    assert norm.item() == 102_400.0  # 1024 · √10,000: beyond float16, exact in float32
    assert torch.equal(tensor.grad, torch.ones(10_000, dtype=dtype))
    for foreach in (None, False):
        norm = clip_grad_norm_(parameters(torch.ones(3, dtype=dtype)), 9.0, foreach=foreach)
        assert norm.item() == pytest.approx(math.sqrt(3), rel=1e-6)  # not the three digits of the gradient's own dtype


def test_mixed_dtypes_share_one_norm() -> None:
    dtypes = [torch.float16, torch.float32, torch.float64, torch.complex64]
    tensors = parameters(*[torch.full((4,), 1.0, dtype=d) for d in dtypes])
    norm = clip_grad_norm_(tensors, 2.0)
    assert norm.dtype is torch.float64
    assert norm.item() == pytest.approx(4.0, rel=1e-7)
    assert all(torch.equal(p.grad, torch.full((4,), 0.5, dtype=d)) for p, d in zip(tensors, dtypes, strict=True))


@pytest.mark.parametrize("bad", [INF, -INF, NAN])
@pytest.mark.parametrize("norm_type", [1, 2, INF])
def test_nonfinite_gradient_stays_and_its_norm_is_returned(bad: float, norm_type: float) -> None:
    tensors = parameters([1.0, bad], [5.0])
    norm = clip_grad_norm_(tensors, 0.1, norm_type)
    assert not math.isfinite(norm.item())
    torch.testing.assert_close(flat(tensors), torch.tensor([1.0, bad, 5.0], dtype=torch.float64), equal_nan=True)


def test_error_if_nonfinite_counts_the_entries() -> None:
    tensors = parameters([1.0, NAN, INF], [5.0])
    with pytest.raises(RuntimeError, match="is nan: 2 of 4 entries are infinite or NaN"):
        clip_grad_norm_(tensors, 0.1, error_if_nonfinite=True)
    assert tensors[1].grad.item() == 5.0


def test_grad_norm_writes_nothing() -> None:
    tensors = random_parameters()
    before = [p.grad._version for p in tensors]
    assert grad_norm(tensors).item() == pytest.approx(flat(tensors).norm().item(), rel=1e-14)
    assert [p.grad._version for p in tensors] == before


def test_nonfinite_parameters_names_those_at_fault() -> None:
    good, bad, none = *parameters([1.0], [NAN, 1.0]), Parameter(torch.ones(1))
    assert nonfinite_parameters([("good", good), ("bad", bad), ("none", none)]) == ["bad"]
    with pytest.raises(TypeError, match="named_parameters must be pairs"):
        nonfinite_parameters(nn.Linear(1, 1))  # type: ignore[arg-type]


def test_foreach_true_is_refused_where_the_device_has_no_kernels() -> None:
    (tensor,) = parameters(torch.ones(2, device="meta"))
    with pytest.raises(RuntimeError, match="foreach must be None or False for gradients on meta"):
        clip_grad_norm_(tensor, 1.0, foreach=True)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"max_norm": -1.0}, ValueError, "max_norm must be a finite number of at least 0, not -1.0"),
        ({"max_norm": NAN}, ValueError, "max_norm must be"),
        ({"norm_type": 0}, ValueError, "norm_type must be a finite number above 0, not 0"),
        ({"parameters": nn.Linear(1, 1)}, TypeError, "parameters must be a tensor or an iterable .* not Linear"),
        ({"parameters": nn.Linear(1, 1).named_parameters()}, TypeError, "parameters must be a tensor or an iterable"),
    ],
)
def test_bad_argument_is_named(arguments: dict[str, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        clip_grad_norm_(**{"parameters": [], "max_norm": 1.0, **arguments})


def test_sparse_gradient_is_refused() -> None:
    table = nn.Embedding(3, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(ValueError, match=r"dense gradients, not one of layout torch.sparse_coo \(shape \(3, 2\)\)"):
        clip_grad_norm_(table.parameters(), 1.0)

"""Norm clipping: the function against torch's and against float64, the clipper against a step clipped by hand."""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

from steadygrad.clip import (
    Auto,
    ClipStats,
    NormClipper,
    Percentile,
    clip_grad_norm_,
    grad_norm,
    nonfinite_parameters,
)

INF, NAN = math.inf, math.nan


def parameters(*gradients: Any, dtype: torch.dtype = torch.float64) -> list[Any]:
    """One parameter of ones for each gradient."""
    made = []
    for gradient in gradients:
        tensor = gradient if isinstance(gradient, Tensor) else torch.tensor(gradient, dtype=dtype)
        parameter = Parameter(torch.ones_like(tensor))
        parameter.grad = tensor.clone()
        made.append(parameter)
    return made


def random_parameters(scale: float = 1.0, dtype: torch.dtype = torch.float64) -> list[Any]:
    generator = torch.Generator().manual_seed(7)
    shapes = [(5, 5), (5, 2), (5,), (3, 5), ()]
    return parameters(*[scale * torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes])


def flat(tensors: list[Parameter]) -> Tensor:
    return torch.cat([p.grad.to(torch.float64).flatten() for p in tensors if p.grad is not None])


# ---------------------------------------------------------------------------------------------------- the function


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


# ------------------------------------------------------------------------------------------ the clipper: optimizers

OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True),
    "Adam fused": lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.9, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "Adadelta": lambda p: torch.optim.Adadelta(p, lr=0.1),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=0.1),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.1),
    "RAdam": lambda p: torch.optim.RAdam(p, lr=0.1),
    "ASGD": lambda p: torch.optim.ASGD(p, lr=0.1),
    "Rprop": lambda p: torch.optim.Rprop(p, lr=0.1),
    "Adafactor": lambda p: torch.optim.Adafactor(p, lr=0.1),
}
each_optimizer = pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())


def gradients(steps: int, scale: float = 3.0) -> Iterator[list[Tensor]]:
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        yield [scale * torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((3, 3), (3,))]


def fresh() -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    return [Parameter(torch.randn(shape, generator=generator, dtype=torch.float64)) for shape in ((3, 3), (3,))]


def give(tensors: list[Parameter], values: list[Tensor]) -> None:
    for parameter, value in zip(tensors, values, strict=True):
        parameter.grad = value.clone()


def frozen(tensors: list[Parameter], optimizer: Optimizer) -> bytes:
    """Parameters and optimizer state, to the bit."""
    return pickle.dumps([[p.detach().numpy().tobytes() for p in tensors], plain(optimizer.state_dict())])


def plain(tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return (str(tree.dtype), tuple(tree.shape), tree.detach().numpy().tobytes())
    if isinstance(tree, dict):
        return [(str(key), plain(value)) for key, value in tree.items()]
    if isinstance(tree, list):
        return [plain(value) for value in tree]
    return repr(tree)


@each_optimizer
def test_step_equals_clipping_by_hand(make: Callable[[Any], Optimizer]) -> None:
    ours, theirs = fresh(), fresh()
    optimizer, reference = make(ours), make(theirs)
    clipper = NormClipper(optimizer, threshold=10.0)
    for values in gradients(6):
        give(ours, values)
        give(theirs, values)
        clip_grad_norm_(theirs, 10.0)
        optimizer.step()
        reference.step()
    assert frozen(ours, optimizer) == frozen(theirs, reference)
    assert 0 < clipper.stats.clipped < 6  # the threshold lies among these norms, or the test would show nothing


@each_optimizer
@pytest.mark.parametrize("bad", [INF, NAN])
@pytest.mark.parametrize("with_closure", [False, True])
def test_skip_leaves_parameters_and_state_to_the_bit(
    make: Callable[[Any], Optimizer], bad: float, with_closure: bool
) -> None:
    tensors = fresh()
    optimizer = make(tensors)
    clipper = NormClipper(optimizer, threshold=10.0)
    for values in gradients(2):
        give(tensors, values)
        optimizer.step()
    before = frozen(tensors, optimizer)

    def closure() -> float:
        tensors[1].grad[2] = bad
        return 4.0

    if with_closure:
        assert optimizer.step(closure) == 4.0
    else:
        closure()
        assert optimizer.step() is None
    assert frozen(tensors, optimizer) == before
    assert clipper.stats.skipped == 1
    assert clipper.stats.last_skipped == ("parameter 1 of group 0 (shape 3)",)
    tensors[1].grad[2] = 1.0
    optimizer.step()
    assert frozen(tensors, optimizer) != before


def test_first_step_skipped_leaves_the_state_empty() -> None:
    tensors = fresh()
    optimizer = torch.optim.Adam(tensors)
    NormClipper(optimizer, threshold=1.0)
    give(tensors, [torch.full((3, 3), NAN, dtype=torch.float64), torch.ones(3, dtype=torch.float64)])
    optimizer.step()
    assert not optimizer.state


def test_gradient_below_the_threshold_is_not_written_by_the_clipper() -> None:
    thresholds: list[Any] = [1e6, "auto", Percentile(100)]
    for threshold in thresholds:
        tensors = fresh()
        optimizer = torch.optim.SGD(tensors, lr=0.1)
        NormClipper(optimizer, threshold)
        give(tensors, next(gradients(1)))
        before = [p.grad._version for p in tensors]
        optimizer.step()
        assert [p.grad._version for p in tensors] == before


def test_optimizer_whose_step_takes_no_closure_is_clipped() -> None:
    class Plain(Optimizer):
        def __init__(self, tensors: list[Parameter]) -> None:
            super().__init__(tensors, {})

        def step(self) -> None:  # type: ignore[override]
            for parameter in self.param_groups[0]["params"]:
                parameter.data -= parameter.grad

    tensors = parameters([3.0, 4.0])
    optimizer = Plain(tensors)
    NormClipper(optimizer, threshold=1.0)
    optimizer.step()
    torch.testing.assert_close(tensors[0].data, torch.tensor([0.4, 0.2], dtype=torch.float64))


# ------------------------------------------------------------------------------------------------ the clipper: LBFGS


def lbfgs(fail_at: int | None, line_search: str | None = None) -> tuple[list[Any], Any, Callable[[], Tensor]]:
    """A valley to descend into; evaluation number `fail_at` gives a gradient that is not finite."""
    tensors: list[Any] = [Parameter(torch.tensor([-1.0, 2.0], dtype=torch.float64))]
    optimizer = torch.optim.LBFGS(tensors, lr=0.1, max_iter=5, line_search_fn=line_search)
    count = itertools.count(1)

    def closure() -> Tensor:
        optimizer.zero_grad()
        x, y = tensors[0]
        loss = x**2 + 10 * y**2 + x**4
        loss.backward()
        if next(count) == fail_at:
            tensors[0].grad[0] = NAN
        return loss

    return tensors, optimizer, closure


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_lbfgs_equals_a_closure_clipped_by_hand(line_search: str | None) -> None:
    ours, optimizer, closure = lbfgs(None, line_search)
    theirs, reference, bare = lbfgs(None, line_search)
    clipper = NormClipper(optimizer, threshold=40.0)

    def by_hand() -> Tensor:
        loss = bare()
        clip_grad_norm_(theirs, 40.0)
        return loss

    # the first norm is 40.4, the second below 40: were both clipped, LBFGS would find no curvature and leap away
    for _ in range(4):
        assert torch.equal(optimizer.step(closure), reference.step(by_hand))
    assert frozen(ours, optimizer) == frozen(theirs, reference)
    assert 0 < clipper.stats.clipped < clipper.stats.steps
    assert clipper.stats.steps > 4


@pytest.mark.parametrize("fail_at", [6, 7, 9])  # the first, second and fourth evaluation of the second step
@pytest.mark.parametrize("nonfinite", ["skip", "raise"])
def test_lbfgs_step_with_any_nonfinite_evaluation_is_undone(fail_at: int, nonfinite: Any) -> None:
    tensors, optimizer, closure = lbfgs(fail_at)
    clipper = NormClipper(optimizer, threshold=10.0, nonfinite=nonfinite)
    optimizer.step(closure)
    assert clipper.stats.steps == 5
    before = frozen(tensors, optimizer)
    if nonfinite == "raise":
        with pytest.raises(FloatingPointError, match="parameter 0 of group 0"):
            optimizer.step(closure=closure)
    else:
        assert torch.isfinite(optimizer.step(closure=closure))
    assert frozen(tensors, optimizer) == before
    assert clipper.stats.steps == fail_at
    optimizer.step(closure)
    assert frozen(tensors, optimizer) != before


# --------------------------------------------------------------------- the clipper: schedulers, scalers, attachment


@pytest.mark.parametrize("clipper_first", [True, False])
@pytest.mark.parametrize("first_is_skipped", [True, False])
@pytest.mark.parametrize("with_closure", [True, False])
def test_scheduler_works_in_either_order_without_warning(
    clipper_first: bool, first_is_skipped: bool, with_closure: bool
) -> None:
    tensors = parameters([3.0, 4.0])
    optimizer = torch.optim.SGD(tensors, lr=1.0)

    def schedule() -> torch.optim.lr_scheduler.LRScheduler:
        return torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)

    if clipper_first:
        clipper, scheduler = NormClipper(optimizer, threshold=1.0), schedule()
    else:
        scheduler, clipper = schedule(), NormClipper(optimizer, threshold=1.0)
    again = schedule()  # a second one finds the step wrapped, and must not wrap it out of reach
    if first_is_skipped:
        tensors[0].grad[0] = NAN
    optimizer.step(lambda: 1.0) if with_closure else optimizer.step()
    scheduler.step()  # pytest makes warnings errors: torch warns here if it believes step() was not called
    again.step()
    tensors[0].grad[:] = torch.tensor([3.0, 4.0])
    tensors[0].data.zero_()
    optimizer.step()
    # lr 1 · 0.5 · 0.5 from two schedulers, gradient (3, 4)/5
    torch.testing.assert_close(tensors[0].data, torch.tensor([-0.15, -0.2], dtype=torch.float64))
    assert (clipper.stats.steps, clipper.stats.skipped) == (2, int(first_is_skipped))


def test_clipper_made_after_the_only_scheduler_does_not_warn() -> None:
    tensors = parameters([3.0, 4.0])
    optimizer = torch.optim.SGD(tensors, lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    NormClipper(optimizer, threshold=1.0)
    optimizer.step()
    scheduler.step()  # torch warns here of a step that was overridden without its mark
    assert optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize("scheduler", ["none", "before", "after"])
def test_detach_gives_the_step_back(scheduler: str) -> None:
    tensors = parameters([30.0, 40.0])
    optimizer = torch.optim.SGD(tensors, lr=1.0)
    if scheduler == "before":
        torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    step = vars(optimizer).get("step")
    clipper = NormClipper(optimizer, threshold=1.0)
    if scheduler == "after":
        torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    clipper.detach()
    clipper.detach()
    if scheduler != "after":
        assert vars(optimizer).get("step") is step
    optimizer.step()
    assert tensors[0].tolist() == [-29.0, -39.0]
    assert clipper.stats.steps == 0
    again = NormClipper(optimizer, threshold=1.0)
    optimizer.step()
    assert again.stats.steps == 1
    assert tensors[0].grad.norm().item() == pytest.approx(1.0)


@pytest.mark.parametrize("scheduler_between", [True, False])
def test_second_clipper_is_refused(scheduler_between: bool) -> None:
    optimizer = torch.optim.SGD(fresh(), lr=1.0)
    NormClipper(optimizer, threshold=1.0)
    if scheduler_between:
        torch.optim.lr_scheduler.ConstantLR(optimizer)
    with pytest.raises(ValueError, match="optimizer must have no other NormClipper"):
        NormClipper(optimizer, threshold=1.0)


def test_copies_and_state_dict_of_the_optimizer_know_nothing_of_the_clipper() -> None:
    tensors, others = fresh(), fresh()
    optimizer, reference = torch.optim.Adam(tensors), torch.optim.Adam(others)
    clipper = NormClipper(optimizer, threshold=100.0)
    for values in gradients(2):
        give(tensors, values)
        give(others, values)
        optimizer.step()
        reference.step()
    assert plain(optimizer.state_dict()) == plain(reference.state_dict())
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        twin.step()
        assert "step" not in vars(twin)
    assert clipper.stats.steps == 2


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("nonfinite", ["skip", "raise", "shrink"])
def test_grad_scaler_clips_unscaled_gradients_and_keeps_its_own_skips(fused: bool, nonfinite: Any) -> None:
    (tensor,) = tensors = parameters([3.0, 4.0], dtype=torch.float32)
    optimizer = torch.optim.SGD(tensors, lr=1.0, fused=fused)
    recurrent = tensors if nonfinite == "shrink" else None
    clipper = NormClipper(optimizer, threshold=1.0, nonfinite=nonfinite, recurrent=recurrent)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(torch.zeros(()))  # the scaler makes its scale with the first loss
    tensor.grad = 1024.0 * torch.tensor([3.0, 4.0])
    scaler.step(optimizer)
    scaler.update()
    torch.testing.assert_close(tensor.data, torch.tensor([0.4, 0.2]))
    assert clipper.stats.norm_before == pytest.approx(5.0)
    before = tensor.detach().clone()
    tensor.grad = torch.tensor([INF, 1.0])
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(tensor, before)
    assert scaler.get_scale() == 512.0
    assert clipper.stats.skipped == int(fused)  # an optimizer that is not fused is never called


def test_shrink_under_a_grad_scaler_shrinks_by_the_same_two_percent() -> None:
    (tensor,) = tensors = parameters([2.0, 4.0], dtype=torch.float32)
    tensor.data.copy_(torch.tensor([2.0, 4.0]))
    optimizer = torch.optim.SGD(tensors, lr=0.5, fused=True)
    clipper = NormClipper(optimizer, threshold=1.0, nonfinite="shrink", recurrent=tensors)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(torch.zeros(()))
    tensor.grad = 1024.0 * torch.tensor([3e11, 4e11])
    scaler.step(optimizer)
    torch.testing.assert_close(tensor.data, torch.tensor([1.98, 3.96]))  # 1 − 0.5 · 0.02 = 0.99
    assert clipper.stats.norm_before == pytest.approx(5e11)
    assert clipper.stats.norm_after == pytest.approx(0.02 * math.sqrt(20), rel=1e-6)


# ------------------------------------------------------------------------------- the clipper: what is not finite


def recurrent_model() -> Any:
    torch.manual_seed(0)
    return nn.ModuleDict({"rnn": nn.RNN(2, 4), "readout": nn.Linear(4, 1)}).double()


def explode(model: Any, name: str, value: float) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    model.get_parameter(name).grad.view(-1)[0] = value


def test_raise_names_the_parameter_and_changes_nothing() -> None:
    model = recurrent_model()
    optimizer = torch.optim.Adam(model.parameters())
    clipper = NormClipper(optimizer, 1.0, nonfinite="raise", named_parameters=model.named_parameters())
    explode(model, "rnn.weight_hh_l0", INF)
    before = frozen(list(model.parameters()), optimizer)
    with pytest.raises(FloatingPointError, match=r"norm is inf because of rnn\.weight_hh_l0; no update was made"):
        optimizer.step()
    assert frozen(list(model.parameters()), optimizer) == before
    assert clipper.stats.last_skipped == ("rnn.weight_hh_l0",)


def test_names_come_from_the_optimizer_where_it_has_them() -> None:
    model = recurrent_model()
    optimizer = torch.optim.SGD(model.named_parameters(), lr=1.0)
    clipper = NormClipper(optimizer, 1.0)
    explode(model, "readout.bias", NAN)
    optimizer.step()
    assert clipper.stats.last_skipped == ("readout.bias",)


def test_names_without_any_say_group_and_shape() -> None:
    model = recurrent_model()
    groups = [{"params": list(model["rnn"].parameters())}, {"params": list(model["readout"].parameters())}]
    optimizer = torch.optim.SGD(groups, lr=1.0)
    clipper = NormClipper(optimizer, 1.0)
    explode(model, "rnn.weight_hh_l0", NAN)
    model["readout"].weight.grad[0, 0] = INF
    optimizer.step()
    assert clipper.stats.last_skipped == (
        "parameter 1 of group 0 (shape 4x4)",
        "parameter 0 of group 1 (shape 1x4)",
    )


@pytest.mark.parametrize("value", [INF, NAN, 1.1e10])
@pytest.mark.parametrize("by_name", [True, False])
def test_shrink_takes_two_percent_of_the_recurrent_matrix_and_nothing_else(value: float, by_name: bool) -> None:
    model = recurrent_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    W = model["rnn"].weight_hh_l0
    known: dict[str, Any] = {"named_parameters": model.named_parameters()} if by_name else {"recurrent": [W]}
    clipper = NormClipper(optimizer, threshold=1e20, nonfinite="shrink", **known)
    explode(model, "readout.weight", value)
    before = copy.deepcopy(model.state_dict())
    optimizer.step()
    for name, parameter in model.named_parameters():
        # W ← W − 0.5 · 0.02 W = 0.99 W; float64 rounding alone
        expected = 0.99 * before[name] if parameter is W else before[name]
        torch.testing.assert_close(parameter.data, expected, rtol=1e-14, atol=0)
    stats = clipper.stats
    assert (stats.steps, stats.shrunk, stats.skipped) == (1, 1, 0)
    assert stats.norm_after == pytest.approx(0.02 * before["rnn.weight_hh_l0"].norm().item(), rel=1e-12)


def test_shrink_leaves_ordinary_gradients_to_the_clipping() -> None:
    model = recurrent_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    clipper = NormClipper(optimizer, 2.0, nonfinite="shrink", named_parameters=model.named_parameters())
    explode(model, "readout.weight", 0.9e10)
    optimizer.step()
    assert clipper.stats.clipped == 1
    assert clipper.stats.shrunk == 0
    assert grad_norm(model.parameters()).item() == pytest.approx(2.0, rel=1e-12)


# ------------------------------------------------------------------------------------------ thresholds that adapt


def feed(clipper: NormClipper, norms: Any) -> list[float]:
    """One step for each norm; returns the thresholds they met."""
    (tensor,) = clipper.optimizer.param_groups[0]["params"]
    met = []
    for norm in norms:
        met.append(clipper.threshold)
        tensor.grad = torch.tensor([float(norm)], dtype=torch.float64)
        clipper.optimizer.step()
    return met


def clipper_of(threshold: Any, **options: Any) -> NormClipper:
    return NormClipper(torch.optim.SGD(parameters([0.0]), lr=0.0), threshold, **options)


def lognormal(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(size=count)


def test_auto_equals_its_formula() -> None:
    rule = Auto(warmup=5, multiple=3.0, window=20)
    norms = lognormal(200)
    norms[[60, 61, 130]] = 1e6
    a: list[float] = []
    for n, (norm, met) in enumerate(zip(norms, feed(clipper_of(rule), norms), strict=True)):
        if n == 0:
            assert met == INF
        elif n < 5:
            assert met == 3.0 * np.percentile(norms[:n], 50, method="lower")
        if n == 5:
            a = [min(x, 10 * np.percentile(norms[:5], 50, method="lower")) for x in norms[:5]]
        if n >= 5:
            average = np.mean(a[-20:])
            # the running sum is renewed every 20 updates: at most 20 roundings at the size of 1e6 against 1
            assert met == pytest.approx(3.0 * average, rel=1e-9)
            a.append(min(norm, 10 * average))


def test_auto_is_not_poisoned_by_an_explosion_at_any_time() -> None:
    ordinary = lognormal(400)
    calm = feed(clipper_of("auto"), ordinary)[-1]
    for position in (0, 1, 2, 50, 99, 100, 300):
        exploded = ordinary.copy()
        exploded[position] = 1e30
        clipper = clipper_of("auto")
        met = feed(clipper, exploded)
        if position:
            assert clipper.stats.history[position][1] < 1e3  # clipped to something ordinary
        # it counts as ten averages among the up to 400 so far; in the first average, of 100, ten medians
        assert met[-1] < 1.1 * calm


def test_auto_follows_a_lasting_change_of_scale_within_one_window() -> None:
    clipper = clipper_of(Auto(warmup=10, multiple=2.0, window=50))
    for scale in (1.0, 1000.0, 1e-3):
        feed(clipper, [scale] * 100)
        assert clipper.threshold == pytest.approx(2.0 * scale, rel=1e-9)


def test_auto_and_percentile_pass_over_zero_norms() -> None:
    for rule in (Auto(warmup=2), Percentile(50)):
        clipper = clipper_of(rule)
        feed(clipper, [0.0, 0.0])
        assert clipper.threshold == INF
        feed(clipper, [1.0, 0.0, 1.0, 0.0])
        assert clipper.threshold >= 1.0


@pytest.mark.parametrize("p", [0.1, 10, 50, 90, 99.9, 100])
def test_percentile_equals_numpy_over_the_window_before(p: float) -> None:
    norms = np.round(lognormal(120), 1) + 0.1  # rounded, so that equal norms occur
    met = feed(clipper_of(Percentile(p, window=30)), norms)
    assert met[0] == INF
    for n in range(1, 120):
        assert met[n] == np.percentile(norms[max(0, n - 30) : n], p, method="inverted_cdf")


def test_nonfinite_and_shrunk_norms_do_not_enter_the_statistics() -> None:
    for rule in (Auto(warmup=2), Percentile(100)):
        clipper = clipper_of(rule)
        feed(clipper, [1.0, 1.0, 1.0])
        before = clipper.threshold
        feed(clipper, [NAN, INF])
        assert clipper.threshold == before
        assert clipper.stats.skipped == 2


# ------------------------------------------------------------------------------------------- statistics and resuming


def test_stats_count_what_happened() -> None:
    clipper = clipper_of(2.0, history=3)
    feed(clipper, [1.0, 4.0, NAN, 3.0])
    stats = clipper.stats
    assert isinstance(stats, ClipStats)
    assert (stats.steps, stats.clipped, stats.skipped, stats.clip_rate) == (4, 2, 1, 0.5)
    assert (stats.norm_before, stats.norm_after, stats.threshold) == (3.0, 2.0, 2.0)
    assert stats.history[0] == (4.0, 2.0)
    assert math.isnan(stats.history[1][0])
    assert stats.history[1][1] == 0.0
    assert stats.history[2] == (3.0, 2.0)
    assert str(stats) == (
        "clipped 2 of 4 gradients (50 %); skipped 1; not finite last: parameter 0 of group 0 (shape 1); "
        "last norm 3 -> 2; threshold 2"
    )
    feed(clipper, [5.0])
    assert stats.steps == 4  # a snapshot
    with pytest.raises(AttributeError):
        stats.steps = 0  # type: ignore[misc]


def test_stats_before_the_first_step_are_readable() -> None:
    stats = clipper_of("auto", history=0).stats
    assert (stats.clip_rate, stats.history) == (0.0, ())
    assert str(stats) == "clipped 0 of 0 gradients (0 %); threshold inf"


def test_scalar_and_empty_steps_are_judged() -> None:
    optimizer = torch.optim.SGD([Parameter(torch.tensor(1.0))], lr=1.0)
    clipper = NormClipper(optimizer, 1.0)
    optimizer.step()
    assert clipper.stats.norm_before == 0.0
    optimizer.param_groups[0]["params"][0].grad = torch.tensor(NAN)
    optimizer.step()
    assert clipper.stats.last_skipped == ("parameter 0 of group 0 (shape scalar)",)


@pytest.mark.parametrize("rule", [1.5, Auto(warmup=30, window=40), Percentile(80, 25)], ids=repr)
@pytest.mark.parametrize("stop", [0, 1, 29, 30, 31, 100])
def test_state_dict_through_json_continues_to_the_same_numbers(rule: Any, stop: int) -> None:
    norms = lognormal(160)
    norms[[20, 90, 110]] = (INF, NAN, 1e8)
    whole, first, second = clipper_of(rule), clipper_of(rule), clipper_of(rule)
    met = feed(whole, norms)
    feed(first, norms[:stop])
    second.load_state_dict(json.loads(json.dumps(first.state_dict(), allow_nan=False)))
    assert feed(second, norms[stop:]) == met[stop:]
    assert json.dumps(second.state_dict()) == json.dumps(whole.state_dict())
    assert str(second.stats) == str(whole.stats)


def test_state_of_another_rule_is_refused() -> None:
    for rule, other in ((Auto(), Auto(window=500)), (Percentile(5), 1.0), (1.0, "auto")):
        with pytest.raises(ValueError, match="state must come from a clipper with the threshold"):
            clipper_of(rule).load_state_dict(clipper_of(other).state_dict())
    with pytest.raises(ValueError, match="it lacks clipped, history"):
        clipper_of(1.0).load_state_dict({"steps": 1})


def test_fixed_threshold_is_not_loaded() -> None:
    clipper = clipper_of(2.0)
    clipper.load_state_dict(clipper_of(1.0).state_dict())
    assert clipper.threshold == 2.0


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"optimizer": [1]}, TypeError, "optimizer must be a torch.optim.Optimizer, not list"),
        ({"threshold": 0.0}, ValueError, "threshold must be a finite number above 0, not 0.0"),
        ({"threshold": INF}, ValueError, "threshold must be a finite number above 0, not inf"),
        ({"threshold": "atuo"}, ValueError, "threshold must be a number, 'auto', Auto"),
        ({"nonfinite": "skipp"}, ValueError, r"nonfinite must be one of .* \(did you mean 'skip'\?\)"),
        ({"history": -1}, ValueError, "history must be a whole number of at least 0, not -1"),
        ({"nonfinite": "shrink"}, ValueError, "'shrink' must know the recurrent matrices"),
        ({"nonfinite": "shrink", "recurrent": []}, ValueError, "recurrent must be parameters of the optimizer"),
        ({"nonfinite": "shrink", "recurrent": fresh()}, ValueError, "recurrent must be .* 2 of 2 are not"),
        ({"recurrent": []}, ValueError, "recurrent must be left out unless nonfinite='shrink', and that is 'skip'"),
        ({"named_parameters": nn.Linear(1, 1)}, TypeError, "named_parameters must be pairs of name and tensor"),
        ({"named_parameters": []}, ValueError, "named_parameters must name the optimizer's parameters"),
    ],
)
def test_bad_clipper_argument_is_named_and_nothing_is_attached(
    arguments: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    optimizer = torch.optim.SGD(fresh(), lr=1.0)
    with pytest.raises(error, match=sentence):
        NormClipper(**{"optimizer": optimizer, "threshold": 1.0, **arguments})
    assert "step" not in vars(optimizer)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Auto(warmup=0), "warmup must be a whole number of at least 1, not 0"),
        (lambda: Auto(multiple=0), "multiple must be a finite number above 0, not 0"),
        (lambda: Auto(warmup=50, window=20), "window must be a whole number of at least 50, not 20"),
        (lambda: Percentile(0), r"p must be a number in \(0, 100\], not 0"),
        (lambda: Percentile(50, window=0), "window must be a whole number of at least 1, not 0"),
    ],
)
def test_bad_rule_is_named(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_repr_says_how_the_clipper_was_made() -> None:
    assert repr(clipper_of(Auto(), nonfinite="raise")) == (
        "NormClipper(SGD, threshold=Auto(warmup=100, multiple=5.0, window=1000), nonfinite='raise')"
    )

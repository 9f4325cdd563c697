"""What holds for every task: shapes, chance, loss, judgement, and the sentences for bad input."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from steadygrad.tasks import Batch, Task

Seeded = Callable[[int], torch.Generator]


def perfect_outputs(task: Task, batch: Batch) -> Tensor:
    """The read-out, [S, B, output_size], of a network that knows the answers."""
    if task.kind == "regression":
        return batch.targets.double()
    return 50 * F.one_hot(batch.targets, task.output_size).double()


def test_a_batch_has_the_shapes_and_types_the_task_announces(task: Task, seeded: Seeded) -> None:
    batch = task.sample(3, 23, seeded(1))
    steps = len(batch.inputs)
    if task.tokens:
        assert batch.inputs.shape == (steps, 3)
        assert batch.inputs.dtype == torch.int64
        assert batch.inputs.min() >= 0
        assert batch.inputs.max() < task.input_size
    else:
        assert batch.inputs.shape == (steps, 3, task.input_size)
        assert batch.inputs.dtype == torch.float32
    hidden = torch.randn(steps, 3, task.hidden_size)
    read = hidden[batch.steps]
    if task.kind == "classification":
        assert batch.targets.shape == read.shape[:2]
        assert batch.targets.dtype == torch.int64
        assert batch.targets.min() >= 0
        assert batch.targets.max() < task.output_size
    else:
        assert batch.targets.shape == (*read.shape[:2], task.output_size)
        assert batch.targets.dtype == torch.float32
    assert batch.inputs.is_contiguous()


def test_the_mask_marks_the_counted_steps_which_end_with_the_last(task: Task, seeded: Seeded) -> None:
    batch = task.sample(2, 23, seeded(1))
    steps = len(batch.inputs)
    assert batch.mask.shape == (steps,)
    assert batch.mask.nonzero().flatten().tolist() == list(range(steps))[batch.steps]
    assert len(batch.targets) == batch.mask.sum()
    assert batch.mask[-1]


def test_total_steps_is_the_length_of_the_longest_batch(task: Task, seeded: Seeded) -> None:
    generator = seeded(1)
    assert max(len(task.sample(1, 30, generator).inputs) for _ in range(60)) == task.total_steps(30)


def test_every_task_can_be_drawn_at_its_minimum_length(task: Task, seeded: Seeded) -> None:
    batch = task.sample(50, task.minimum_length, seeded(1))
    assert task.is_correct(perfect_outputs(task, batch), batch).all()


@pytest.mark.parametrize(("batch_size", "length"), [(10_000, 50), (50, 10_000)])
def test_large_batches_and_long_sequences_are_drawn(task: Task, seeded: Seeded, batch_size: int, length: int) -> None:
    batch = task.sample(batch_size, length, seeded(1))
    assert length <= len(batch.inputs) <= task.total_steps(length)
    assert batch.inputs.shape[1] == batch.targets.shape[1] == batch_size


def test_the_same_generator_state_gives_the_same_batch_and_the_next_state_another(task: Task, seeded: Seeded) -> None:
    one, two = seeded(5), seeded(5)
    first, again, later = task.sample(20, 40, one), task.sample(20, 40, two), task.sample(20, 40, one)
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.targets, again.targets)
    assert first.steps == again.steps
    assert not torch.equal(one.get_state(), two.get_state())
    assert not torch.equal(first.targets, later.targets)


def test_the_generator_is_the_only_source_of_chance(task: Task, seeded: Seeded) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = task.sample(20, 40, seeded(5))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    assert torch.equal(first.inputs, task.sample(20, 40, seeded(5)).inputs)


def test_default_device_and_dtype_leave_a_batch_as_it_is(task: Task, seeded: Seeded) -> None:
    first = task.sample(4, 20, seeded(5))
    generator = seeded(5)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            second = task.sample(4, 20, generator)
    finally:
        torch.set_default_dtype(torch.float32)
    assert second.inputs.device.type == "cpu"
    assert second.inputs.dtype == first.inputs.dtype
    assert torch.equal(first.inputs, second.inputs)
    assert torch.equal(first.targets, second.targets)


def test_perfect_outputs_are_right_and_cost_nothing(task: Task, seeded: Seeded) -> None:
    batch = task.sample(30, 25, seeded(3))
    outputs = perfect_outputs(task, batch)
    assert task.is_correct(outputs, batch).tolist() == [True] * 30
    # exp(−50) ≈ 2e-22 is all that is left to the other classes.
    assert task.loss(outputs, batch).item() < 1e-20


def test_spoiling_the_last_step_of_one_sequence_makes_that_one_wrong(task: Task, seeded: Seeded) -> None:
    batch = task.sample(4, 25, seeded(3))
    outputs = perfect_outputs(task, batch)
    if task.kind == "regression":
        outputs[-1, 2] += 1
    else:
        outputs[-1, 2] = outputs[-1, 2].roll(1)
    assert task.is_correct(outputs, batch).tolist() == [True, True, False, True]
    assert task.loss(outputs, batch) > 1e-3


def test_an_answer_that_is_not_a_number_is_never_right(task: Task, seeded: Seeded) -> None:
    batch = task.sample(40, 25, seeded(3))
    outputs = perfect_outputs(task, batch)
    # The right class itself becomes NaN, which argmax would take for the largest.
    outputs[-1][:20] = math.nan
    assert task.is_correct(outputs, batch).tolist() == [False] * 20 + [True] * 20
    assert task.loss(outputs, batch).isnan()


def test_the_loss_is_the_mean_over_batch_and_counted_steps(task: Task, seeded: Seeded) -> None:
    batch = task.sample(3, 12, seeded(3))
    shape = (len(batch.targets), 3, task.output_size)
    outputs = torch.randn(shape, generator=seeded(4), dtype=torch.float64)
    total = 0.0
    for s in range(shape[0]):
        for b in range(3):
            y = outputs[s, b].tolist()
            if task.kind == "classification":
                total += math.log(sum(math.exp(value) for value in y)) - y[int(batch.targets[s, b])]
            else:
                total += (y[0] - batch.targets[s, b, 0].item()) ** 2
    # Both sides are float64 sums of fewer than 10⁴ terms of order one.
    assert task.loss(outputs, batch).item() == pytest.approx(total / (3 * shape[0]), rel=1e-12)


def test_the_gradient_of_the_loss_is_the_output_error_divided_by_the_answers(task: Task, seeded: Seeded) -> None:
    batch = task.sample(3, 12, seeded(3))
    shape = (len(batch.targets), 3, task.output_size)
    outputs = torch.randn(shape, generator=seeded(4), dtype=torch.float64).requires_grad_()
    task.loss(outputs, batch).backward()
    y = outputs.detach()
    if task.kind == "classification":
        expected = (y.softmax(-1) - F.one_hot(batch.targets, task.output_size)) / (3 * shape[0])
    else:
        expected = 2 * (y - batch.targets) / (3 * shape[0])
    torch.testing.assert_close(outputs.grad, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_loss_has_the_type_of_the_outputs(task: Task, seeded: Seeded, dtype: torch.dtype) -> None:
    batch = task.sample(3, 12, seeded(3))
    outputs = torch.zeros(len(batch.targets), 3, task.output_size, dtype=dtype)
    assert task.loss(outputs, batch).dtype == dtype


def test_a_task_cannot_be_changed_and_equals_its_twin(task: Task) -> None:
    twin = dataclasses.replace(task)
    assert twin == task
    assert hash(twin) == hash(task)
    (option,) = dataclasses.fields(task)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(task, option.name, "paper")


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "3", None])
def test_a_batch_that_is_no_positive_whole_number_is_refused(task: Task, seeded: Seeded, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^batch must be a whole number of at least 1, not {value!r}$"):
        task.sample(value, 20, seeded(1))


@pytest.mark.parametrize("value", [0, -7, 20.0, True, None])
def test_a_length_that_is_no_whole_number_or_too_short_is_refused_with_the_minimum(
    task: Task, seeded: Seeded, value: Any
) -> None:
    sentence = rf"^length of {task.name} must be a whole number of at least {task.minimum_length}, not {value!r}$"
    with pytest.raises(ValueError, match=sentence):
        task.sample(2, value, seeded(1))
    with pytest.raises(ValueError, match=sentence):
        task.total_steps(value)


def test_one_step_less_than_the_minimum_length_is_refused(task: Task, seeded: Seeded) -> None:
    with pytest.raises(ValueError, match=f"at least {task.minimum_length}, not {task.minimum_length - 1}"):
        task.sample(2, task.minimum_length - 1, seeded(1))


@pytest.mark.parametrize("value", [None, 3, "cpu"])
def test_a_generator_that_is_none_is_refused(task: Task, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"^generator must be a torch.Generator, not {value!r}$"):
        task.sample(2, 20, value)


def test_outputs_of_another_shape_are_refused_with_both_shapes_and_the_fix(task: Task, seeded: Seeded) -> None:
    batch = task.sample(2, 20, seeded(1))
    S, O = len(batch.targets), task.output_size
    for shape in [(S, 2, O + 1), (S + 1, 2, O), (S, 1, O), (2, O), (S, 2)]:
        for ask in (task.loss, task.is_correct):
            with pytest.raises(ValueError, match=r"read out hidden\[batch.steps\]$") as refusal:
                ask(torch.zeros(shape), batch)
            assert str((S, 2, O)) in str(refusal.value)
            assert f"not {shape}" in str(refusal.value)

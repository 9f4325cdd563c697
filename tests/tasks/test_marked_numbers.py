"""Addition and multiplication: targets follow from the marked numbers, marks lie where the paper says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from steadygrad.tasks import Addition, Batch, Multiplication

Seeded = Callable[[int], torch.Generator]
Yardstick = Callable[[Sequence[float]], float]

LENGTHS = [10, 11, 19, 25, 54, 100]


def marked(batch: Batch) -> list[list[tuple[int, float]]]:
    """For every sequence the marked steps and the numbers there."""
    found = []
    for sequence in batch.inputs.transpose(0, 1).tolist():
        assert {mark for _, mark in sequence} == {0.0, 1.0}
        found.append([(t, number) for t, (number, mark) in enumerate(sequence) if mark])
    return found


@pytest.mark.parametrize("length", LENGTHS)
def test_addition_targets_equal_half_the_sum_of_the_two_marked_numbers(seeded: Seeded, length: int) -> None:
    batch = Addition().sample(200, length, seeded(length))
    for ((_, a), (_, b)), target in zip(marked(batch), batch.targets.flatten().tolist(), strict=True):
        # a + b < 2 is rounded once to 24 bits: at most 2⁻²⁴ off, and 2⁻²⁵ after halving.
        assert abs(target - (a + b) / 2) <= 2**-25


@pytest.mark.parametrize("length", LENGTHS)
def test_multiplication_targets_equal_the_product_not_half_of_it(seeded: Seeded, length: int) -> None:
    batch = Multiplication().sample(200, length, seeded(length))
    for ((_, a), (_, b)), target in zip(marked(batch), batch.targets.flatten().tolist(), strict=True):
        # a·b < 1 is rounded once to 24 bits.
        assert abs(target - a * b) <= 2**-25


@pytest.mark.parametrize("kind", [Addition, Multiplication])
@pytest.mark.parametrize("length", LENGTHS)
def test_marks_lie_at_every_step_of_the_papers_two_ranges_and_never_together(
    seeded: Seeded, kind: type[Addition] | type[Multiplication], length: int
) -> None:
    batch = kind().sample(1500, length, seeded(1))
    steps = len(batch.inputs)
    # Counting from 1: i in [1, T'/10], j in [T'/10, T'/2] with the steps of the first range left to i.
    first = {t - 1 for t in range(1, steps + 1) if 10 * t <= steps}
    second = {t - 1 for t in range(1, steps + 1) if steps <= 10 * t and 2 * t <= steps} - first
    found = marked(batch)
    assert all(len(marks) == 2 for marks in found)
    assert {marks[0][0] for marks in found} == first
    assert {marks[1][0] for marks in found} == second
    assert tuple(map(set, kind().position_ranges(steps))) == (first, second)


def test_positions_are_uniform_and_independent_of_each_other(seeded: Seeded, uniform_p: Yardstick) -> None:
    batch = Addition().sample(8000, 40, seeded(2))
    first_range, second_range = Addition().position_ranges(len(batch.inputs))
    counts = {(i, j): 0 for i in first_range for j in second_range}
    for (i, _), (j, _) in marked(batch):
        counts[i, j] += 1
    assert uniform_p(list(counts.values())) > 1e-3


def test_numbers_are_uniform_on_the_unit_interval(seeded: Seeded, uniform_p: Yardstick) -> None:
    numbers = Addition().sample(200, 100, seeded(3)).inputs[..., 0]
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert uniform_p(torch.histc(numbers, bins=50, min=0, max=1).long().tolist()) > 1e-3


def test_the_number_of_steps_is_uniform_from_the_length_to_eleven_tenths_of_it(
    seeded: Seeded, uniform_p: Yardstick
) -> None:
    generator = seeded(4)
    counts = dict.fromkeys(range(55, 61), 0)  # 11/10 · 55 = 60.5
    for _ in range(1200):
        batch = Addition().sample(1, 55, generator)
        counts[len(batch.inputs)] += 1
        assert batch.steps == slice(len(batch.inputs) - 1, len(batch.inputs))
    assert uniform_p(list(counts.values())) > 1e-3


def test_numbers_are_the_mersenne_twisters_24_bit_fractions(seeded: Seeded) -> None:
    """numpy's twister gives the same 32-bit words from the same seed: the batch depends on no machine's rounding."""
    batch = Addition().sample(3, 10, seeded(11))
    twister = np.random.RandomState(11)
    steps = 10 + twister.randint(0, 2**32, dtype=np.uint32) % 2
    words = twister.randint(0, 2**32, size=(int(steps), 3), dtype=np.uint32)
    assert batch.inputs[..., 0].double().tolist() == ((words % 2**24) / 2**24).tolist()


def answers(errors: list[float], dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, Batch]:
    """Outputs that miss a target of 0 by `errors` exactly."""
    outputs = torch.tensor(errors, dtype=dtype).view(1, -1, 1)
    return outputs, Batch(torch.zeros(10, len(errors), 2), torch.zeros_like(outputs), slice(9, 10))


@pytest.mark.parametrize("kind", [Addition, Multiplication])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_absolute_error_is_right_below_a_twenty_fifth_and_wrong_at_it(
    kind: type[Addition] | type[Multiplication], dtype: torch.dtype
) -> None:
    edge = torch.tensor(0.04, dtype=dtype)
    below = torch.nextafter(edge, torch.zeros_like(edge)).item()
    outputs, batch = answers([0.0, below, -below, edge.item(), -edge.item(), 0.1, math.inf, math.nan], dtype)
    assert kind().is_correct(outputs, batch).tolist() == [True, True, True, False, False, False, False, False]


@pytest.mark.parametrize("kind", [Addition, Multiplication])
def test_a_squared_error_is_right_below_a_twenty_fifth_that_is_an_error_of_a_fifth(
    kind: type[Addition] | type[Multiplication],
) -> None:
    # 0.2² is 0.04 + 7e-18 in float64, so 0.2 itself is on the wrong side.
    outputs, batch = answers([0.0, 0.04, -0.1, 0.19999999, -0.19999999, 0.2, -0.2, math.nan])
    squared = kind(criterion="squared").is_correct(outputs, batch)
    assert squared.tolist() == [True, True, True, True, True, False, False, False]


@pytest.mark.parametrize("sign", [1, -1])
def test_float32_answers_are_judged_to_within_a_millionth_of_the_tolerance(seeded: Seeded, sign: int) -> None:
    batch = Addition().sample(1000, 20, seeded(1))
    # Numbers below 1.04 carry float32 errors of at most 2⁻²⁴ ≈ 6e-8 in sum and difference: 1e-6 clears them.
    assert Addition().is_correct(batch.targets + sign * (0.04 - 1e-6), batch).all()
    assert not Addition().is_correct(batch.targets + sign * (0.04 + 1e-6), batch).any()


def test_sizes_are_the_papers() -> None:
    for task in (Addition(), Multiplication()):
        assert (task.input_size, task.output_size, task.hidden_size) == (2, 1, 50)
        assert task.total_steps(100) == 110

"""Random permutation: the last symbol is the first, and success is the last symbol alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch.nn import functional as F

from steadygrad.tasks import Batch, RandomPermutation

Seeded = Callable[[int], torch.Generator]
Yardstick = Callable[[Sequence[float]], float]


@pytest.mark.parametrize("length", [1, 2, 3, 50])
def test_the_last_symbol_to_predict_is_the_first_one_seen(seeded: Seeded, length: int) -> None:
    batch = RandomPermutation().sample(200, length, seeded(length))
    assert batch.steps == slice(length - 1, length)
    for sequence, target in zip(batch.inputs.T.tolist(), batch.targets[0].tolist(), strict=True):
        assert len(sequence) == length
        assert sequence[0] in (0, 1)
        assert all(2 <= symbol < 100 for symbol in sequence[1:])
        assert target == sequence[0]


@pytest.mark.parametrize("length", [1, 2, 50])
def test_predicting_all_asks_for_the_next_symbol_at_every_step(seeded: Seeded, length: int) -> None:
    batch = RandomPermutation(predict="all").sample(50, length, seeded(length))
    assert batch.steps == slice(0, length)
    for sequence, targets in zip(batch.inputs.T.tolist(), batch.targets.T.tolist(), strict=True):
        for t in range(length):
            assert targets[t] == (sequence[t + 1] if t + 1 < length else sequence[0])


def test_both_ways_of_predicting_draw_the_same_sequences(seeded: Seeded) -> None:
    last = RandomPermutation().sample(5, 30, seeded(1))
    every = RandomPermutation(predict="all").sample(5, 30, seeded(1))
    assert torch.equal(last.inputs, every.inputs)
    assert torch.equal(last.targets[0], every.targets[-1])


def test_first_symbols_and_fillers_are_uniform(seeded: Seeded, uniform_p: Yardstick) -> None:
    inputs = RandomPermutation().sample(400, 101, seeded(2)).inputs
    assert uniform_p(torch.bincount(inputs[0], minlength=2).tolist()) > 1e-3
    assert uniform_p(torch.bincount(inputs[1:].flatten() - 2, minlength=98).tolist()) > 1e-3


def test_success_is_the_last_symbol_whatever_the_others(seeded: Seeded) -> None:
    task = RandomPermutation(predict="all")
    batch = task.sample(6, 20, seeded(3))
    right = F.one_hot(batch.targets, 100).double()
    only_last = right.roll(1, dims=-1)
    only_last[-1] = right[-1]
    all_but_last = right.clone()
    all_but_last[-1] = right[-1].roll(1, dims=-1)
    assert task.is_correct(only_last, batch).tolist() == [True] * 6
    assert task.is_correct(all_but_last, batch).tolist() == [False] * 6


def test_sizes_are_the_papers() -> None:
    task = RandomPermutation()
    assert (task.input_size, task.output_size, task.hidden_size) == (100, 100, 100)


def test_is_correct_takes_the_largest_of_a_hundred() -> None:
    batch = Batch(torch.zeros(1, 2, dtype=torch.int64), torch.tensor([[0, 1]]), slice(0, 1))
    outputs = torch.zeros(1, 2, 100)
    outputs[0, :, 1] = 0.1
    assert RandomPermutation().is_correct(outputs, batch).tolist() == [False, True]

"""Noiseless memorization: the layout of pattern, blanks, cue and recall, and success only as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import pytest
import torch
from torch.nn import functional as F

from steadygrad.tasks import Memorization5bit, Memorization20bit

Seeded = Callable[[int], torch.Generator]
Yardstick = Callable[[Sequence[float]], float]

VARIANTS = pytest.mark.parametrize(("kind", "n", "v"), [(Memorization5bit, 5, 2), (Memorization20bit, 10, 5)])


@VARIANTS
@pytest.mark.parametrize("length", [1, 2, 50])
def test_the_inputs_are_pattern_blanks_cue_and_blanks(
    seeded: Seeded, kind: type[Memorization5bit] | type[Memorization20bit], n: int, v: int, length: int
) -> None:
    blank, go = v, v + 1
    batch = kind().sample(100, length, seeded(length))
    for sequence in batch.inputs.T.tolist():
        assert len(sequence) == length + 2 * n == kind().total_steps(length)
        assert all(0 <= symbol < v for symbol in sequence[:n])
        assert sequence[n:] == [blank] * length + [go] + [blank] * (n - 1)


@VARIANTS
@pytest.mark.parametrize("length", [1, 2, 50])
def test_the_pattern_is_due_at_the_last_steps_beginning_with_the_cue(
    seeded: Seeded, kind: type[Memorization5bit] | type[Memorization20bit], n: int, v: int, length: int
) -> None:
    batch = kind().sample(100, length, seeded(length))
    assert batch.inputs[batch.steps.start].tolist() == [v + 1] * 100
    for sequence, targets in zip(batch.inputs.T.tolist(), batch.targets.T.tolist(), strict=True):
        assert list(range(len(sequence)))[batch.steps] == list(range(len(sequence)))[-n:]
        assert targets == sequence[:n]


@VARIANTS
@pytest.mark.parametrize("length", [1, 2, 50])
def test_counting_all_steps_asks_for_blanks_before_the_recall(
    seeded: Seeded, kind: type[Memorization5bit] | type[Memorization20bit], n: int, v: int, length: int
) -> None:
    batch = kind(counted="all").sample(100, length, seeded(length))
    assert batch.steps == slice(0, length + 2 * n)
    for sequence, targets in zip(batch.inputs.T.tolist(), batch.targets.T.tolist(), strict=True):
        assert targets == [v] * (n + length) + sequence[:n]


@VARIANTS
def test_both_ways_of_counting_draw_the_same_sequences(
    seeded: Seeded, kind: type[Memorization5bit] | type[Memorization20bit], n: int, v: int
) -> None:
    pattern, every = kind().sample(5, 30, seeded(1)), kind(counted="all").sample(5, 30, seeded(1))
    assert torch.equal(pattern.inputs, every.inputs)
    assert torch.equal(pattern.targets, every.targets[-n:])


def test_the_patterns_of_five_bits_are_uniform(seeded: Seeded, uniform_p: Yardstick) -> None:
    pattern = Memorization5bit().sample(6400, 1, seeded(2)).targets
    number = (pattern << torch.arange(5).unsqueeze(1)).sum(dim=0)
    assert uniform_p(torch.bincount(number, minlength=32).tolist()) > 1e-3


def test_the_symbols_of_twenty_bits_are_uniform_at_every_place(seeded: Seeded, uniform_p: Yardstick) -> None:
    pattern = Memorization20bit().sample(2000, 1, seeded(2)).targets
    counts = [torch.bincount(place, minlength=5).tolist() for place in pattern]
    assert uniform_p([count for place in counts for count in place]) > 1e-3


@VARIANTS
@pytest.mark.parametrize("counted", ["pattern", "all"])
def test_one_wrong_step_anywhere_among_the_counted_makes_the_sequence_wrong(
    seeded: Seeded,
    kind: type[Memorization5bit] | type[Memorization20bit],
    n: int,
    v: int,
    counted: Literal["pattern", "all"],
) -> None:
    task = kind(counted=counted)
    S = n if counted == "pattern" else 7 + 2 * n
    batch = task.sample(S, 7, seeded(3))
    outputs = F.one_hot(batch.targets, task.output_size).double()
    assert task.is_correct(outputs, batch).all()
    for s in range(S - 1):  # sequence s is spoilt at step s alone, the last one nowhere
        outputs[s, s] = outputs[s, s].roll(1)
    assert task.is_correct(outputs, batch).tolist() == [False] * (S - 1) + [True]


@VARIANTS
def test_tokens_and_classes_leave_room_for_blank_and_cue(
    kind: type[Memorization5bit] | type[Memorization20bit], n: int, v: int
) -> None:
    task = kind()
    assert (task.input_size, task.output_size, task.hidden_size) == (v + 2, v + 1, 100)

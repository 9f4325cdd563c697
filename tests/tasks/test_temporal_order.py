"""Temporal order: the class is spelled by the symbols found, and the symbols lie where the paper says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import pytest
import torch

from steadygrad.tasks import Batch, TemporalOrder, TemporalOrder3bit

Seeded = Callable[[int], torch.Generator]
Yardstick = Callable[[Sequence[float]], float]

CLASSES = ["AA", "AB", "BA", "BB"]
CLASSES_3BIT = ["AAA", "AAB", "ABA", "ABB", "BAA", "BAB", "BBA", "BBB"]
LENGTHS = [10, 11, 14, 19, 25, 54, 100]


def marked(batch: Batch) -> list[list[tuple[int, str]]]:
    """For every sequence the steps at which A or B lies, and which of them."""
    return [
        [(t, "AB"[token]) for t, token in enumerate(sequence) if token in (0, 1)]
        for sequence in batch.inputs.T.tolist()
    ]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("positions", ["paper", "program"])
@pytest.mark.parametrize(("kind", "classes"), [(TemporalOrder, CLASSES), (TemporalOrder3bit, CLASSES_3BIT)])
def test_targets_equal_the_order_read_from_the_inputs(
    seeded: Seeded, kind: type[TemporalOrder], classes: list[str], positions: Literal["paper", "program"], length: int
) -> None:
    task = kind(positions=positions)
    assert task.output_size == len(classes)
    batch = task.sample(200, length, seeded(length))
    for symbols, target in zip(marked(batch), batch.targets[0].tolist(), strict=True):
        assert "".join(symbol for _, symbol in symbols) == classes[target]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("kind", "tenths"), [(TemporalOrder, (1, 4)), (TemporalOrder3bit, (1, 3, 6))])
def test_the_papers_positions_are_all_steps_of_its_closed_ranges(
    seeded: Seeded, kind: type[TemporalOrder], tenths: tuple[int, ...], length: int
) -> None:
    task = kind()
    found = marked(task.sample(3000, length, seeded(1)))
    for k, tenth in enumerate(tenths):
        allowed = {t for t in range(length) if tenth * length <= 10 * t <= (tenth + 1) * length}
        assert {symbols[k][0] for symbols in found} == allowed
        assert set(task.position_ranges(length)[k]) == allowed


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("kind", "starts"), [(TemporalOrder, (0.1, 0.5)), (TemporalOrder3bit, (0.1, 0.3, 0.6))])
def test_the_programs_positions_are_a_tenth_of_the_length_from_its_own_starts(
    seeded: Seeded, kind: type[TemporalOrder], starts: tuple[float, ...], length: int
) -> None:
    task = kind(positions="program")
    found = marked(task.sample(3000, length, seeded(1)))
    for k, start in enumerate(starts):
        # The program rounds floating-point products down; the library divides whole numbers. They must agree.
        allowed = {int(length * start) + step for step in range(int(length * 0.1))}
        assert {symbols[k][0] for symbols in found} == allowed


@pytest.mark.parametrize("positions", ["paper", "program"])
def test_positions_are_uniform_and_independent_of_each_other(
    seeded: Seeded, uniform_p: Yardstick, positions: Literal["paper", "program"]
) -> None:
    task = TemporalOrder(positions=positions)
    first_range, second_range = task.position_ranges(54)  # in the paper's ranges, 5 and 6 steps wide
    counts = {(i, j): 0 for i in first_range for j in second_range}
    for (i, _), (j, _) in marked(task.sample(6000, 54, seeded(2))):
        counts[i, j] += 1
    assert uniform_p(list(counts.values())) > 1e-3


@pytest.mark.parametrize("kind", [TemporalOrder, TemporalOrder3bit])
def test_classes_are_uniform_whatever_the_first_position(
    seeded: Seeded, uniform_p: Yardstick, kind: type[TemporalOrder]
) -> None:
    task = kind()
    batch = task.sample(8000, 50, seeded(3))
    starts = list(task.position_ranges(50)[0])
    counts = torch.zeros(len(starts), task.output_size, dtype=torch.int64)
    for symbols, target in zip(marked(batch), batch.targets[0].tolist(), strict=True):
        counts[starts.index(symbols[0][0]), target] += 1
    assert uniform_p(counts.flatten().tolist()) > 1e-3


def test_distractors_are_uniform_over_c_to_f(seeded: Seeded, uniform_p: Yardstick) -> None:
    inputs = TemporalOrder().sample(200, 50, seeded(4)).inputs
    counts = torch.bincount(inputs.flatten(), minlength=6).tolist()
    assert sum(counts[:2]) == 2 * 200
    assert uniform_p(counts[2:]) > 1e-3


def test_the_answer_is_due_at_the_last_step_alone(seeded: Seeded) -> None:
    assert TemporalOrder().sample(2, 37, seeded(1)).steps == slice(36, 37)


def test_a_batch_equals_the_one_the_mersenne_twister_spells_out(seeded: Seeded) -> None:
    """numpy's twister gives the same 32-bit words from the same seed: the batch depends on no machine's rounding."""
    T, B = 20, 7
    twister = np.random.RandomState(11)
    u = twister.randint(0, 2**32, size=(T, B), dtype=np.uint32).astype(np.int64) % 4 + 2
    # ranges 2…4 and 8…10, and four classes: words modulo lcm(3, 3, 4) = 12
    words = twister.randint(0, 2**32, size=(3, B), dtype=np.uint32).astype(np.int64) % 12
    for b in range(B):
        d = words[2, b] % 4
        u[2 + words[0, b] % 3, b] = d // 2
        u[8 + words[1, b] % 3, b] = d % 2
    batch = TemporalOrder().sample(B, T, seeded(11))
    assert batch.inputs.tolist() == u.tolist()
    assert batch.targets.tolist() == [(words[2] % 4).tolist()]


def test_a_wrong_class_is_wrong_and_only_the_largest_output_is_judged() -> None:
    batch = Batch(torch.full((10, 4), 2), torch.tensor([[0, 1, 2, 3]]), slice(9, 10))
    outputs = torch.tensor([[[0.2, 0.1, 0, 0], [0.5, 0.4, 0, 0], [-3, -2, -1, -9], [0, 0, 0, 1e-6]]])
    assert TemporalOrder().is_correct(outputs, batch).tolist() == [True, False, True, True]


def test_sizes_are_the_papers() -> None:
    two, three = TemporalOrder(), TemporalOrder3bit()
    assert (two.input_size, two.output_size, two.hidden_size) == (6, 4, 50)
    assert (three.input_size, three.output_size, three.hidden_size) == (6, 8, 100)

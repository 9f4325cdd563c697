"""Recall: the first token is the answer, whatever lies between."""

from __future__ import annotations

import pytest
import torch

from steadygrad.tasks import Recall


@pytest.mark.parametrize("distractors", ["other", "same"])
def test_the_target_is_the_first_token_and_all_others_are_distractors(distractors: str) -> None:
    task = Recall(distractors)  # pyright: ignore[reportArgumentType]
    batch = task.sample(4000, 7, torch.Generator().manual_seed(1))
    assert torch.equal(batch.targets[0], batch.inputs[0])
    assert batch.steps == slice(6, 7)
    first, rest = batch.inputs[0], batch.inputs[1:]
    assert set(first.tolist()) == set(range(8))
    assert set(rest.flatten().tolist()) == (set(range(8, 16)) if distractors == "other" else set(range(8)))
    # 4,000 draws of 8 tokens: each 500 times, with a standard deviation of 21
    assert all(400 < count < 600 for count in torch.bincount(first).tolist())


def test_the_first_token_says_nothing_of_the_others() -> None:
    batch = Recall("same").sample(8000, 3, torch.Generator().manual_seed(2))
    same = (batch.inputs[0] == batch.inputs[1]).double().mean().item()
    # 1 in 8, with a standard deviation of 0.0037
    assert same == pytest.approx(1 / 8, abs=0.015)


def test_a_sequence_of_one_step_is_refused() -> None:
    with pytest.raises(ValueError, match="length of recall must be a whole number of at least 2, not 1"):
        Recall().sample(1, 1, torch.Generator())

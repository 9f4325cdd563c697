"""The stages of `latch`: when each begins, what it changes, and that a run in pieces goes through the same ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from same_run import assert_same_run
from steadygrad import schedules
from steadygrad.experiments import Config, ConfigError, preset, run
from steadygrad.experiments.learner import Learner

GROWING = {"curriculum": (10, 12), "curriculum_patience": 3, "curriculum_loss": 9.0, "curriculum_lost": 10.0}


@pytest.fixture
def staged(small: Config) -> Config:
    """Lengths grow with every third loss below 9: from (10, 12) to the longest, 20, in four steps of 1.15."""
    return small.changed(length=(14, 20), latch=0.7, noise=0.2, optimizer="momentum", average=10, **GROWING)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, updates in {"HOLD_UPDATES": 20, "AGAIN_UPDATES": 20, "SETTLE_UPDATES": 40}.items():
        monkeypatch.setattr(schedules, name, updates)


def trained(learner: Learner, updates: int) -> Learner:
    for _ in range(updates):
        learner.update()
    return learner


def test_without_omega_from_the_share_of_the_longest_length_on(staged: Config, short: None) -> None:
    learner = Learner(staged)
    assert learner.latch is not None
    assert learner.next_stage([], 1.0, False) is None  # at 12, and 0.7 · 20 = 14
    trained(learner, 20)
    assert learner.alpha == staged.alpha
    mean = learner.weights()
    reached = learner.feed.lengths.now
    said = learner.next_stage([], 1.0, False)
    assert said is not None
    assert "without Ω" in said
    learner.update()
    assert (learner.latch.stage, learner.alpha) == ("hold", 0.0)
    assert learner.lr == pytest.approx(2 / 3 * staged.lr)
    assert torch.equal(learner.network.noisy.weight_of_noise, 0.1 * torch.eye(staged.hidden))
    assert (learner.feed.lengths.now, learner.feed.lengths.target) == (reached, (14, 40))
    assert all(torch.equal(mean[name], each) for name, each in learner._networks["before."].state_dict().items())


def test_a_memory_that_does_not_last_goes_back_to_omega_and_tries_again(staged: Config, short: None) -> None:
    learner = trained(Learner(staged), 20)
    assert learner.latch is not None
    learner.next_stage([], 1.0, False)
    before = learner._networks["before."].state_dict()
    reached = learner.latch.left_at
    trained(learner, 20)
    learner.next_stage([0.0, 0.02, 0.0, 0.0], 0.1, True)  # one length above 1 % is enough
    assert learner.latch.stage == "again"
    assert all(torch.equal(before[name], each) for name, each in learner.network.state_dict().items())
    assert torch.equal(learner.network.noisy.weight_of_noise, 0.2 * torch.eye(staged.hidden))
    trained(learner, 20)
    assert (learner.alpha, learner.feed.lengths.now) == (staged.alpha, reached)
    learner.next_stage([], 0.3, True)  # the loss must be below 0.25
    assert learner.latch.stage == "again"
    learner.next_stage([], 0.2, True)
    assert learner.latch.stage == "hold"


@pytest.mark.parametrize("is_solved", [True, False])
def test_a_memory_that_lasts_settles_at_a_rate_that_falls_to_0(staged: Config, short: None, is_solved: bool) -> None:
    learner = trained(Learner(staged), 20)
    assert learner.latch is not None
    learner.next_stage([], 1.0, False)
    trained(learner, 6)
    learner.next_stage([0.01, 0.0, 0.0, 0.01], 0.1, is_solved)
    assert (learner.latch.stage, learner.feed.lengths.target) == ("settle", (14, 80))
    rates = [trained(learner, 10).lr / (2 / 3 * staged.lr) for _ in range(4)]
    # the rate of the tenth update, …: after 9, 19, 29 and 39 of 40
    assert rates == pytest.approx([31 / 40, 21 / 40, 11 / 40, 1 / 40])
    learner.next_stage([0.0] * 4, 0.1, is_solved)
    assert learner.latch.stage == ("done" if is_solved else "again")


def test_a_run_in_pieces_goes_through_the_same_stages(staged: Config, short: None, tmp_path: Path) -> None:
    config = staged.changed(max_updates=100)
    run(config, tmp_path / "one", progress="none")
    for limit in (1, 33, 47, 66, None):
        run(config, tmp_path / "pieces", progress="none", resume=True, max_updates=limit)
    assert_same_run(tmp_path / "one", tmp_path / "pieces")


def test_a_run_ends_with_its_stages_and_keeps_what_lasts_longest(
    staged: Config, short: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "HOLDS", 1.0)
    result = run(staged.changed(success=0.95, max_updates=500), tmp_path / "run", progress="none")
    assert result.solved
    # learned at the first test after the lengths reached 14, held at the next, then 40 updates
    assert (result.reason, result.total_updates) == ("solved", 80)


def test_settings_that_contradict_latch_are_refused(small: Config) -> None:
    with pytest.raises(ConfigError, match=r"latch must be left out without a curriculum, not 0.5"):
        small.changed(latch=0.5)
    with pytest.raises(ConfigError, match="after_success must be left out with latch, which ends the run itself"):
        small.changed(length=(14, 20), **GROWING, latch=0.5, after_success="polish")
    with pytest.raises(ConfigError, match=r"latch must be a number in \(0, 1\], not 2"):
        small.changed(length=(14, 20), **GROWING, latch=2)


def test_the_preset_latches_where_its_lengths_can_grow() -> None:
    assert preset("temporal-order", name="latch").latch == 0.6
    assert preset("temporal-order", name="latch", length=(20, 30)).latch is None

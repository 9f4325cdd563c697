"""Schedules and the curriculum, against what their equations give by hand."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

from steadygrad.schedules import SCHEDULES, Curriculum, Latch, Schedule


@pytest.mark.parametrize(
    ("name", "factors"),
    [
        ("constant", [1, 1, 1, 1, 1]),
        ("1/t", [1, 1 / 3, 1 / 5, 1 / 9, 1 / 11]),
        ("linear", [1, 0.75, 0.5, 0, 0]),
        ("cosine", [1, 0.5 + math.sqrt(0.125), 0.5, 0, 0]),
    ],
)
def test_a_schedule_has_the_factors_of_its_equation(name: str, factors: list[float]) -> None:
    schedule = Schedule(name, epoch=10, max_updates=80)
    # exact but for the rounding of one cosine
    assert [schedule.factor(updates) for updates in (0, 20, 40, 80, 100)] == pytest.approx(factors, abs=1e-15)


def test_one_over_length_follows_the_longest_length_from_50_on() -> None:
    once, more = (Schedule(name, epoch=10, max_updates=80) for name in ("1/length", "1/length^1.5"))
    assert [once.factor(0, length) for length in (10, 50, 100, 1000)] == [1, 1, 0.5, 0.05]
    assert [more.factor(0, length) for length in (10, 50, 200, 5000)] == pytest.approx(
        [1, 1, 1 / 8, 1 / 1000], rel=1e-15
    )


def test_half_when_worse_halves_after_each_epoch_with_a_larger_mean_loss() -> None:
    schedule = Schedule("half-when-worse", epoch=2, max_updates=100)
    factors = []
    #            mean 2      mean 1: better  mean 3: worse  mean 3: not worse   mean 4: worse
    for loss in (1.0, 3.0, 1.0, 1.0, 2.0, 4.0, 3.0, 3.0, 5.0, 3.0):
        schedule.observe(loss)
        factors.append(schedule.factor(0))
    assert factors == [1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25]


def test_an_epoch_that_is_not_finite_counts_as_worse() -> None:
    schedule = Schedule("half-when-worse", epoch=1, max_updates=100)
    for loss in (1.0, math.nan, 1.0, math.inf):
        schedule.observe(loss)
    assert schedule.factor(0) == 0.25


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_goes_on_from_its_state_to_the_same_factors(name: str) -> None:
    chance = random.Random(1)
    one = Schedule(name, epoch=7, max_updates=100)
    for _ in range(40):
        one.observe(chance.random())
    other = Schedule(name, epoch=7, max_updates=100)
    other.load_state_dict(json.loads(json.dumps(one.state_dict(), allow_nan=False)))
    for updates in range(40, 100):
        loss = chance.random()
        one.observe(loss)
        other.observe(loss)
        assert one.factor(updates) == other.factor(updates)


def test_lengths_grow_by_the_factor_when_the_mean_of_the_last_losses_is_low_and_end_at_the_target() -> None:
    lengths = Curriculum((20, 30), (50, 60), growth=1.5, patience=10, loss=0.5)
    seen = []
    for _ in range(4):
        for _ in range(10):
            lengths.observe(0.4)
        seen.append(lengths.now)
    assert seen == [(30, 45), (45, 60), (50, 60), (50, 60)]
    assert lengths.now == lengths.target


def test_lengths_grow_by_the_factor_or_by_so_many_steps_whichever_is_less() -> None:
    lengths = Curriculum((20, 40), (200, 200), growth=1.15, patience=1, loss=0.5, most=5)
    seen = []
    for _ in range(4):
        lengths.observe(0.4)
        seen.append(lengths.now)
    assert seen == [(23, 45), (27, 50), (32, 55), (37, 60)]


def test_lengths_stay_while_the_loss_is_high_and_forget_it_after_patience_updates() -> None:
    lengths = Curriculum((20, 30), (50, 200), growth=1.15, patience=10, loss=0.5)
    for _ in range(30):
        lengths.observe(1.0)
    assert lengths.now == (20, 30)
    for made in range(10):
        lengths.observe(0.0)
        # the mean of ten losses, of which 10 − n are 1: below ½ once n is above 5
        assert lengths.now == ((20, 30) if made + 1 <= 5 else (23, 35))


def test_losses_at_other_lengths_do_not_count() -> None:
    lengths = Curriculum((20, 30), (50, 200), growth=1.15, patience=10, loss=0.5)
    for _ in range(19):
        lengths.observe(0.0)
    assert lengths.now == (23, 35)


def test_a_loss_that_is_not_finite_never_lets_lengths_grow() -> None:
    lengths = Curriculum((20, 30), (50, 200), growth=1.15, patience=2, loss=0.5)
    for loss in (0.0, math.nan, 0.0, math.nan):
        lengths.observe(loss)
    assert lengths.now == (20, 30)


def test_without_a_start_the_lengths_are_the_target_from_the_beginning() -> None:
    assert Curriculum(None, (50, 200), 1.15, 500, 0.15).now == (50, 200)


def test_lengths_go_on_from_their_state_as_if_not_interrupted() -> None:
    chance = random.Random(2)
    losses = [0.3 * chance.random() for _ in range(400)]
    arguments = ((20, 30), (50, 200), 1.15, 20, 0.15)
    one, other = Curriculum(*arguments), Curriculum(*arguments)
    for index, loss in enumerate(losses):
        one.observe(loss)
        other.observe(loss)
        if index % 37 == 0:
            state = json.loads(json.dumps(other.state_dict(), allow_nan=False))
            other = Curriculum(*arguments)
            other.load_state_dict(state)
        assert one.now == other.now
    assert one.now != (20, 30)


def test_a_lost_network_is_noticed_after_ten_times_the_patience_and_slowed_down() -> None:
    lengths = Curriculum((10, 12), (50, 60), growth=2.0, patience=3, loss=0.1, lost=0.8)
    assert [lengths.observe(1.0) for _ in range(40)] == [
        None
    ] * 40  # it has not grown yet: there is nothing to go back to
    assert [lengths.observe(0.0) for _ in range(3)][-1] == "grown"
    assert lengths.now == (20, 24)
    assert [lengths.observe(1.0) for _ in range(30)] == [None] * 29 + ["lost"]
    assert (lengths.now, lengths.rate) == ((20, 24), 0.7)
    state = lengths.state_dict()
    again = Curriculum((10, 12), (50, 60), growth=2.0, patience=3, loss=0.1, lost=0.8)
    again.load_state_dict(state)
    for each in (lengths, again):
        assert [each.observe(0.0) for _ in range(3)][-1] == "grown"
        assert each.rate == pytest.approx(0.77)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"target": (200, 50)}, r"target must be a pair of whole numbers from 1 on, low before high, not \(200, 50\)"),
        ({"target": 200}, r"target must be a pair of whole numbers such as \(50, 200\), not 200"),
        ({"start": (0, 10)}, "start must be a pair of whole numbers from 1 on"),
        ({"start": (10, 300)}, r"start must begin and end no later than target, \(50, 200\), not \(10, 300\)"),
        ({"growth": 1.0}, "growth must be a finite number above 1, not 1.0"),
        ({"most": 0}, "most must be a whole number of at least 1, not 0"),
        ({"patience": 0}, "patience must be a whole number of at least 1, not 0"),
        ({"loss": math.nan}, "loss must be a finite number, not nan"),
        ({"lost": "0.8"}, "lost must be a finite number, not '0.8'"),
    ],
)
def test_a_curriculum_that_can_not_grow_is_refused_by_name(changed: dict[str, Any], sentence: str) -> None:
    good: dict[str, Any] = {"start": (10, 12), "target": (50, 200), "growth": 1.2, "patience": 10, "loss": 0.1}
    Curriculum(**good)
    with pytest.raises(ValueError, match=sentence):
        Curriculum(**{**good, **changed})


def test_a_schedule_without_an_epoch_is_refused() -> None:
    with pytest.raises(ValueError, match="epoch must be a whole number of at least 1, not 0"):
        Schedule("1/t", epoch=0, max_updates=10)
    with pytest.raises(ValueError, match=r"schedule must be one of .*did you mean 'cosine'"):
        Schedule("cosin", epoch=1, max_updates=10)


def growing(**changed: Any) -> Curriculum:
    return Curriculum(
        **{"start": (40, 50), "target": (50, 200), "growth": 1.15, "patience": 300, "loss": 0.1, **changed}
    )


def test_latch_goes_through_its_stages_in_the_order_of_its_table() -> None:
    latch = Latch(growing(lost=0.8), share=0.6)
    factors = [(latch.stage, latch.alpha, latch.noise, latch.rate(0))]
    assert latch.check(8000, [], 0.01, True) is None  # at 50 steps, and 0.6 · 200 = 120
    latch.curriculum.now = (50, 120)
    for updates, wrong, loss in (
        (9000, [], 0.05),
        (13_999, [0.0, 0.0, 0.0, 0.011], 0.05),  # not yet 5,000 updates
        (14_000, [0.0, 0.0, 0.0, 0.011], 0.05),
        (17_000, [], 0.25),  # a loss that is not below 0.25
        (17_500, [], None),  # of which no loss was finite
        (18_000, [], 0.2),
        (18_500, [0.01, 0.0, 0.0, 0.01], 0.05),
        (24_499, [1.0] * 4, 0.05),
    ):
        latch.check(updates, wrong, loss, True)
        factors.append((latch.stage, latch.alpha, latch.noise, latch.rate(updates)))
    held = ("hold", 0.0, 0.5, 2 / 3)
    again = ("again", 1.0, 1.0, 1.0)
    # the rate of the last: one of 6,000 updates is left
    settled = [("settle", 0.0, 0.5, 2 / 3), ("settle", 0.0, 0.5, pytest.approx(2 / 3 / 6000))]
    assert factors == [("learn", 1.0, 1.0, 1.0), held, held, again, again, again, held, *settled]
    assert latch.check(24_500, [1.0] * 4, 0.05, True) == "done"
    assert latch.is_done


def test_the_lengths_of_latch_are_those_of_its_stage() -> None:
    latch = Latch(growing(lost=0.8), share=0.6)
    latch.curriculum.now = (50, 120)
    latch.check(9000, [], 0.05, False)
    hold = latch.curriculum
    assert (hold.now, hold.target, hold.patience, hold.lost) == ((50, 120), (50, 400), 200, 0.8)
    hold.now = (50, 300)
    latch.check(10_000, [0.0] * 4, 0.05, False)
    assert (latch.curriculum.now, latch.curriculum.target) == ((50, 300), (50, 800))
    assert latch.check(16_000, [0.0] * 4, 0.05, False) == "again"  # what is not solved is not done
    again = latch.curriculum
    assert (again.now, again.target, again.patience, again.lost) == ((50, 120), (50, 120), 300, None)


def test_latch_goes_on_from_its_state() -> None:
    one, other = (Latch(growing(lost=0.8), share=0.6) for _ in range(2))
    one.curriculum.now = (50, 130)
    one.check(9000, [], 0.05, False)
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    other.curriculum.load_state_dict(json.loads(json.dumps(one.curriculum.state_dict())))
    for latch in (one, other):
        assert latch.check(14_000, [0.5] * 4, 0.05, False) == "again"
    assert vars(one.curriculum) == vars(other.curriculum)
    assert (
        (one.stage, one.since, one.left_at) == (other.stage, other.since, other.left_at) == ("again", 14_000, (50, 130))
    )


@pytest.mark.parametrize("share", [0, 1.5, -1, math.nan])
def test_a_share_of_latch_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=r"share must be a number in \(0, 1\], not"):
        Latch(growing(), share)

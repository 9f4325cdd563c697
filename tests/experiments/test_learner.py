"""One update by hand, the rates, and when a run counts as diverged."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from same_run import SMALL
from steadygrad.experiments import Config
from steadygrad.experiments import methods as module
from steadygrad.experiments.learner import Learner
from steadygrad.experiments.methods import Diverged
from steadygrad.layers.rnn import RNN

ALGORITHMS: dict[str, dict[str, Any]] = {
    "sgd": {},
    "sgd-c": {"threshold": 0.05},
    "sgd-r": {"alpha": 3.0},
    "sgd-cr": {"threshold": 0.05, "alpha": 3.0},
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_update_equals_the_equation_worked_out_with_the_reference_layer(algorithm: str) -> None:
    options = ALGORITHMS[algorithm]
    config = Config("temporal-order", algorithm, (12, 12), hidden=6, batch=4, dtype="float64", lr=0.1, **options)
    learner = Learner(config)
    network = learner.network
    oracle = RNN(6, 6, alpha=options.get("alpha", 0.0), backend="reference", dtype=torch.float64)
    oracle.load_state_dict(network.rnn.state_dict())
    readout = torch.nn.Linear(6, 4, dtype=torch.float64)
    readout.load_state_dict(network.readout.state_dict())
    # one length only: nothing is drawn before the batch
    batch = learner.problem.sample(4, 12, torch.Generator().manual_seed(config.seed))
    loss = learner.problem.loss(readout(oracle(batch.inputs)[1]), batch)
    loss.backward()
    trained = [oracle.weight_ih_l0, oracle.weight_hh_l0, oracle.bias_ih_l0, readout.weight, readout.bias]
    gradients = [parameter.grad for parameter in trained if parameter.grad is not None]
    norm = math.sqrt(sum(float(g.square().sum()) for g in gradients))
    scale = min(1.0, options.get("threshold", math.inf) / norm)
    assert (scale < 1) == ("threshold" in options)
    assert learner.update() == pytest.approx(loss.item(), rel=1e-13)
    for (_, parameter), before, g in zip(network.trained(), trained, gradients, strict=True):
        torch.testing.assert_close(parameter.detach(), before.detach() - 0.1 * scale * g, rtol=1e-11, atol=1e-14)
    assert learner.method.summary()["gradient_norm"] == pytest.approx(norm, rel=1e-11)


def test_lengths_are_drawn_from_both_ends_of_the_range_and_all_between(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Learner(Config("temporal-order", "sgd", (10, 13), hidden=2, batch=1))
    seen: list[int] = []
    sample = type(learner.problem).sample

    def watched(self: Any, batch: int, length: int, generator: torch.Generator) -> Any:
        seen.append(length)
        return sample(self, batch, length, generator)

    monkeypatch.setattr(type(learner.problem), "sample", watched)
    for _ in range(200):
        learner.update()
    # each of four lengths 50 times on average, with a standard deviation of 6
    assert {length: seen.count(length) > 20 for length in set(seen)} == dict.fromkeys((10, 11, 12, 13), True)


def test_the_rates_follow_their_schedules() -> None:
    fields = {**SMALL, "max_updates": 10}
    config = Config(
        "temporal-order",
        "sgd-cr",
        threshold=1.0,
        alpha=2.0,
        lr=0.4,
        lr_schedule="linear",
        alpha_schedule="1/t",
        epoch=2,
        **fields,
    )
    learner = Learner(config)
    seen = []
    for _ in range(5):
        learner.update()
        seen.append((learner.lr, learner.alpha, learner.network.rnn.alpha))
    expected = [(0.4 * (1 - n / 10), 2.0 / (1 + n // 2), 2.0 / (1 + n // 2)) for n in range(5)]
    assert seen == [pytest.approx(each, rel=1e-15) for each in expected]


def test_polishing_is_at_all_lengths(small: Config) -> None:
    learner = Learner(small.changed(curriculum=(10, 10)))
    learner.update()
    assert learner.feed.lengths.now == (10, 10)
    learner.feed.lengths.now = small.length
    learner.update()
    assert (learner.feed.lengths.now, learner.lr, learner.alpha) == (small.length, small.lr, small.alpha)


def test_lengths_grow_by_no_more_steps_than_the_settings_say(small: Config) -> None:
    settings: dict[str, Any] = {"length": (90, 90), "curriculum": (10, 60), "curriculum_patience": 1}
    settings |= {"curriculum_loss": 50.0, "growth": 1.5, "growth_steps": 7}
    learner = Learner(small.changed(**settings))
    learner.update()
    assert learner.feed.lengths.now == (15, 67)


@pytest.mark.parametrize(("every", "average"), [(5, 3), (4, 4), (3, 7)])
def test_tested_weights_are_the_mean_over_the_updates_before_a_check(every: int, average: int, small: Config) -> None:
    learner, plain = Learner(small.changed(check_every=every, average=average)), Learner(small)
    assert learner.tested is learner.network
    assert plain.tested is plain.network
    seen: list[dict[str, torch.Tensor]] = []
    for updates in range(1, 2 * every + 1):
        assert learner.update() == plain.update()  # what is tested has no part in what is learned
        seen.append(plain.weights())
        window = seen[-((updates - 1) % every + 1) :][max(0, every - average) :]
        if not window:
            assert learner.tested is learner.network
            continue
        for name, tensor in learner.weights().items():
            mean = torch.stack([weights[name] for weights in window]).mean(0)
            torch.testing.assert_close(tensor, mean, rtol=1e-5, atol=1e-7)
    assert learner.tested is not learner.network


def test_without_a_clipper_the_first_gradient_that_is_not_finite_ends_the_run() -> None:
    learner = Learner(Config("temporal-order", "sgd", **SMALL))
    learner.update()
    with torch.no_grad():
        learner.network.readout.weight[0, 0] = math.nan
    with pytest.raises(Diverged, match=r"the loss is nan.*not finite: .*readout.weight.*after 1 updates"):
        learner.update()


def test_with_a_clipper_a_run_ends_after_many_gradients_in_a_row_that_are_not_finite(
    small: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOST", 5)
    learner = Learner(small)
    learner.update()
    with torch.no_grad():
        learner.network.readout.bias[0] = math.inf
    for _ in range(4):
        learner.update()
    with pytest.raises(Diverged, match="the last 5 gradients were not finite, after 6 updates"):
        learner.update()
    assert learner.method.summary()["skipped"] == 5


def test_nonfinite_raise_ends_the_run_at_once(small: Config) -> None:
    learner = Learner(small.changed(nonfinite="raise"))
    with torch.no_grad():
        learner.network.readout.bias[0] = math.inf
    with pytest.raises(Diverged, match="readout"):
        learner.update()


def test_weights_that_are_not_finite_and_losses_that_blew_up_are_found_at_a_check(small: Config) -> None:
    learner = Learner(small)
    learner.update()
    learner.method.judge()
    learner.method.since.loss *= 999
    learner.method.judge()
    learner.method.since.loss *= 1.01
    with pytest.raises(Diverged, match=r"the mean loss of the last 1 updates is 1.41e.03, and was 1.4 at first"):
        learner.method.judge()
    learner.method.since.loss = 0.0
    with torch.no_grad():
        learner.network.rnn.weight_hh_l0[2, 3] = math.nan
    with pytest.raises(Diverged, match=r"rnn.weight_hh_l0 is no longer finite after 1 updates"):
        learner.method.judge()


def test_a_summary_holds_what_was_seen_since_the_last_one(small: Config) -> None:
    learner = Learner(small.changed(threshold=1e-6))
    losses = [learner.update() for _ in range(4)]
    first = learner.method.summary()
    assert first["loss"] == pytest.approx(sum(losses) / 4)
    assert first["clip_rate"] == 1.0
    largest, mean = first["gradient_norm_max"], first["gradient_norm"]
    assert largest is not None
    assert mean is not None
    assert largest > mean > 0
    again = learner.update()
    assert learner.method.summary()["loss"] == again


def test_a_lost_network_goes_back_to_its_weights_and_forgets_its_momentum(small: Config) -> None:
    settings: dict[str, Any] = {"length": (14, 20), "curriculum": (10, 12), "curriculum_patience": 2}
    settings |= {"curriculum_loss": 5.0, "curriculum_lost": 6.0, "optimizer": "momentum"}
    learner = Learner(small.changed(**settings))
    learner.update()
    learner.update()  # grows: these weights are kept
    kept = learner.weights()
    learner.feed.lengths.loss, learner.feed.lengths.lost = 0.0, 0.001
    for _ in range(19):
        learner.update()
    assert not torch.equal(learner.weights()["rnn.weight_hh_l0"], kept["rnn.weight_hh_l0"])
    learner.update()  # the twentieth: lost
    assert all(torch.equal(tensor, kept[name]) for name, tensor in learner.weights().items())
    assert not any(isinstance(value, torch.Tensor) for value in learner.method.state().values())
    learner.update()
    assert learner.lr == pytest.approx(0.7 * small.lr)

"""One update by hand, the state from chunk to chunk, and rates that go by epochs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tiny import of_music, of_text

from steadygrad.data.datasets import read as open_corpus
from steadygrad.experiments import Config
from steadygrad.experiments.learner import Learner
from steadygrad.experiments.methods import Diverged
from steadygrad.layers.rnn import RNN


def learner(config: Config) -> Learner:
    return Learner(config)


@pytest.mark.parametrize("cost", ["mean", "sum"])
def test_two_updates_equal_the_equation_worked_out_with_the_reference_layer(text_path: str, cost: str) -> None:
    options: dict[str, Any] = {"dtype": "float64", "init": "basic_tanh", "threshold": 0.3, "cost": cost, "bias": False}
    config = of_text(text_path, **options)
    trained = learner(config)
    network, corpus = trained.network, trained.problem
    oracle = RNN(
        corpus.input_size, 7, nonlinearity="sigmoid", bias=False, alpha=0.5, backend="reference", dtype=torch.float64
    )
    oracle.load_state_dict(network.rnn.state_dict())
    readout = torch.nn.Linear(7, corpus.input_size, bias=False, dtype=torch.float64)
    readout.load_state_dict(network.readout.state_dict())
    weights = [*oracle.parameters(), *readout.parameters()]
    state = None
    clipped = 0
    for chunk in list(corpus.epoch(1))[:2]:
        output, last = oracle(chunk.inputs, state)
        state = last.detach()
        y = readout(output).flatten(0, 1)
        nats = torch.nn.functional.cross_entropy(y, chunk.targets.flatten(), reduction="sum")
        gradients = torch.autograd.grad(nats / (16 if cost == "sum" else 16 * 8), weights)
        norm = math.sqrt(sum(float(g.square().sum()) for g in gradients))
        clipped += norm > 0.3
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight -= 0.1 * min(1.0, 0.3 / norm) * gradient
        assert trained.update() == pytest.approx(nats.item() / 128, rel=1e-12)
    assert clipped > 0
    for (_, parameter), weight in zip(network.trained(), weights, strict=True):
        torch.testing.assert_close(parameter.detach(), weight.detach(), rtol=1e-11, atol=1e-14)


def test_an_epoch_learns_from_every_prediction_once(text_path: str, music_path: str) -> None:
    for config in (of_text(text_path), of_music(music_path)):
        trained = learner(config)
        while not trained.feed.at_end_of_epoch:
            trained.update()
        assert trained.feed.whole.predictions == trained.feed.tokens == trained.problem.predictions("train")
        with pytest.raises(RuntimeError, match="the epoch is over"):
            trained.update()
        trained.next_epoch()
        assert (trained.feed.epoch, trained.feed.whole.predictions) == (2, 0)
        assert trained.feed.tokens == trained.problem.predictions("train")


def test_pieces_come_in_another_order_in_every_epoch_and_in_the_same_for_the_same_seed(music_path: str) -> None:
    def first(seed: int, epoch: int) -> list[Any]:
        return [chunk.targets.tolist() for chunk in open_corpus(of_music(music_path, seed=seed)).epoch(epoch)]

    assert first(1, 1) == first(1, 1)
    assert first(1, 1) != first(1, 2)
    assert first(1, 1) != first(2, 1)


def test_alpha_falls_with_the_number_of_the_epoch_and_a_linear_rate_within_it(text_path: str) -> None:
    trained = learner(of_text(text_path, alpha_schedule="1/t", lr_schedule="linear", epochs=2))
    predictions = trained.problem.predictions("train")
    seen = []
    for _ in range(2):
        while not trained.feed.at_end_of_epoch:
            share = trained.feed.tokens / predictions / 2
            trained.update()
            assert trained.lr == pytest.approx(0.1 * (1 - share), rel=1e-12)
            assert trained.method.optimizer.param_groups[0]["lr"] == trained.lr
            seen.append((trained.feed.epoch, trained.alpha, trained.network.rnn.alpha))
        trained.next_epoch()
    assert set(seen) == {(1, 0.5, 0.5), (2, 0.25, 0.25)}


def test_the_rate_is_halved_after_an_epoch_that_was_worse_than_the_one_before(text_path: str) -> None:
    trained = learner(of_text(text_path, lr_schedule="half-when-worse", epochs=9))
    rates = []
    for mean in (3.0, 2.0, 2.5, 2.5, 2.6, math.nan, 2.0):
        trained.update()
        rates.append(trained.lr)
        trained.feed.whole.nats, trained.feed.whole.predictions = 100 * mean, 100
        trained.next_epoch()
    # worse: 2.5 after 2.0, 2.6 after 2.5, and what is no number
    assert rates == [0.1, 0.1, 0.1, 0.05, 0.05, 0.025, 0.0125]


def test_a_state_that_is_not_finite_is_not_carried_on(text_path: str) -> None:
    trained = learner(of_text(text_path))
    kept = trained.weights()
    with torch.no_grad():
        trained.network.readout.weight[0, 0] = math.nan
    assert math.isnan(trained.update())
    trained.network.load_state_dict(kept)
    assert math.isfinite(trained.update())
    assert trained.method.summary()["skipped"] == 1


def test_without_a_clipper_the_first_gradient_that_is_not_finite_ends_the_run(text_path: str) -> None:
    trained = learner(Config("text", "sgd", path=text_path, hidden=3, steps=8))
    trained.update()
    with torch.no_grad():
        trained.network.readout.weight[0, 0] = math.nan
    with pytest.raises(Diverged, match=r"the loss is nan.*not finite: .*readout.weight.*after 1 updates"):
        trained.update()

"""Which weights count as the best, before the first success and after it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from steadygrad.experiments import Config
from steadygrad.experiments.evaluation import Score
from steadygrad.experiments.judges import BySuccess, Candidate
from steadygrad.experiments.network import Network

CONFIG = Config(
    "temporal-order", "sgd", (10, 12), hidden=3, check_sequences=20, test_sequences=40, after_success="polish"
)


def judge(config: Config = CONFIG) -> BySuccess:
    loop: Any = SimpleNamespace(config=config, problem=None, learner=SimpleNamespace(feed=None, latch=None))
    return BySuccess(loop)


def score(error: float, loss: float = 1.0, sequences: int = 40) -> Score:
    return Score(error, {"wrong": error}, loss, sequences)


def made(updates: int, found: Score, beyond: float | None = None) -> Candidate:
    return Candidate(updates, found, {"mark": torch.tensor(updates)}, beyond)


def test_before_success_fewer_wrong_is_better_and_then_the_smaller_loss() -> None:
    success = judge()
    for updates, (error, loss) in enumerate([(0.5, 1.0), (0.4, 2.0), (0.4, 1.5), (0.45, 0.1)]):
        assert not success.consider(made(updates, score(error, loss)), 0.0)
    assert success.best is not None
    assert success.best.updates == 2


def test_after_success_the_best_solves_the_task_and_errs_least_beyond_its_lengths() -> None:
    success = judge()
    assert success.consider(made(1, score(0.01), beyond=0.6), 0.0)
    tried = [(score(0.0), 0.7), (score(0.008), 0.2), (score(0.0, sequences=20), 0.0), (score(0.02), 0.1)]
    for updates, (found, beyond) in enumerate(tried, start=2):
        assert not success.consider(made(updates, found, beyond), 0.0)
    assert success.best is not None
    assert (success.best.updates, success.best.beyond) == (3, 0.2)
    assert success.solved == (1, 0.0)


@pytest.mark.parametrize("after", ["stop", "polish"])
def test_beyond_is_tested_at_twice_the_longest_length_only_where_it_is_of_use(after: str) -> None:
    success = judge(CONFIG.changed(after_success=after))
    network = Network(CONFIG)
    assert success.test_beyond(network, score(0.5), 0) == []
    found = success.test_beyond(network, score(0.0), 0)
    assert len(found) == (1 if after == "polish" else 0)
    assert all(0.0 <= error <= 1.0 for error in found)


def test_the_state_holds_all_of_it() -> None:
    success, other = judge(), judge()
    success.consider(made(7, score(0.01, 0.5), beyond=0.25), 1.5)
    assert success.best is not None
    weights = {f"best.{name}": tensor for name, tensor in success.best.weights.items()}
    other.load_state({**weights, **success.state()})
    assert (other.best, other.solved) == (success.best, (7, 1.5))

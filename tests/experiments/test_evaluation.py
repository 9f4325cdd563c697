"""Tests of a network against counting by hand; portions of sequences; bad lengths."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from steadygrad.experiments import Config, Network, evaluate, load, run
from steadygrad.experiments.evaluation import STATES, _portions, score


def network(task: str, **fields: Any) -> Network:
    return Network(Config(task, "sgd", hidden=8, **fields))


def test_errors_equal_wrong_answers_counted_one_by_one() -> None:
    net = network("temporal-order")
    found = score(net, (12, 13), 300, torch.Generator().manual_seed(5))
    generator = torch.Generator().manual_seed(5)
    wrong, losses = 0, []
    for T, count in _portions(net, (12, 13), 300):
        batch = net.problem.sample(count, T, generator)
        answers = net.answers(batch)[0].detach()
        for answer, target in zip(answers, batch.targets[0], strict=True):
            wrong += int(answer.argmax() != target)
            losses.append(float(-answer.log_softmax(0)[target]))
    assert found.error == wrong / 300
    assert found.errors == {"wrong": found.error}
    # a mean of 300 float32 losses, added up in another order
    assert found.loss == pytest.approx(sum(losses) / 300, rel=1e-5)


@pytest.mark.parametrize("criterion", ["absolute", "squared"])
def test_regression_counts_both_readings_of_an_error_below_004(criterion: str) -> None:
    net = network("addition", options={"criterion": criterion})
    with torch.no_grad():
        net.readout.weight.zero_()
        net.readout.bias.fill_(0.5)
    found = score(net, (20, 20), 4000, torch.Generator().manual_seed(1))
    # the constant ½ against (x + y)/2, triangular on [0, 1]: |error| ≥ a has the probability (1 − 2a)²
    for name, a in (("absolute", 0.04), ("squared", 0.2)):
        expected = (1 - 2 * a) ** 2
        # four standard deviations of a share of 4,000
        assert found.errors[name] == pytest.approx(expected, abs=4 * (expected * (1 - expected) / 4000) ** 0.5)
    assert found.error == found.errors[criterion]


@pytest.mark.parametrize("sequences", [1, 7, 999, 1000, 10_000])
@pytest.mark.parametrize("length", [(50, 50), (50, 51), (50, 200), (9_000, 10_000)])
def test_portions_hold_all_sequences_and_cover_the_range_evenly(length: tuple[int, int], sequences: int) -> None:
    net = network("temporal-order")
    portions = _portions(net, length, sequences)
    lengths, counts = zip(*portions, strict=True)
    assert sum(counts) == sequences
    assert min(counts) >= 1
    assert max(T * count * 8 for T, count in portions) <= STATES
    assert max(counts) - min(counts) <= 1
    assert lengths[0] == length[0]
    assert list(lengths) == sorted(lengths)
    if len(lengths) > 1:
        assert lengths[-1] == length[1]
        steps = [b - a for a, b in itertools.pairwise(lengths)]
        assert max(steps) - min(steps) <= 1


def test_a_test_leaves_the_network_and_its_gradients_alone() -> None:
    net = network("temporal-order")
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    score(net, (10, 20), 50, torch.Generator().manual_seed(0))
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())
    batch = net.problem.sample(2, 12, torch.Generator())
    net.problem.loss(net.answers(batch), batch).backward()


def test_evaluate_gives_the_same_error_from_a_directory_and_from_its_network(small: Config, tmp_path: Path) -> None:
    run(small, tmp_path / "run", progress="none")
    from_directory = evaluate(tmp_path / "run", (12, 14), 200)
    assert from_directory == evaluate(load(tmp_path / "run").model, (12, 14), 200)
    assert (from_directory["length"], from_directory["sequences"]) == ([12, 14], 200)
    assert evaluate(tmp_path / "run", 12, 200) == evaluate(tmp_path / "run", (12, 12), 200)
    assert evaluate(tmp_path / "run", 12, 200, seed=1)["loss"] != evaluate(tmp_path / "run", 12, 200)["loss"]


@pytest.mark.parametrize(
    ("length", "sequences", "sentence"),
    [
        (9, 10, "length of temporal-order must be a whole number of at least 10, not 9"),
        ((20, 12), 10, "the longest length must be a whole number of at least 20, not 12"),
        (20, 0, "sequences must be a whole number of at least 1, not 0"),
    ],
)
def test_lengths_that_cannot_be_are_refused(length: Any, sequences: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        evaluate(network("temporal-order"), length, sequences)


def test_a_folder_without_a_run_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"must be the folder of a run, and holds no config.json"):
        evaluate(tmp_path, 20)


def test_weights_of_another_network_are_refused_by_name(small: Config, tmp_path: Path) -> None:
    run(small, tmp_path / "one", progress="none", max_updates=1)
    run(small.changed(hidden=9), tmp_path / "two", progress="none", max_updates=1)
    (tmp_path / "one" / "weights.safetensors").write_bytes((tmp_path / "two" / "weights.safetensors").read_bytes())
    with pytest.raises(ValueError, match=r"weights.safetensors does not hold the weights of this run"):
        load(tmp_path / "one")
    (tmp_path / "one" / "weights.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ValueError, match=r"weights.safetensors does not hold the weights of this run"):
        load(tmp_path / "one")


def test_a_flipped_byte_in_the_weights_is_refused_by_name(small: Config, tmp_path: Path) -> None:
    run(small, tmp_path / "run", progress="none", max_updates=1)
    path = tmp_path / "run" / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"weights.safetensors is altered: its checksum does not fit its weights"):
        load(tmp_path / "run")


def test_weights_of_a_run_before_there_was_a_checksum_are_read(small: Config, tmp_path: Path) -> None:
    run(small, tmp_path / "run", progress="none", max_updates=1)
    path = tmp_path / "run" / "weights.safetensors"
    before = evaluate(tmp_path / "run", 12, 100)
    save_file(load_file(path), path, {"task": small.problem})
    assert evaluate(tmp_path / "run", 12, 100) == before


def test_the_error_does_not_depend_on_threads(small: Config, tmp_path: Path) -> None:
    run(small, tmp_path / "run", progress="none", max_updates=1)
    assert evaluate(tmp_path / "run", 12, 100, layer_threads=2) == evaluate(tmp_path / "run", 12, 100)


@pytest.mark.parametrize("seed", [-1, 1.5])
def test_a_seed_that_cannot_be_is_refused(seed: Any) -> None:
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0, not"):
        evaluate(network("temporal-order"), 20, 10, seed)

"""The settings of a run: what is refused, what is filled in, and that they survive as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steadygrad import tasks
from steadygrad.experiments import Config, ConfigError, preset
from steadygrad.experiments.config import ALGORITHMS
from steadygrad.experiments.presets import PRESETS

GOOD: dict[str, Any] = {"problem": "temporal-order", "algorithm": "sgd-cr", "threshold": 1.0, "alpha": 2.0}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("task", tasks.names())
def test_every_preset_is_whole_and_equals_itself_read_back_from_json(task: str, algorithm: str, name: str) -> None:
    config = preset(task, algorithm, name)
    assert Config.from_json(config.to_json()) == config
    assert (config.threshold is not None) == (algorithm in ("sgd-c", "sgd-cr"))
    assert (config.alpha > 0) == (algorithm in ("sgd-r", "sgd-cr"))


def test_the_papers_preset_has_the_numbers_of_the_supplement() -> None:
    # task: learning rate, α, units; the threshold is 6, the lengths 50 to 200 in all
    supplement = {
        "temporal-order": (0.001, 2.0, 50),
        "temporal-order-3bit": (0.001, 2.0, 100),
        "addition": (0.01, 0.5, 50),
        "multiplication": (0.01, 0.5, 50),
        "random-permutation": (0.001, 1.0, 100),
    }
    for task, numbers in supplement.items():
        config = preset(task, name="paper")
        assert (config.lr, config.alpha, config.hidden) == numbers
        assert (config.threshold, config.length, config.init) == (6.0, (50, 200), "basic_tanh")
        assert (config.success, config.test_sequences) == (0.01, 10_000)


def test_a_preset_leaves_out_a_curriculum_that_begins_above_the_lengths_asked_for() -> None:
    assert preset("temporal-order", name="steady").curriculum == (10, 15)
    assert preset("temporal-order", name="steady", length=(10, 12)).curriculum is None
    assert preset("addition", name="steady", length=(10, 12)).curriculum is None
    assert preset("addition", name="steady", curriculum=None).curriculum is None


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("problem", "temporal-ordr", "problem must be one of .* not 'temporal-ordr' .did you mean 'temporal-order'"),
        ("algorithm", "sgd-rc", "algorithm must be one of 'sgd', 'sgd-c', 'sgd-r', 'sgd-cr', not 'sgd-rc'"),
        ("options", {"positions": "papr"}, "options must fit temporal-order: positions must be one of .* not 'papr'"),
        (
            "options",
            {"criterion": "squared"},
            "options must fit .*: an option of temporal-order must be one of 'positions'",
        ),
        ("options", [], "options must be a dict"),
        ("length", (200, 50), r"length must be a pair of whole numbers, low before high, not \(200, 50\)"),
        ("length", 50, "length must be a pair"),
        ("length", (50.0, 200), "length must be a pair"),
        ("length", (5, 200), "length must begin at 10 or more, the shortest temporal-order can be, not at 5"),
        ("curriculum", (60, 80), r"curriculum must begin below length, \(50, 200\)"),
        ("curriculum", (5, 80), "curriculum must begin at 10 or more"),
        ("seed", -1, "seed must be a whole number of at least 0, not -1"),
        ("batch", 0, "batch must be a whole number of at least 1"),
        ("hidden", 2.5, "hidden must be a whole number"),
        ("lr", 0, "lr must be a finite number above 0, not 0"),
        ("lr", float("nan"), "lr must be a finite number above 0, not nan"),
        ("momentum", 0.9, "momentum must be left out with optimizer 'sgd'"),
        ("optimizer", "adma", "optimizer must be one of .*did you mean 'adam'"),
        ("threshold", None, r"threshold must be given with algorithm 'sgd-cr'"),
        ("threshold", "max", "threshold must be a number or 'auto', not 'max'"),
        ("threshold", -1.0, "threshold must be a finite number above 0"),
        ("threshold", 0, "threshold must be a finite number above 0, not 0$"),
        ("nonfinite", "ignore", "nonfinite must be one of 'skip', 'shrink', 'raise', not 'ignore'"),
        ("alpha", 0.0, "alpha must be above 0 with algorithm 'sgd-cr'"),
        ("alpha", -1.0, "alpha must be a finite number of at least 0"),
        ("growth", 1.3, "growth must be left out without a curriculum"),
        ("average", 0, "average must be a whole number of at least 1, not 0"),
        ("polish", 2.0, "polish must be left out with after_success='stop'"),
        ("epoch", 5, "epoch must be left out unless a schedule is '1/t' or 'half-when-worse'"),
        ("dtype", "float16", "dtype must be one of 'float32', 'float64', not 'float16'"),
        ("success", 1.0, r"success must be a number in \[0, 1\), not 1.0"),
        ("max_seconds", 0, "max_seconds must be a finite number above 0"),
        ("clock", "cpu", "clock must be one of 'wall', 'core', not 'cpu'"),
    ],
)
def test_a_fault_is_told_in_one_sentence_that_names_the_field(field: str, value: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        Config(**{**GOOD, field: value})
    assert len(caught.value.faults) == 1


@pytest.mark.parametrize(
    ("algorithm", "field", "value"),
    [("sgd", "threshold", 1.0), ("sgd", "alpha", 2.0), ("sgd-c", "alpha", 2.0), ("sgd-r", "nonfinite", "skip")],
)
def test_what_an_algorithm_does_not_do_cannot_be_set(algorithm: str, field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{field} must be .* with algorithm '{algorithm}'"):
        preset("temporal-order", algorithm, "paper", **{field: value})


def test_a_cores_time_is_counted_on_one_thread_alone() -> None:
    with pytest.raises(ConfigError, match="clock must be 'wall' with 2 threads"):
        Config(**GOOD, clock="core", threads=2)
    assert Config(**GOOD, clock="core").clock == "core"


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Config("addition", "sgd", length=(3, 2), lr=-1.0, init="tanh", seed=None)  # pyright: ignore
    assert [fault.split()[0] for fault in caught.value.faults] == ["length", "seed", "init", "lr"]
    assert str(caught.value).startswith("the config has 4 faults:\n  length")


def test_the_usual_values_are_filled_in() -> None:
    config = Config(**{**GOOD, "optimizer": "nesterov"})
    assert (config.hidden, config.momentum, config.nonfinite) == (50, 0.9, "skip")
    assert Config(**GOOD).momentum is None


def test_a_config_read_from_json_refuses_unknown_fields_by_name() -> None:
    values = {**preset("addition").as_dict(), "learning_rate": 0.1}
    with pytest.raises(ConfigError, match="no field 'learning_rate'"):
        Config.from_json(json.dumps(values))
    with pytest.raises(ConfigError, match="did you mean 'problem'"):
        Config.from_dict({"problems": "addition"})
    for text in ("[]", "{", "null"):
        with pytest.raises(ConfigError, match="a config must be"):
            Config.from_json(text)


def test_differences_name_every_field_that_differs() -> None:
    config = Config(**GOOD)
    assert config.differences(config.changed(seed=2, lr=0.5)) == ["seed is 1, not 2", "lr is 0.01, not 0.5"]
    assert config.differences(config) == []


def test_a_config_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config(**GOOD).lr = 1.0  # pyright: ignore

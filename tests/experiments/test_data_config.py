"""The settings of a run on music or text: what is refused, what is filled in, and the numbers of the supplement."""

from __future__ import annotations

import os
from typing import Any

import pytest

from steadygrad.experiments import Config, ConfigError, preset
from steadygrad.experiments.config import ALGORITHMS, MUSIC, TEXTS
from steadygrad.experiments.presets import OF_DATA as PRESETS

GOOD: dict[str, Any] = {"problem": "ptb", "algorithm": "sgd-cr", "threshold": 45.0, "alpha": 0.01}


def own(data: str) -> dict[str, Any]:
    return {"path": "here"} if data in ("text", "music") else {}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("data", [*MUSIC, *TEXTS])
def test_every_preset_is_whole_and_equals_itself_read_back_from_json(data: str, algorithm: str, name: str) -> None:
    config = preset(data, algorithm, name, **own(data))
    assert Config.from_json(config.to_json()) == config
    assert (config.threshold is not None) == (algorithm in ("sgd-c", "sgd-cr"))
    assert (config.alpha > 0) == (algorithm in ("sgd-r", "sgd-cr"))


def test_the_papers_presets_of_music_have_the_numbers_of_the_supplement() -> None:
    # units, rate, α; the rate is halved when an epoch was worse, α falls with 1/t, t in epochs: α_t = 1/(2t) for 0.5
    supplement = {"piano-midi": (300, 1.0, 0.5), "nottingham": (300, 1.0, 0.5), "musedata": (400, 0.5, 0.1)}
    for data, numbers in supplement.items():
        config = preset(data, "sgd-cr", "paper")
        assert (config.hidden, config.lr, config.alpha) == numbers
        assert (config.nonlinearity, config.steps, config.cost, config.threshold) == ("sigmoid", 200, "mean", 8.0)
        assert (config.lr_schedule, config.alpha_schedule) == ("half-when-worse", "1/t")


def test_the_papers_presets_of_characters_have_the_numbers_of_the_supplement() -> None:
    # (ahead, algorithm): rate, α, its schedule
    supplement = {
        (1, "sgd"): (0.001, 0.0, "constant"),
        (1, "sgd-c"): (0.01, 0.0, "constant"),
        (1, "sgd-cr"): (0.05, 0.01, "constant"),
        (5, "sgd-c"): (0.1, 0.0, "constant"),
        (5, "sgd-cr"): (0.05, 0.05, "1/t"),
    }
    for (ahead, algorithm), numbers in supplement.items():
        config = preset("ptb", algorithm, "paper", ahead=ahead)
        assert (config.lr, config.alpha, config.alpha_schedule) == numbers
        assert (config.hidden, config.nonlinearity, config.bias) == (500, "sigmoid", False)
        assert (config.steps, config.cost, config.lr_schedule) == (200, "sum", "constant")
        assert config.threshold == (None if algorithm == "sgd" else 45.0)


def test_noise_of_a_preset_is_left_out_with_networks_that_have_none() -> None:
    assert preset("temporal-order", "sgd-cr", "latch").noise > 0
    assert preset("temporal-order", "sgd-cr", "latch", network="gru").noise == 0


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("problem", "nottinham", "problem must be one of .* not 'nottinham' .did you mean 'nottingham'"),
        ("algorithm", "sgd-rc", "algorithm must be one of .* not 'sgd-rc'"),
        ("seed", -1, "seed must be a whole number of at least 0, not -1"),
        ("path", "x.txt", "path must be left out with 'ptb', which is known by name, not 'x.txt'"),
        ("ahead", 0, "ahead must be a whole number of at least 1, not 0"),
        ("time_step", 0.5, "time_step must be left out with 'ptb', whose steps are given, not 0.5"),
        ("transpose", 2, "transpose must be left out with 'ptb', which has no such setting, not 2"),
        ("hidden", 0, "hidden must be a whole number of at least 1, not 0"),
        ("bias", 1, "bias must be True or False, not 1"),
        ("leak", 1.0, r"leak must be a number in \[0, 1\), not 1.0"),
        ("steps", 0, "steps must be a whole number of at least 1, not 0"),
        ("batch", 2.0, "batch must be a whole number of at least 1, not 2.0"),
        ("cost", "average", "cost must be one of 'mean', 'sum', not 'average'"),
        ("momentum", 0.9, "momentum must be left out with optimizer 'sgd'"),
        ("threshold", None, "threshold must be given with algorithm 'sgd-cr'"),
        ("alpha", 0.0, "alpha must be above 0 with algorithm 'sgd-cr'"),
        ("lr_schedule", "1/length", "lr_schedule must be one of .* not '1/length'"),
        ("lr_schedule", "half", "lr_schedule must be one of .* not 'half'"),
        ("epochs", 0, "epochs must be a whole number of at least 1"),
        ("patience", 0, "patience must be a whole number of at least 1"),
        ("max_seconds", 0, "max_seconds must be a finite number above 0"),
        ("dtype", "float16", "dtype must be one of 'float32', 'float64', not 'float16'"),
    ],
)
def test_a_fault_is_told_in_one_sentence_that_names_the_field(field: str, value: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        Config(**{**GOOD, field: value})
    assert len(caught.value.faults) == 1


@pytest.mark.parametrize(
    ("data", "fields", "sentence"),
    [
        ("text", {}, "path must be given with 'text': a text file"),
        ("music", {}, "path must be given with 'music': a folder of MIDI files"),
        ("music", {"path": ""}, "path must be a path, not ''"),
        ("text", {"path": "x", "time_step": 0.25}, "time_step must be left out with 'text'"),
        ("jsb", {"transpose": -1}, "transpose must be a whole number of at least 0, not -1"),
        ("music", {"path": "x", "time_step": 0.0}, "time_step must be a finite number of at least 0.001, not 0.0"),
        ("music", {"path": "x", "ahead": 5}, "ahead must be left out with 'music', which is music, not 5"),
        ("jsb", {"threshold": 8.0}, "threshold must be left out with algorithm 'sgd'"),
        ("jsb", {"alpha": 1.0}, "alpha must be 0 with algorithm 'sgd'"),
        ("jsb", {"alpha_schedule": "1/t"}, "alpha_schedule must be left out with 'sgd', which has no Ω"),
    ],
)
def test_what_would_not_be_read_is_refused(data: str, fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        Config(data, "sgd", **fields)
    assert len(caught.value.faults) == 1


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Config("ptb", "sgd", lr=-1.0, steps=0, cost="max", time_step=1.0)
    assert [fault.split()[0] for fault in caught.value.faults] == ["time_step", "lr", "steps", "cost"]


def test_the_usual_values_are_filled_in() -> None:
    config = Config("music", "sgd", path="tunes", optimizer="adam")
    assert (config.hidden, config.time_step, config.momentum) == (300, 0.25, 0.9)
    # the run may be gone on with from elsewhere
    assert config.path == os.path.join(os.getcwd(), "tunes")


def test_settings_of_drawn_problems_are_refused_by_name() -> None:
    with pytest.raises(
        ConfigError, match="max_updates must be left out with 'ptb', which has no such setting"
    ) as caught:
        Config(**{**GOOD, "max_updates": 9, "curriculum": (5, 9)})
    assert [fault.split()[0] for fault in caught.value.faults] == ["curriculum", "max_updates"]
    with pytest.raises(ConfigError, match=r"patience must be left out with 'addition'.*curriculum_patience is"):
        Config("addition", "sgd", patience=3)


def test_a_config_of_version_0_1_0_is_read() -> None:
    old = {"task": "addition", "algorithm": "sgd", "task_options": {"criterion": "squared"}, "curriculum": [10, 15]}
    config = Config.from_dict({**old, "patience": 200})
    assert (config.problem, config.options, config.curriculum_patience) == ("addition", {"criterion": "squared"}, 200)
    assert Config.from_dict({"data": "ptb", "algorithm": "sgd", "patience": 3}).patience == 3

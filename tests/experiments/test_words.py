"""Results, names and choices in words."""

from __future__ import annotations

from steadygrad.experiments import Config, Result, config, problem
from steadygrad.experiments.learner import Learner
from steadygrad.sweep import Grid


def test_a_result_has_its_verdict_in_words() -> None:
    solved = Result("solved", 12_000, 14.0, 20_000, 20.0, solved=True, error=0.004)
    assert solved.verdict == "solved after 12,000 updates"
    diverged = Result("diverged: the loss is nan, after 3 updates", 3, 1.0, 3, 1.0, solved=False)
    assert diverged.verdict == "not solved: diverged: the loss is nan, after 3 updates"
    scored = Result("patience", 9000, 600.0, 9000, 600.0, train=3.21, test=3.456, epochs=40)
    assert scored.verdict == "test 3.456, train 3.210 after 40 epochs"


def test_names_forms_and_choices() -> None:
    assert config.kind("dtype")[1] == ("float32", "float64")
    assert (problem.form("addition"), problem.form("ptb")) == ("drawn", "data")
    assert problem.name_of("addition") == "addition"


def test_nesterov_is_what_its_name_says() -> None:
    made = Learner(Config("addition", "sgd", (10, 10), hidden=3, optimizer="nesterov"))
    assert made.method.optimizer.defaults["nesterov"] is True


def test_a_cell_takes_the_settings_that_its_algorithm_reads() -> None:
    axes = {"lengths": [(10, 10)], "algorithms": ["sgd-c", "sgd-cr"], "presets": ["paper"]}
    clipped, both = Grid.product("mine", **axes, threshold=1.0, alpha=3.0).cells
    assert (clipped.config.threshold, clipped.config.alpha) == (1.0, 0.0)
    assert (both.config.threshold, both.config.alpha) == (1.0, 3.0)

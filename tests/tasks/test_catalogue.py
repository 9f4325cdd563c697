"""Tasks by name: all of the paper's, near misses named, options passed on and never ignored."""

from __future__ import annotations

import pytest

from steadygrad import tasks

NAMES = (
    "temporal-order",
    "temporal-order-3bit",
    "addition",
    "multiplication",
    "random-permutation",
    "memorization-5bit",
    "memorization-20bit",
)
"""The paper's; recall is one more."""


def test_all_tasks_of_the_paper_are_known_by_name() -> None:
    assert tasks.names() == (*NAMES, "recall")
    for name in NAMES:
        assert tasks.get(name).name == name


def test_an_unknown_name_is_refused_with_the_nearest_match() -> None:
    with pytest.raises(ValueError, match=r"^task must be one of .*, not 'aditon' \(did you mean 'addition'\?\)$"):
        tasks.get("aditon")


@pytest.mark.parametrize(
    ("name", "option", "default", "other"),
    [
        ("temporal-order", "positions", "paper", "program"),
        ("temporal-order-3bit", "positions", "paper", "program"),
        ("addition", "criterion", "absolute", "squared"),
        ("multiplication", "criterion", "absolute", "squared"),
        ("random-permutation", "predict", "last", "all"),
        ("memorization-5bit", "counted", "pattern", "all"),
        ("memorization-20bit", "counted", "pattern", "all"),
        ("recall", "distractors", "other", "same"),
    ],
)
def test_an_option_is_passed_on_and_its_bad_values_and_bad_names_refused(
    name: str, option: str, default: str, other: str
) -> None:
    assert getattr(tasks.get(name), option) == default
    assert getattr(tasks.get(name, **{option: other}), option) == other
    with pytest.raises(ValueError, match=rf"^{option} must be one of '{default}', '{other}', not 'papre'"):
        tasks.get(name, **{option: "papre"})
    with pytest.raises(ValueError, match=rf"^an option of {name} must be one of '{option}', not 'leak'$"):
        tasks.get(name, leak="paper")

"""What is typed on the command line, and what becomes of it."""

from __future__ import annotations

import pytest

from steadygrad import ranges
from steadygrad.commands import options


def test_lengths_names_and_options_are_read_as_they_are_typed() -> None:
    assert options.length("50:200") == (50, 200)
    assert options.length("100") == (100, 100)
    assert options.names("sgd, sgd-c") == ["sgd", "sgd-c"]
    assert [options.option(name) for name in ("time_step", "options")] == ["--time-step", "--option"]


def test_what_cannot_be_read_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^--length must be left out with 'ptb', which is a text$"):
        options.refuse(["length"], ["lr"], "with 'ptb', which is a text")
    with pytest.raises(
        ValueError, match=r"^length must be LOW:HIGH with LOW below HIGH, such as 50:200, not '200:50'$"
    ):
        ranges.lengths("200:50")

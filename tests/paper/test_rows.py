"""The rows of the table of tasks."""

from __future__ import annotations

from steadygrad.paper.rows import rows

ONE = {"problem": "addition", "length": [50, 200], "preset": "steady", "algorithm": "sgd-cr"}


def test_a_row_has_the_success_the_minutes_and_the_errors_of_its_records() -> None:
    result = {"solved": True, "updates": 9000, "seconds": 90.0}
    (row,) = rows([{**ONE, "result": result, "generalisation": {"400": 0.004}}])
    assert (str(row.success), row.minutes, row.errors) == ("1/1", 1.5, {400: [0.004]})


def test_a_label_names_what_is_left_out() -> None:
    (row,) = rows([{**ONE, "algorithm": "sgd-c", "result": None}])
    assert row.label == "steady without Ω"

"""The rows of the table of tasks."""

from __future__ import annotations

from steadygrad.paper.tasks_table import Row, rows
from steadygrad.success import SuccessRate


def test_a_row_has_the_success_the_minutes_and_the_errors_of_its_records() -> None:
    result = {"solved": True, "updates": 9000, "seconds": 90.0}
    one = {"problem": "addition", "length": [50, 200], "preset": "steady", "algorithm": "sgd-cr", "result": result}
    (row,) = rows([{**one, "generalisation": {"400": 0.004}}])
    assert (str(row.success), row.minutes, row.errors) == ("1/1", 1.5, {400: [0.004]})


def test_a_label_names_what_is_left_out() -> None:
    row = Row("addition", (50, 200), "steady", "sgd-c", SuccessRate(0, 5), None, None)
    assert row.label == "steady without Ω"

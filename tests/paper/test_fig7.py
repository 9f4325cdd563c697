"""Fig. 7 and the table of tasks: counts equal those made by hand, and what was not run is not drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steadygrad.paper import fig7, rows
from steadygrad.sweep import wilson
from steadygrad.tasks import names


def record(algorithm: str = "sgd-cr", length: Any = 50, solved: bool | None = True, **other: Any) -> dict[str, Any]:
    low, high = (length, length) if isinstance(length, int) else length
    result = None if solved is None else {"solved": solved, "updates": 1000, "seconds": 60.0, "reason": "solved"}
    common = {
        "problem": "temporal-order",
        "preset": "steady",
        "result": result,
        "generalisation": {},
        "failed": "no luck",
    }
    return {**common, "algorithm": algorithm, "length": [low, high], **other}


def test_counts_rates_and_intervals_are_those_of_the_records() -> None:
    verdicts = {("sgd", 10): [True, True, False], ("sgd-cr", 10): [True], ("sgd-cr", 200): [True, False, False, False]}
    data = fig7.data([record(a, T, solved) for (a, T), each in verdicts.items() for solved in each])
    assert data["lengths"].tolist() == [10, 200]
    assert data["solved"].tolist() == [[2, 0], [0, 0], [1, 1]]
    assert data["seeds"].tolist() == [[3, 0], [0, 0], [1, 4]]
    nan = float("nan")
    np.testing.assert_equal(data["rate"], [[2 / 3, nan], [nan, nan], [1.0, 0.25]])
    np.testing.assert_equal(data["low"], [[wilson(2, 3)[0], nan], [nan, nan], [wilson(1, 1)[0], wilson(1, 4)[0]]])
    np.testing.assert_equal(data["high"], [[wilson(2, 3)[1], nan], [nan, nan], [1.0, wilson(1, 4)[1]]])


def test_other_tasks_ranges_failures_and_ablations_are_no_part_of_the_figure() -> None:
    others = [
        record(problem="addition"),
        record(length=(50, 200)),
        record(solved=None),
        record("sgd-r", 77),
    ]
    assert fig7.data(others)["lengths"].tolist() == []
    assert fig7.data([*others, record("sgd-c", 20)])["seeds"].tolist() == [[0], [1], [0]]


def test_the_figure_shows_every_point_on_a_log_axis_and_says_the_counts() -> None:
    pytest.importorskip("matplotlib")
    records = [record(a, T, a == "sgd-cr") for a in fig7.ALGORITHMS for T in (10, 50, 200) for _ in range(4)]
    axes, below = fig7.draw(fig7.data(records)).axes
    assert axes.get_xscale() == "log"
    drawn = {line.get_label(): line.get_ydata() for line in axes.get_lines() if not line.get_label().startswith("_")}
    assert [list(drawn[fig7.LOOKS[name][0]]) for name in fig7.ALGORITHMS] == [[0, 0, 0], [0, 0, 0], [1, 1, 1]]
    assert [text.get_text() for text in below.texts].count("0/4") == 6
    assert [text.get_text() for text in below.texts].count("4/4") == 3


def test_a_figure_of_nothing_can_still_be_drawn() -> None:
    pytest.importorskip("matplotlib")
    assert fig7.draw(fig7.data([])).axes


def test_a_panel_is_the_settings_and_of_the_final_edition_the_initialisation() -> None:
    final = [record(preset="proceedings", config={"init": init}) for init in ("smart_tanh", "sigmoid")]
    ours = record(preset="fig7", config={"lr": 0.003})
    found = fig7.panels([*final, record(preset="proceedings", config={"lr": 0.01}), ours])
    names = ["fig7", "proceedings, basic_tanh", "proceedings, sigmoid", "proceedings, smart_tanh"]
    assert list(found) == names
    assert found["fig7"] == [ours]
    assert found["proceedings, sigmoid"] == [final[1]]


def test_panels_are_drawn_side_by_side_each_with_its_own_counts() -> None:
    pytest.importorskip("matplotlib")
    initial = {"basic_tanh": 3, "sigmoid": 1}
    records = [
        record("sgd-cr", T, number < solved, preset="proceedings", config={"init": init})
        for init, solved in initial.items()
        for T in (10, 200)
        for number in range(3)
    ]
    left, right, below_left, below_right = fig7.draw_panels(records).axes
    assert [axes.get_title() for axes in (left, right)] == ["basic tanh", "sigmoid"]
    assert [text.get_text() for text in below_left.texts].count("3/3") == 2
    assert [text.get_text() for text in below_right.texts].count("1/3") == 2


def test_rows_have_medians_over_the_seeds_that_solved_it_alone() -> None:
    def run(updates: int, solved: bool, error: float) -> dict[str, Any]:
        result = {"solved": solved, "updates": updates, "seconds": updates / 10, "reason": "x"}
        return record(length=(50, 200), result=result, generalisation={"400": error, "250": 0.0})

    failed = record(length=(50, 200), solved=None)
    (row,) = rows.rows([run(100, True, 0.01), run(300, True, 0.03), run(9000, False, 0.9), failed])
    assert (row.success.solved, row.success.seeds, row.failed, row.limit) == (2, 3, 1, 9000)
    assert (row.updates, row.minutes) == (200, pytest.approx(20 / 60))
    assert row.errors == {250: [0.0, 0.0], 400: [0.01, 0.03]}


def test_a_row_without_success_has_no_updates_and_no_errors() -> None:
    (row,) = rows.rows([record(solved=False, generalisation={"400": 0.5})])
    assert (row.updates, row.minutes, row.errors, str(row.success)) == (None, None, {}, "0/1")


def test_rows_come_in_the_papers_order_with_ablations_below_what_they_leave_out() -> None:
    records = [
        record(problem=task, algorithm=algorithm, preset=preset)
        for task in reversed(names())
        for preset, algorithm in (*(("steady", name) for name in reversed(rows.WITHOUT)), ("paper", "sgd-cr"))
    ]
    found = rows.rows(records)
    assert tuple(dict.fromkeys(row.problem for row in found)) == names()
    assert [row.label for row in found[:5]] == [
        "paper",
        "steady",
        "steady without Ω",
        "steady without clipping",
        "steady without Ω and clipping",
    ]


def test_the_paper_has_a_claim_for_every_task_but_recall() -> None:
    assert {*rows.CLAIMS, "recall"} == set(names())

"""The study of recall: which method a record is of, what its rows say, and that the figure shows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steadygrad.paper import recall


def record(network: str, delay: int, solved: bool, algorithm: str = "sgd-cr", **config: Any) -> dict[str, Any]:
    result = {"solved": solved, "updates": 750 if solved else 5000, "error": 0.0 if solved else 0.875}
    settings = {"network": network, **config}
    return {
        "problem": "recall",
        "length": [delay, delay],
        "algorithm": algorithm,
        "preset": "steady",
        "config": settings,
        "result": result,
    }


@pytest.mark.parametrize(
    ("algorithm", "config", "expected"),
    [
        ("sgd-cr", {"alpha": 1.0}, "omega"),
        ("sgd-c", {"init": "uniform"}, "none"),
        ("sgd-c", {"init": "remember"}, "remember"),
        ("sgd-c", {"init": "chrono", "longest": 200}, "chrono"),
        ("sgd-c", {"init": "chrono", "longest": 20}, "chrono-tenth"),
        ("sgd-cr", {"init": "chrono", "longest": 20}, "chrono-tenth-omega"),
        ("sgd-c", {"init": "chrono", "longest": 70}, "chrono-70"),
    ],
)
def test_a_record_says_what_it_was_made_by(algorithm: str, config: dict[str, Any], expected: str) -> None:
    assert recall.method(record("gru", 200, True, algorithm, **config)) == expected


def test_rows_count_the_seeds_of_a_network_delay_and_method() -> None:
    other = {**record("gru", 50, True), "problem": "addition"}
    seeds = [record("lstm", 50, True), record("gru", 200, False), record("gru", 50, True), record("gru", 50, False)]
    plain = record("gru", 50, False, "sgd-c")
    found = recall.rows([other, plain, *seeds])
    seen = [(row.problem, row.more, row.length[1], row.success.solved, row.success.seeds) for row in found]
    assert seen == [
        ("recall", ("gru", "omega"), 50, 1, 2),
        ("recall", ("gru", "none"), 50, 0, 1),
        ("recall", ("gru", "omega"), 200, 0, 1),
        ("recall", ("lstm", "omega"), 50, 1, 1),
        ("addition", ("gru", "omega"), 50, 1, 1),
    ]
    assert (found[0].updates, found[0].error) == (750, 0.4375)
    assert (found[1].updates, found[1].error) == (None, 0.875)


def test_the_figure_has_a_panel_for_each_network_and_both_curves() -> None:
    pytest.importorskip("matplotlib")
    records = [record(network, delay, True) for network in ("rnn", "gru") for delay in (50, 200)]
    records += [record("gru", 50, False, "sgd-c"), record("gru", 50, True, "sgd-c", init="chrono", longest=50)]
    panels = recall.draw(recall.rows(records)).axes
    assert [axes.get_title() for axes in panels] == ["RNN", "GRU"]
    drawn = [(np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist()) for line in panels[1].lines]
    assert drawn == [([50, 200], [1.0, 1.0]), ([50], [0.0])]

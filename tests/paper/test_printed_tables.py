"""Tables 1 and 2: the mean over seeds counts, and the paper's order is told as it was measured."""

from __future__ import annotations

from typing import Any

import pytest

from steadygrad.paper.tables import ALGORITHMS, TABLES, rows
from steadygrad.sweep import get

MUSIC, CHARACTERS = TABLES["table1"], TABLES["table2"]


def record(data: str, algorithm: str, test: float | None, **other: Any) -> dict[str, Any]:
    valid = other.pop("valid", test)
    result = {"train": None if test is None else test - 0.2, "valid": valid, "test": test, "seconds": 60.0}
    about = {
        "problem": data,
        **({"ahead": 1} if data == "ptb" else {}),
        "algorithm": algorithm,
        "preset": "paper",
        "seed": 1,
        "result": result,
    }
    return {**about, **other}


def test_every_cell_of_the_tables_has_a_run_and_the_paper_leaves_out_sgd_at_five_steps_alone() -> None:
    missing = []
    for table in (MUSIC, CHARACTERS):
        cells = {
            (c.config.problem, c.config.ahead if c.config.is_text else None, c.config.algorithm)
            for c in get(table.name, "hours").cells
        }
        assert cells == {(b.problem, b.ahead, algorithm) for b in table.blocks for algorithm in ALGORITHMS}
        for block in table.blocks:
            for fold in ("train", "test"):
                missing += [(block.label, a, fold) for a in ALGORITHMS if block.figure(a, fold) is None]
    assert missing == [("5 steps", "sgd", "train"), ("5 steps", "sgd", "test")]


def test_in_the_papers_own_test_figures_its_order_holds() -> None:
    for table in (MUSIC, CHARACTERS):
        for block in table.blocks:
            known = [value for value in block.test if value is not None]
            assert known == sorted(known, reverse=True)


def test_the_mean_over_all_seeds_counts_and_none_is_chosen() -> None:
    seeds = {1: (3.50, 3.40), 2: (3.45, 3.60), 3: (3.60, 3.20)}
    records = [record("nottingham", "sgd-cr", test, valid=valid, seed=s) for s, (valid, test) in seeds.items()]
    (row,) = rows(MUSIC, records)
    assert row.figures("sgd-cr", "test") == [3.40, 3.60, 3.20]
    assert row.tested["SGD+CR"] == pytest.approx(3.40)
    assert row.tested["SGD"] is None


@pytest.mark.parametrize(
    ("figures", "holds"),
    [((3.8, 3.5, 3.4), True), ((3.8, 3.4, 3.5), False), ((3.5, 3.496, 3.4), False), ((None, 3.5, 3.4), None)],
)
def test_the_order_holds_only_where_every_step_is_better(figures: Any, holds: bool | None) -> None:
    records = [record("musedata", algorithm, test) for algorithm, test in zip(ALGORITHMS, figures, strict=True)]
    (row,) = rows(MUSIC, records)
    assert row.order is holds
    assert row.alike == ([("SGD", "SGD+C")] if figures[1] == 3.496 else [])


def test_the_order_seed_by_seed_looks_at_seeds_that_all_three_have() -> None:
    by_algorithm = {"sgd": {1: 3.8, 2: 3.3, 3: 3.9}, "sgd-c": {1: 3.5, 2: 3.5}, "sgd-cr": {1: 3.4, 2: 3.4, 4: 1.0}}
    records = [
        record("nottingham", name, test, seed=s) for name, seeds in by_algorithm.items() for s, test in seeds.items()
    ]
    (row,) = rows(MUSIC, records)
    assert row.order_by_seed == [True, False]
    assert row.by_seed("sgd-cr", "sgd-c") == [[3.4, 3.5], [3.4, 3.5]]
    # seeds 3 and 4 are not compared with others' seeds
    assert row.tested == pytest.approx({"SGD": 3.55, "SGD+C": 3.5, "SGD+CR": 3.4})


def test_rows_come_in_the_papers_order_paper_before_steady_and_other_records_are_left_out() -> None:
    records = [record("ptb", "sgd", 1.5, preset=preset, ahead=a) for preset in ("steady", "paper") for a in (5, 1, 3)]
    records += [{"problem": "addition", "result": None, "preset": "paper", "algorithm": "sgd"}]
    assert [(row.printed.label, row.preset) for row in rows(CHARACTERS, records)] == [
        ("1 step", "paper"),
        ("1 step", "steady"),
        ("5 steps", "paper"),
        ("5 steps", "steady"),
    ]
    assert rows(MUSIC, records) == []

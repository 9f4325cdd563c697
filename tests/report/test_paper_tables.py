"""Tables 1 and 2 in RESULTS.md and on pages: the paper's figure beside ours, seeds, epochs and minutes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import made_up
import pytest
from made_up import write_lines

from steadygrad import experiments as room
from steadygrad.paper.tables import TABLES
from steadygrad.report import pages, results, tables

FIGURES = {"sgd": 3.9, "sgd-c": 3.5, "sgd-cr": 3.4254}


def record(algorithm: str, data: str = "nottingham", preset: str = "paper", seed: int = 1, **other: Any) -> Any:
    test = FIGURES[algorithm]
    result = {"train": test - 0.2, "valid": test - 0.1, "test": test, "best_epoch": 30, "epochs": 50, "updates": 9000}
    result |= {"seconds": 600.0 * seed, "reason": "patience", "tokens_per_second": 9000.0}
    ahead = {"ahead": other.pop("ahead")} if "ahead" in other else {}
    return {
        "id": f"{data}_{algorithm}_{preset}_seed{seed}",
        "grid": "table1",
        "command": "steadygrad reproduce table1 --budget hours",
        "problem": data,
        **ahead,
        "algorithm": algorithm,
        "preset": preset,
        "seed": seed,
        "config": {"lr": 1.0},
        "result": {**result, **other.pop("result", {})},
        "commit": "abc1234",
        "version": "0.1.0",
        "machine": {"cpu": "A fine processor", "threads": 2},
        "date": "2026-11-15",
        **other,
    }


def test_results_has_both_tables_with_the_papers_figure_beside_ours(tmp_path: Path) -> None:
    write_lines(tmp_path / "table1.jsonl", [record(algorithm) for algorithm in FIGURES])
    write_lines(tmp_path / "table2.jsonl", [record("sgd", data="ptb", ahead=5, preset="steady")])
    page = results.render(tmp_path)
    assert "|  | settings | fold | SGD | paper | SGD+C | paper | SGD+CR | paper |" in page
    assert "| Nottingham | paper | train | 3.70 | 3.67 | 3.30 | 3.21 | 3.23 | 3.24 (2.95) |" in page
    assert "| Nottingham | paper | test | 3.90 | 3.80 | 3.50 | 3.48 | 3.43 | 3.46 (3.36) |" in page
    assert "| 5 steps | steady | test | 3.90 | – | – | 3.89 | – | 3.74 |" in page
    assert "| Nottingham | paper | SGD+CR | patience | 1 | 30 | 50 | 10.0 |" in page
    assert "3 runs, 0.5 core-hours, 2026-11-15, on A fine processor (2 threads), commit abc1234." in page
    assert "reproduce table" not in page.replace("`steadygrad reproduce table1 --budget hours`", "")


def test_without_records_each_table_says_what_to_type(tmp_path: Path) -> None:
    page = results.render(tmp_path)
    for name in ("table1", "table2"):
        assert f"Not run yet: `steadygrad reproduce {name} --budget hours --records results`" in page


def test_the_statement_on_the_order_is_what_the_records_say() -> None:
    table = TABLES["table1"]
    records = [record(algorithm) for algorithm in FIGURES]
    (sentence,) = tables.sentences(table, records)
    assert sentence == (
        "Nottingham, `paper`: the order SGD > SGD+C > SGD+CR holds on the test split (SGD 3.900, SGD+C 3.500, SGD+CR "
        "3.425). Against the paper's test figures: SGD +2.6 %, SGD+C +0.6 %, SGD+CR −1.0 %. Bai et al. "
        "2018 on the same files: RNN 4.05, LSTM 3.29, TCN 3.07."
    )
    worse = [*records[:2], record("sgd-cr", result={"test": 3.6})]
    assert "SGD > SGD+C > SGD+CR does not hold on the test split" in tables.sentences(table, worse)[0]
    equal = [*records[:2], record("sgd-cr", result={"test": 3.4999})]
    assert (
        "does not hold on the test split (SGD 3.900, SGD+C 3.500, SGD+CR 3.500; SGD+C and SGD+CR are within 0.005 of "
        "each other)" in tables.sentences(table, equal)[0]
    )
    assert "can't be told without SGD+CR." in tables.sentences(table, records[:2])[0]
    seeds = [record(a, seed=seed) for a in FIGURES for seed in (1, 2)] + [record("sgd", seed=3)]
    assert "; seed by seed in 2 of 2)" in tables.sentences(table, seeds)[0]


def test_several_seeds_show_their_mean_and_range() -> None:
    records = [
        record("sgd-cr", seed=seed, result={"valid": valid, "test": test})
        for seed, valid, test in ((1, 3.4, 3.50), (2, 3.3, 3.47), (3, 3.5, 3.44))
    ]
    figures = tables.figures(TABLES["table1"], records)
    assert figures.rows[1][7] == "3.47 (3.44–3.50)"
    (took,) = tables.runs(TABLES["table1"], records).rows
    assert took[4:] == ["1, 2, 3", "30", "50", "20.0"]  # 10, 20 and 30 minutes


def test_whether_omega_makes_a_difference_is_told_by_a_paired_test_over_seeds() -> None:
    figures = {"sgd-c": (3.50, 3.60, 3.70), "sgd-cr": (3.40, 3.51, 3.59)}
    records = [
        record(name, seed=seed, result={"test": test})
        for name, tests in figures.items()
        for seed, test in enumerate(tests, 1)
    ]
    (sentence,) = tables.sentences(TABLES["table1"], records)
    # differences −0.10, −0.09, −0.11: mean −0.1, standard error 0.01 / √3, so t = −17.3 with 2 degrees of freedom
    assert "SGD+CR is −0.100 (−0.110 to −0.090) from SGD+C: paired t-test over 3 seeds, p = 0.0033." in sentence
    (sentence,) = tables.sentences(TABLES["table1"], records[::3])
    assert "paired" not in sentence


def test_runs_without_a_figure_are_told_and_leave_their_place_empty(tmp_path: Path) -> None:
    nothing = {"train": None, "valid": None, "test": None, "reason": "diverged: the loss is nan"}
    records = [record("sgd", result=nothing), record("sgd-c"), record("sgd-cr", failed="no luck")]
    records[2]["result"] = None
    assert tables.failures(records) == [
        "nottingham_sgd_paper_seed1 has no figure: diverged: the loss is nan.",
        "nottingham_sgd-cr_paper_seed1 failed: no luck.",
    ]
    assert tables.figures(TABLES["table1"], records).rows[1][3::2] == ["–", "3.50", "–"]
    write_lines(tmp_path / "table1.jsonl", records)
    page = results.render(tmp_path)
    assert "- nottingham_sgd-cr_paper_seed1 failed: no luck." in page
    plain = tables.cells(records).plain()
    assert "ended by diverged: the loss is nan" in plain
    assert "failed: no luck" in plain


def test_the_page_of_a_table_has_its_figures_its_statement_and_every_run() -> None:
    records = [record(algorithm) for algorithm in FIGURES]
    page = pages.of_grid("table1", records, "steadygrad reproduce table1").render()
    assert "<td>3.43</td><td>3.46 (3.36)</td>" in page
    assert "holds on the test split" in page
    assert "<code>steadygrad reproduce table1</code>" in page
    assert "nottingham_sgd-cr_paper_seed1" in page


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A real run on a text of a few hundred characters."""
    (tmp_path / "abba.txt").write_text("abba baab\n" * 60, encoding="utf-8")
    small = {"hidden": 4, "steps": 20, "batch": 2, "epochs": 2, "path": str(tmp_path / "abba.txt")}
    room.run(room.preset("text", "sgd-cr", **small), tmp_path / "run", progress="none")
    return tmp_path / "run"


def test_the_page_of_a_run_on_text_has_its_figures_its_curves_and_its_settings(run: Path) -> None:
    pytest.importorskip("matplotlib")
    result = json.loads((run / "result.json").read_text())
    page = pages.of(run).render()
    assert f"train {result['train']:.3f}, valid {result['valid']:.3f}, test {result['test']:.3f}" in page
    assert page.count("data:image/svg+xml") == 3  # curves, flow, spectrum
    assert '<td class="text">hidden</td>' in page
    (run / "result.json").unlink()
    for name in ("metrics.jsonl", "flow.jsonl"):
        (run / name).write_text("")
    begun = pages.of(run).render()
    assert "there is no result yet" in begun
    assert "data:image" not in begun


def test_the_page_of_a_sweep_of_music_fills_the_papers_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"grid": "table1", "command": "steadygrad reproduce table1", "cells": ["a", "b", "c", "d"]}
    (tmp_path / "sweep.json").write_text(json.dumps(about))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "starts.json").write_text("{}")

    def collected(records: list[Any]) -> str:
        monkeypatch.setattr(
            pages, "collect", lambda _: [{**each, "id": name} for each, name in zip(records, "abc", strict=False)]
        )
        return pages.of(tmp_path).render()

    page = collected([record(algorithm) for algorithm in FIGURES])
    assert "3 runs are finished; 1 are left to run." in page
    assert "Polyphonic music (Table 1)" in page
    assert "Penn Treebank" not in page
    assert '<td class="text"><a href="a/">a</a></td>' in page
    assert '<a href="d/">d</a></td><td class="text">running, or its worker was killed</td>' in page
    mixed = collected([made_up.record("addition"), record("sgd")])
    assert '<a href="a/">a</a></td><td class="text">solved</td>' in mixed
    assert '<td class="text">ended by patience</td>' in mixed

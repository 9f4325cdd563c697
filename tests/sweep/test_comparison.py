"""The comparison of methods: its grids, how the best trial is chosen, and that every method runs, is recorded and shown."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pretended import pretend

from steadygrad import sweep
from steadygrad.cli import main, parser
from steadygrad.commands import reproduce
from steadygrad.commands import sweep as sweeping
from steadygrad.experiments import run
from steadygrad.paper import comparison as study
from steadygrad.report import results, tables
from steadygrad.sweep.comparison import METHODS, best

TINY: dict[str, Any] = {"max_updates": 2, "check_every": 2, "check_sequences": 20, "test_sequences": 40}


def _trial(method: str, number: int, *, solved: bool, seconds: float, error: float) -> dict[str, Any]:
    return {"preset": f"{method}-trial{number}", "result": {"solved": solved, "seconds": seconds, "error": error}}


def test_every_method_has_eight_different_trials_on_seeds_from_101_on() -> None:
    cells = sweep.get("tuning", "hours").cells
    counts = Counter(cell.preset.rpartition("-trial")[0] for cell in cells)
    assert counts == dict.fromkeys(METHODS, 8)
    assert {cell.config.seed for cell in cells} == {101}
    assert {(cell.config.max_seconds, cell.config.clock, cell.config.threads) for cell in cells} == {(180.0, "core", 1)}
    for method in METHODS:
        mine = [cell.config for cell in cells if cell.preset.startswith(f"{method}-trial")]
        assert len({config.to_json() for config in mine}) == 8


def test_the_comparison_has_every_method_on_every_problem_it_can_learn_three_times() -> None:
    cells = sweep.get("comparison", "hours").cells
    assert {(cell.config.max_seconds, cell.config.clock) for cell in cells} == {(300.0, "core")}
    places = Counter((cell.preset, cell.config.problem, cell.config.length[1]) for cell in cells)
    assert set(places.values()) == {3}
    assert places.keys() == {
        (method, problem, length)
        for method, about in METHODS.items()
        for problem, lengths in about.problems.items()
        for length in lengths
    }


def test_the_best_trial_is_the_one_that_solved_soonest_else_the_one_that_erred_least() -> None:
    trials = [
        _trial("sgd", 1, solved=False, seconds=1.0, error=0.02),
        _trial("sgd", 2, solved=True, seconds=90.0, error=0.001),
        _trial("sgd", 3, solved=True, seconds=30.0, error=0.009),
        _trial("hessian-free", 1, solved=False, seconds=5.0, error=0.7),
        _trial("hessian-free", 2, solved=False, seconds=180.0, error=0.4),
        {"preset": "hessian-free-trial3", "result": None},
    ]
    chosen = best(trials)
    assert chosen == {"sgd": METHODS["sgd"].candidates[2], "hessian-free": METHODS["hessian-free"].candidates[1]}
    cells = {cell.preset: cell.config for cell in sweep.get("comparison", "minutes", tuned=chosen).cells}
    assert {name: getattr(cells["sgd"], name) for name in chosen["sgd"]} == chosen["sgd"]
    assert cells["hessian-free"].structural == chosen["hessian-free"]["structural"]


def test_with_several_seeds_the_trial_that_more_of_them_solved_comes_first() -> None:
    trials = [
        _trial("l1", 1, solved=True, seconds=10.0, error=0.0),
        _trial("l1", 1, solved=False, seconds=9, error=0.5),
    ]
    trials += [_trial("l1", 2, solved=True, seconds=60.0, error=0.0)] * 2
    assert best(trials) == {"l1": METHODS["l1"].candidates[1]}


def test_every_method_runs_is_recorded_with_its_horizon_and_stands_in_the_table(tmp_path: Path) -> None:
    grid = sweep.get("comparison", "minutes", **TINY)
    assert [cell.preset for cell in grid.cells] == [
        name for name, about in METHODS.items() if "temporal-order" in about.problems
    ]
    outcomes = sweep.run(
        grid, tmp_path / "cells", engine=sweep.Local(1), command="here", progress="none", train=_smaller
    )
    assert [outcome.reason for outcome in outcomes if outcome.status != "finished"] == []
    records = sweep.collect(tmp_path / "cells")
    horizons = {record["preset"]: record["result"]["horizon"] for record in records}
    assert horizons["echo-state"] == 0
    assert 0 < horizons["truncated"] <= 25
    found = study.rows(records)
    assert [row.preset for row in found] == [name for name in METHODS if name in horizons]
    assert len(tables.comparison(records).rows) == len(found)
    sweep.write_records(tmp_path / "results" / "comparison.jsonl", records)
    page = results.render(tmp_path / "results")
    assert study.TITLE in page
    assert "| Hessian-free | 0/1, " in page


def test_the_picture_has_a_line_for_each_method() -> None:
    pytest.importorskip("matplotlib")
    result = {"solved": True, "updates": 10, "seconds": 60.0, "error": 0.0, "horizon": 9}
    record = {"problem": "addition", "length": [50, 50], "algorithm": "sgd", "result": result}
    (axes,) = study.draw(study.rows([{**record, "preset": "sgd"}, {**record, "preset": "echo-state"}])).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["SGD", "echo state network"]


def _smaller(config: Any, directory: Path, **more: Any) -> Any:
    """`experiments.run`, with sizes that take no time."""
    sizes: dict[str, Any] = {"hidden": 8} if config.network == "echo-state" else {}
    if config.optimizer == "hessian-free":
        sizes = {"batch": 6, "curvature_batch": 3}
    return run(config.changed(**sizes), directory, **more)


def _record(method: str, result: dict[str, Any] | None) -> dict[str, Any]:
    cell = f"temporal-order_50_{method}_seed1"
    about = {"id": cell, "grid": "comparison", "command": "here", "problem": "temporal-order", "length": [50, 50]}
    about |= {"algorithm": "sgd", "preset": method, "seed": 1, "config": {}, "result": result, "generalisation": {}}
    about |= {} if result else {"failed": "its worker died"}
    return {**about, "commit": "c", "version": "1", "machine": {"cpu": "a", "threads": 1}, "date": "2026-11-16"}


def test_reproduce_takes_its_settings_from_the_recorded_trials_and_shows_the_table_and_the_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    trials = sweep.get("tuning", "hours")
    sweep.run(trials, tmp_path / "trials", engine=sweep.Local(1), progress="none", train=pretend)
    records = sweep.collect(tmp_path / "trials")
    quickest = next(record for record in records if record["preset"] == "sgd-c-trial7")
    quickest["result"]["seconds"] = 0.5
    sweep.write_records(tmp_path / "tuning.jsonl", [record for record in records if record is not quickest])
    args = parser().parse_args(
        ["reproduce", "comparison", "--budget", "hours", "--records", str(tmp_path), "--seeds", "1"]
    )
    asked: list[str] = []
    monkeypatch.setattr(sweeping, "carry_out", lambda grid, *_: asked.extend(cell.preset for cell in grid.cells))
    monkeypatch.setattr(sweep, "collect", lambda _: [quickest])
    tuned = reproduce._tuned(args, "hours", tmp_path)
    assert asked == ["sgd-c-trial7"]  # the one that was not recorded, and is now
    assert reproduce._tuned(args, "hours", tmp_path) == tuned
    assert asked == ["sgd-c-trial7"]
    cells = {cell.id: cell.config for cell in reproduce._grid(args, "hours", tuned).cells}
    assert tuned["tuned"].keys() == METHODS.keys()
    chosen = tuned["tuned"]["sgd-c"]
    assert chosen == METHODS["sgd-c"].candidates[6]
    assert cells["addition_200_sgd-c_seed1"].lr == chosen["lr"]
    result = {"reason": "solved", "solved": True, "updates": 900, "seconds": 60.0, "error": 0.001, "horizon": 49}
    records = [_record("sgd-cr", result), _record("l1", {**result, "solved": False}), _record("l2", None)]
    page = reproduce._shown("comparison", records, tmp_path, "here")
    assert "1/1, 900 in 1 min, 49 back" in capsys.readouterr().out
    assert "0/1, 0.10 % wrong, 49 back" in page.render()
    assert (tmp_path / "comparison.png").stat().st_size > 0


def test_a_preset_is_refused_with_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "comparison", "--preset", "paper"]) == 2
    assert "--preset must be left out with comparison, whose methods have their own settings" in capsys.readouterr().err


def test_the_comparison_is_not_swept_without_its_tuning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "comparison", "--out", str(tmp_path)]) == 2
    assert "run steadygrad reproduce comparison, which tunes each method first" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_alpha_of_ones_own_takes_the_place_of_those_chosen_for_recall() -> None:
    cells = sweep.get("recall", "hours", seeds=[1], alpha=2.0).cells
    assert {cell.config.alpha for cell in cells} == {0.0, 2.0}
    assert 10.0 in {cell.config.alpha for cell in sweep.get("recall", "hours", seeds=[1]).cells}

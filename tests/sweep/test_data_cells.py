"""Music and text in a sweep: the same rules as for the tasks, by epochs, and records that say what was found."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pretended import tiny

from steadygrad import experiments, sweep
from steadygrad.experiments import ConfigError, files
from steadygrad.sweep import Cell, Grid
from steadygrad.sweep.cell import Work
from steadygrad.sweep.named import TABLE1, TABLE2
from steadygrad.sweep.progress import Watch, estimate, measured_epoch

QUIET = {"progress": "none"}


class Here:
    """An engine that runs cells in this very process, one after the other."""

    name = "here"

    def run(self, function: Callable[[Any], Any], cells: Any) -> list[Any]:
        return [function(cell) for cell in cells]


@pytest.fixture
def texts(tmp_path: Path) -> Callable[..., Grid]:
    """A grid of real runs on a text of a few hundred characters."""
    file = tmp_path / "abba.txt"
    file.write_text("abba baab\n" * 60, encoding="utf-8")

    def make(**other: Any) -> Grid:
        small = {"hidden": 4, "steps": 20, "batch": 2, "epochs": 2, "lr_schedule": "constant", "patience": None}
        common: dict[str, Any] = {"problems": ["text"], "algorithms": ["sgd", "sgd-cr"], "presets": ["steady"]}
        return Grid.product("texts", path=str(file), **{**common, **small, **other})

    return make


def test_table1_is_three_sets_by_three_algorithms_paper_before_steady() -> None:
    cells = sweep.get("table1", "hours").cells
    assert [cell.id for cell in cells] == [
        f"{data}_{algorithm}_{preset}_seed{seed}"
        for seed, presets in ((1, ("paper", "steady")), (2, ("steady",)), (3, ("steady",)))
        for preset in presets
        for data in ("piano-midi", "nottingham", "musedata")
        for algorithm in ("sgd", "sgd-c", "sgd-cr")
    ]
    for cell in cells:
        seed = cell.config.seed
        usual = experiments.preset(cell.config.problem, cell.config.algorithm, cell.preset, seed=seed)
        assert cell.config.changed(epochs=usual.epochs) == usual


def test_table2_is_one_and_five_steps_ahead_by_three_algorithms() -> None:
    cells = sweep.get("table2", "full").cells
    assert len(cells) == 3 * 2 * 2 * 3
    assert [cell.id for cell in cells[:4]] == [
        *(f"ptb_ahead1_{algorithm}_paper_seed1" for algorithm in ("sgd", "sgd-c", "sgd-cr")),
        "ptb_ahead5_sgd_paper_seed1",
    ]
    assert {(cell.config.ahead, cell.config.seed) for cell in cells} == {(a, s) for a in (1, 5) for s in (1, 2, 3)}
    # The paper's rate of SGD-CR is another than that of SGD-C, and the fifth character has its own.
    assert len({(c.config.lr, c.config.ahead, c.config.algorithm) for c in cells if c.preset == "paper"}) == 6


@pytest.mark.parametrize(("name", "table"), [("table1", TABLE1), ("table2", TABLE2)])
def test_budgets_of_the_tables_set_seeds_and_epochs_and_an_override_goes_first(name: str, table: Any) -> None:
    for budget, (size,) in table.items():
        for cell in sweep.get(name, budget).cells:
            usual = experiments.preset(cell.config.problem, "sgd", cell.preset, ahead=cell.config.ahead).epochs
            own = size.of.get((cell.preset, cell.config.problem), size.of.get(cell.preset, {}))
            assert cell.config.epochs == own.get("epochs", usual)
        assert {cell.config.seed for cell in sweep.get(name, budget).cells} == set(range(1, size.seeds + 1))
    grid = sweep.get(name, "minutes", presets=["paper"], epochs=7, seeds=2)
    assert {(cell.preset, cell.config.epochs, cell.config.seed) for cell in grid.cells} == {
        ("paper", 7, 1),
        ("paper", 7, 2),
    }


def test_all_faults_come_at_once_and_a_setting_that_nothing_reads_is_refused() -> None:
    with pytest.raises(ConfigError) as found:
        Grid.product("mine", problems=["jsb", "ptb"], aheads=[5], algorithms=["sgd"], lr=-1.0, alpha=2.0)
    assert sorted(fault.split(" must ")[0] for fault in found.value.faults) == ["ahead", "alpha", "lr"]
    with pytest.raises(ValueError, match=r"problem must be one of .*did you mean 'nottingham'"):
        Grid.product("mine", problems=["notingham"])
    with pytest.raises(ValueError, match="preset must be one of 'paper', 'steady', not 'program'"):
        sweep.get("table1", presets=["program"])


def test_cells_of_text_run_and_their_records_have_all_that_is_needed_to_run_them_again(
    tmp_path: Path, texts: Any
) -> None:
    out, cells = tmp_path / "out", texts(seeds=[1, 10, 9])
    outcomes = sweep.run(cells, out, engine=Here(), command="typed", **QUIET)
    assert [(outcome.id, outcome.status) for outcome in outcomes] == [(cell.id, "finished") for cell in cells.cells]
    records = sweep.collect(out)
    assert [record["seed"] for record in records if record["algorithm"] == "sgd-cr"] == [1, 9, 10]
    by_id = {cell.id: cell.config for cell in cells.cells}
    for record in records:
        said = {key: record[key] for key in ("problem", "ahead", "algorithm", "seed")}
        assert experiments.Config(**said, **record["config"]) == by_id[record["id"]]
        result = experiments.Result.read(out / record["id"])
        assert result is not None
        for part in ("train", "valid", "test"):
            assert record["result"][part] == round(getattr(result, part), 4)
        assert (record["result"]["epochs"], record["result"]["reason"]) == (2, "epochs")
        assert record["result"]["seconds"] > 0
        assert not {"length", "generalisation"} & record.keys()
        assert (record["preset"], record["command"]) == ("steady", "typed")
    path = sweep.write_records(tmp_path / "texts.jsonl", records)
    assert sweep.read_records(path) == records


def test_a_finished_cell_is_left_alone_and_goes_on_where_more_epochs_are_asked_for(tmp_path: Path, texts: Any) -> None:
    out = tmp_path / "out"
    first = sweep.run(texts(), out, engine=Here(), **QUIET)
    written = {path: path.stat().st_mtime_ns for path in out.glob("*/result.json")}
    assert sweep.run(texts(), out, engine=Here(), **QUIET) == first
    assert {path: path.stat().st_mtime_ns for path in out.glob("*/result.json")} == written
    for outcome in sweep.run(texts(epochs=4), out, engine=Here(), **QUIET):
        assert outcome.reason == "epochs"
        lines = [json.loads(line) for line in (out / outcome.id / files.METRICS).read_text().splitlines()]
        validated = [line["epoch"] for line in lines if line["valid"] is not None]
        assert validated == [1, 2, 3, 4]  # it was not begun anew
    alone = experiments.run(texts(epochs=4).cells[0].config, tmp_path / "alone", **QUIET)
    resumed = experiments.Result.read(out / texts().cells[0].id)
    assert resumed is not None
    assert (resumed.train, resumed.test) == (alone.train, alone.test)


def test_a_schedule_that_knows_its_end_can_not_be_drawn_out(tmp_path: Path, texts: Any) -> None:
    out = tmp_path / "out"
    sweep.run(texts(lr_schedule="cosine"), out, engine=Here(), **QUIET)
    with pytest.raises(ValueError, match=r"holds another run \(there epochs is 2, not 3\)"):
        sweep.run(texts(lr_schedule="cosine", epochs=3), out, engine=Here(), **QUIET)


def test_tasks_and_texts_may_stand_in_one_grid(tmp_path: Path, texts: Any) -> None:
    grid = tiny(algorithms=["sgd"]) + texts(algorithms=["sgd"])
    assert [cell.config.form for cell in grid.cells] == ["drawn", "data"]
    outcomes = sweep.run(grid, tmp_path / "out", engine=Here(), **QUIET)
    assert {outcome.status for outcome in outcomes} == {"finished"}
    reasons = {record["problem"]: record["result"]["reason"] for record in sweep.collect(tmp_path / "out")}
    assert reasons == {"temporal-order": "max_updates", "text": "epochs"}


def test_a_text_that_is_gone_is_a_failed_cell_with_its_reason(tmp_path: Path, texts: Any) -> None:
    grid = texts(algorithms=["sgd"])
    (tmp_path / "abba.txt").unlink()
    (outcome,) = sweep.run(grid, tmp_path / "out", engine=Here(), **QUIET)
    assert outcome.status == "failed"
    assert "abba.txt" in outcome.reason
    (record,) = sweep.collect(tmp_path / "out")
    assert (record["result"], record["failed"]) == (None, outcome.reason)


def test_a_line_of_progress_has_the_figures_and_the_time_left_goes_by_epochs(tmp_path: Path, texts: Any) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "sweep.json").write_text("{}")
    done, other = texts().cells
    (longer,) = texts(algorithms=["sgd-cr"], seeds=[2], epochs=6).cells
    stream = io.StringIO()
    with Watch([done, other, longer], out, workers=1, style="plain", stream=stream) as watch:
        outcome = Work(out)(done)
        watch.poll()
        # Neither is like the one that is done: two of its epochs, and six.
        assert watch.time_left == pytest.approx(outcome.result.total_seconds * (1 + 3))
    line = stream.getvalue()
    assert line.startswith("[1/3] text_ahead1_sgd_steady_seed1: test ")
    assert re.search(r"after 2 epochs \(\d+ s, epochs\)", line)


def test_an_estimate_goes_by_epochs_and_by_what_finished_cells_of_the_shape_took(tmp_path: Path, texts: Any) -> None:
    out = tmp_path / "out"
    sweep.run(texts(algorithms=["sgd"]), out, engine=Here(), **QUIET)
    path = out / texts().cells[0].id / files.RESULT
    path.write_text(json.dumps({**json.loads(path.read_text()), "total_seconds": 5.0}))
    left = estimate(texts(epochs=10), out, workers=1)
    # 5 s for two epochs, and both algorithms are of one shape.
    assert left.cells == {cell.id: pytest.approx(25.0) for cell in texts().cells}


def test_a_measured_epoch_holds_all_its_updates_and_the_validation(texts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,) = texts(algorithms=["sgd-cr"]).cells
    clock = iter([0.0, 4.0, 10.0, 13.0])  # one update in four seconds, then a chunk of validation in three
    monkeypatch.setattr("steadygrad.sweep.progress.time.perf_counter", lambda: next(clock))
    # 600 characters: 540 to train on give 539 predictions, of which an update has 40; 30 to validate give 29 at once.
    assert measured_epoch(cell.config, 1) == pytest.approx(4 / 40 * 539 + 3)


def test_a_cell_of_text_with_test_lengths_is_refused(tmp_path: Path, texts: Any) -> None:
    (cell,) = texts(algorithms=["sgd"]).cells
    grid = Grid("texts", (Cell(cell.id, cell.config, cell.preset, test_lengths=(100,)),))
    (outcome,) = sweep.run(grid, tmp_path / "out", engine=Here(), **QUIET)
    assert outcome.status == "failed"
    assert "test_lengths must be left out of a cell of music or text" in outcome.reason

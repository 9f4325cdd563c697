"""`steadygrad sweep` and `steadygrad reproduce`: from the words typed to the files, and one sentence for what is wrong."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steadygrad import cli, data, storage, sweep
from steadygrad.commands import sweep as command
from steadygrad.experiments import Config, Result, files

TINY = "--hidden 4 --max-updates 2 --check-every 2 --check-sequences 20 --test-sequences 20 --after-success stop"
Say = Callable[[str], tuple[int, str, str]]


class Here:
    """An engine that runs cells in this very process."""

    name = "here"

    def run(self, function: Callable[[Any], Any], cells: Any) -> list[Any]:
        return [function(cell) for cell in cells]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Types a line in an empty folder: exit code, what came on standard output, and on standard error."""
    monkeypatch.chdir(tmp_path)

    def typed(line: str) -> tuple[int, str, str]:
        try:
            code = cli.main(line.split())
        except SystemExit as left:  # argparse's way
            code = int(left.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return typed


@pytest.fixture
def without_training(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sweep.run
    monkeypatch.setattr(sweep, "run", lambda *words, **options: real(*words, **options, **fake))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "engine", lambda args: Here())


@pytest.mark.usefixtures("here")
def test_a_grid_of_ones_own_is_run_recorded_and_not_run_twice(say: Say, tmp_path: Path) -> None:
    grid = "--problem temporal-order --length 10,10:12 --algorithm sgd,sgd-cr --test-length 13 --seeds 1"
    line = f"sweep {grid} {TINY} --out out --records results --plain"
    code, out, progress = say(line)
    assert code == 0
    assert "[4/4]" in progress
    assert "temporal-order_10-12_sgd-cr_steady_seed1" in out
    records = sweep.read_records(tmp_path / "results" / "own.jsonl")
    assert [record["id"] for record in records] == [record["id"] for record in sweep.collect(tmp_path / "out")]
    assert {record["command"] for record in records} == {f"steadygrad sweep {grid} {TINY}"}
    assert all(set(record["generalisation"]) == {"13"} for record in records)
    code, _, progress = say(line)
    assert (code, progress) == (0, "")


@pytest.mark.usefixtures("here", "without_training")
def test_what_is_recorded_is_left_out_where_that_is_asked_for(say: Say, tmp_path: Path) -> None:
    line = "reproduce fig7 --budget demo --records results --quiet"
    assert say(f"{line} --seeds 1 --out one")[0] == 0
    code, out, _ = say(f"{line} --seeds 2 --out two --missing")
    assert code == 0
    assert "2/2" in out  # the seed that was recorded is shown with the other
    assert {record["seed"] for record in sweep.collect(tmp_path / "two" / "cells")} == {2}
    code, out, _ = say("sweep fig7 --budget demo --seeds 1:3 --out three --records results --missing --quiet")
    assert code == 0
    assert {record["seed"] for record in sweep.collect(tmp_path / "three")} == {3}
    line = "sweep fig7 --budget demo --seeds 1:3 --missing"
    words = "has a result of each of the 27 cells: nothing is left to be run\n"
    assert say(f"{line} --records results") == (0, f"{Path('results', 'fig7.jsonl')} {words}", "")
    assert "--missing must come with --records DIR, where the records are" in say(f"{line} --out four")[2]


@pytest.mark.usefixtures("here")
def test_a_sweep_that_is_stopped_keeps_the_records_it_has(
    say: Say, tmp_path: Path, fake: Any, monkeypatch: Any
) -> None:
    real = sweep.run

    def stopped(*words: Any, **options: Any) -> None:
        real(*words, **options, **fake)
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "run", stopped)
    assert say("sweep fig7 --budget demo --seeds 1 --out out --records results --quiet")[0] == 130
    assert len(sweep.read_records(tmp_path / "results" / "fig7.jsonl")) == 9


@pytest.mark.usefixtures("here")
def test_reproduce_fig7_writes_the_figure_the_records_and_the_page_and_says_where(say: Say, tmp_path: Path) -> None:
    line = "reproduce fig7 --budget demo --seeds 1 --max-updates 2"
    code, out, _ = say(f"{line} --out seven --records results --quiet")
    assert code == 0
    for name in ("fig7.png", "fig7.svg", "fig7.npz", "fig7.json", "records.jsonl", "index.html"):
        assert str(Path("seven") / name) in out
        assert (tmp_path / "seven" / name).stat().st_size > 0
    assert "SGD-CR (clipping and Ω)  0/1 (0–79 %)  0/1 (0–79 %)  0/1 (0–79 %)" in out
    assert "The paper: For sequences longer than 20" in out
    assert "Measured beyond 20 steps: SGD 0 of 1 runs, SGD-C 0 of 1 runs, SGD-CR 0 of 1 runs" in out
    about = json.loads((tmp_path / "seven" / "fig7.json").read_text())
    assert about["command"] == f"steadygrad {line}"
    assert len(sweep.read_records(tmp_path / "results" / "fig7.jsonl")) == 9


@pytest.mark.usefixtures("here", "without_training")
def test_reproduce_tasks_has_the_steady_rows_and_their_ablations(say: Say, tmp_path: Path) -> None:
    code, out, _ = say("reproduce tasks --budget hours --seeds 1 --out tasks --records results --quiet")
    assert code == 0
    assert "steady without clipping" in out
    records = sweep.read_records(tmp_path / "results" / "tasks.jsonl")
    # Five tasks with one model and two with four; paper, steady and two ablations.
    assert len(records) == (5 + 2 * 4) * 4
    tested = {record["problem"]: tuple(record["generalisation"]) for record in records}
    assert (tested["addition"], tested["memorization-5bit"]) == (("250", "300", "400"), ())
    assert (tmp_path / "tasks" / "index.html").exists()


@pytest.mark.usefixtures("here", "without_training")
def test_reproduce_panels_shows_each_initialisation_by_itself(say: Say, tmp_path: Path) -> None:
    code, out, _ = say("reproduce panels --budget hours --seeds 1 --out panels --records results --quiet")
    assert code == 0
    rows = [line.split() for line in out.splitlines() if "1/1" in line]
    starts, algorithms = ["basic_tanh", "sigmoid", "smart_tanh"], ["SGD", "SGD-C", "SGD-CR"]
    assert sorted(row[1] for row in rows) == sorted(3 * starts)
    assert sorted(row[2] for row in rows) == sorted(3 * algorithms)
    assert all(row.count("1/1") == 5 for row in rows)  # lengths 10, 20, 50, 100 and 200
    page = (tmp_path / "panels" / "index.html").read_text(encoding="utf-8")
    assert all(f"settings “proceedings, {start}”" in page for start in starts)
    assert (tmp_path / "panels" / "panels.png").stat().st_size > 0
    assert len(sweep.read_records(tmp_path / "results" / "panels.jsonl")) == 3 * 3 * 5


def pretend_natural(config: Config, directory: Path, *, epochs: int, **_: Any) -> Result:
    """In place of `experiments.run`: figures in the paper's order, without the work."""
    figure = {"sgd": 4.0, "sgd-c": 3.6, "sgd-cr": 3.5}[config.algorithm]
    result = Result(
        *("epochs", 10, 60.0, 10, 60.0),
        train=figure - 0.2,
        valid=figure,
        test=figure,
        best_epoch=1,
        epochs=epochs,
        tokens_per_second=1000.0,
    )
    storage.write(directory / files.CONFIG, config.to_json().encode())
    result.write(directory, config)
    return result


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("name", "rows"), [("table1", 3), ("table2", 2)])
def test_reproduce_a_table_prints_the_papers_figures_beside_ours_and_keeps_the_records(
    name: str, rows: int, say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, fetched = sweep.run, []
    monkeypatch.setattr(sweep, "run", lambda *words, **options: real(*words, **options, train=pretend_natural))
    monkeypatch.setattr("steadygrad.data.fetch", fetched.append)
    line = f"reproduce {name} --budget hours --seeds 2 --epochs 3"
    code, out, _ = say(f"{line} --out out --records results --quiet")
    assert code == 0
    table = [each.split() for each in out.splitlines() if "  test  " in each]
    assert len(table) == 2 * rows
    assert [each[-1] for each in table] == {
        "table1": ["7.46"] * 2 + ["(3.36)"] * 2 + ["(6.97)"] * 2,  # of the final edition
        "table2": ["1.41"] * 2 + ["3.74"] * 2,
    }[name]
    assert out.count("the order SGD > SGD+C > SGD+CR holds on the test split") == 2 * rows
    records = sweep.read_records(tmp_path / "results" / f"{name}.jsonl")
    assert len(records) == 2 * rows * 3 * 2
    assert {(record["result"]["epochs"], record["command"]) for record in records} == {(3, f"steadygrad {line}")}
    assert fetched == {"table1": ["piano-midi", "nottingham", "musedata"], "table2": ["ptb"]}[name]
    for path in ("records.jsonl", "index.html"):
        assert (tmp_path / "out" / path).stat().st_size > 0
    # The same command goes on where it stopped: here, nowhere.
    monkeypatch.setattr(sweep, "run", lambda *words, **options: real(*words, **options, train=None))
    assert say(f"{line} --out out --records results --quiet") == (0, out, "")


def test_a_table_whose_data_can_not_be_had_is_one_sentence_and_nothing_is_written(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(source: data.Source, *_: Any) -> None:
        raise data.DataError(f"cannot download {source.path}")

    monkeypatch.setenv("STEADYGRAD_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("steadygrad.data.store._download", nowhere)
    code, _, error = say("reproduce table1")
    assert (code, error) == (2, "steadygrad: cannot download music/Piano_midi.mat\n")
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_prints_the_cells_and_runs_nothing(say: Say, tmp_path: Path) -> None:
    code, out, _ = say(f"sweep --length 10 --seeds 1:2 {TINY} --out out --dry-run --workers 3")
    assert code == 0
    lines = out.splitlines()
    assert [line.partition(":")[0] for line in lines[:6]] == [
        f"temporal-order_10_{algorithm}_steady_seed{seed}"
        for seed in (1, 2)
        for algorithm in ("sgd", "sgd-c", "sgd-cr")
    ]
    assert lines[6] == "6 cells (2 sgd, 2 sgd-c, 2 sgd-cr), 6 left"
    assert lines[7].startswith("at most ")
    assert lines[7].endswith("on 3 cores of this machine, if nothing is solved early")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("here")
def test_only_the_cells_whose_id_contains_a_text(say: Say) -> None:
    code, out, _ = say("sweep claims --budget hours --only order_50-200_sgd-cr_proceedings --dry-run --workers 1")
    assert code == 0
    cells = [line.split(":")[0] for line in out.splitlines() if line.startswith("temporal-order")]
    assert cells == [f"temporal-order_50-200_sgd-cr_proceedings_seed{seed}" for seed in range(1, 6)]
    code, _, error = say("sweep claims --only nothing --dry-run")
    like = "temporal-order_50-200_sgd-c_tanh_seed1"
    assert (code, error) == (2, f"steadygrad: --only must be a part of a cell's id, such as {like}, not 'nothing'\n")


@pytest.mark.usefixtures("here")
def test_a_failed_cell_is_told_and_makes_the_exit_code_1(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("no luck")

    real = sweep.run
    monkeypatch.setattr(sweep, "run", lambda *words, **options: real(*words, **options, train=fails))
    code, _, error = say(f"sweep --length 10 --algorithm sgd {TINY} --out out --quiet")
    assert (code, error) == (1, "temporal-order_10_sgd_steady_seed1: failed: RuntimeError: no luck\n")


def test_ctrl_c_says_how_far_it_got_and_exits_with_130(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(Here):
        def run(self, function: Callable[[Any], Any], cells: Any) -> list[Any]:
            function(cells[0])
            raise KeyboardInterrupt

    monkeypatch.setattr(command, "engine", lambda args: Interrupted())
    code, _, error = say(f"sweep --length 10 {TINY} --out out --quiet")
    assert code == 130
    assert error == "stopped: 1 of 3 cells are finished; the same command goes on with the rest\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "sweep",
            "a grid must be given: a NAME (fig7, panels, tasks, ablation, longest, table1, table2, claims, recall, tuning or "
            "smoke), or axes such as --problem",
        ),
        ("sweep smok --out a", "grid must be one of .*did you mean 'smoke'"),
        ("sweep smoke", "--out DIR must be given"),
        ("sweep smoke --task addition --out a", "--problem must be left out with the named grid smoke"),
        ("sweep smoke --budget years --out a", "budget of smoke must be one of 'minutes', not 'years'"),
        ("sweep --task adition --out a", "problem must be one of .*did you mean 'addition'"),
        ("sweep --algorithm sgd-x --out a", "algorithm must be one of"),
        ("sweep --preset papr --out a", "preset must be one of .*did you mean 'paper'"),
        ("sweep --length 200:50 --out a", "length must be LOW:HIGH with LOW below HIGH, such as 50:200, not '200:50'"),
        ("sweep --length 5 --out a", "length must begin at 10 or more, the shortest temporal-order can be, not at 5"),
        ("sweep --length 10 --budget hours --out a", "--budget must be left out without a named grid"),
        ("sweep --length 10 --seeds 5:1 --out a", "seeds must be FIRST:LAST in this order, such as 1:5, not '5:1'"),
        ("sweep smoke --out a --engine dusk", "--engine must be one of .*did you mean 'dask'"),
        ("sweep smoke --out a --engine dask", "engine dask needs the address of an existing cluster"),
        ("sweep smoke --out a --address 127.0.0.1:1", "--address must be left out with the engine local"),
        ("sweep smoke --out a --engine ray --workers 2", "--workers must be left out with the engine ray"),
        ("sweep smoke --out a --workers 0", "workers must be a whole number of at least 1, not 0"),
        ("reproduce fig8", "WHAT must be one of .*did you mean 'fig"),
        ("reproduce fig6 --seeds 3", "--seeds must be left out with fig6, which is computed at once"),
        ("reproduce fig7 --budget hour", "budget must be one of 'demo', .*did you mean 'hours'"),
        ("reproduce fig7 --seeds 0", "seeds must be a whole number of at least 1, not 0"),
        ("reproduce fig7 --max-updates -1", "max_updates must be a whole number of at least 1, not -1"),
        ("reproduce tasks --preset papr", "preset must be one of .*did you mean 'paper'"),
        ("reproduce fig7 --epochs 3", "--epochs must be left out with fig7, which goes by --max-updates"),
        ("reproduce fig2 --epochs 3", "--epochs must be left out with fig2, which has none"),
        ("reproduce table1 --max-updates 3", "--max-updates must be left out with table1, which goes by --epochs"),
        ("reproduce table1 --budget demo", "budget must be one of 'minutes', 'hours', 'full', not 'demo'"),
        ("reproduce table1 --preset program", "preset must be one of 'paper', 'steady', not 'program'"),
        ("reproduce table2 --epochs 0", "epochs must be a whole number of at least 1, not 0"),
        ("reproduce table2 --seeds 0", "seeds must be a whole number of at least 1, not 0"),
        ("reproduce table3", "WHAT must be one of .*did you mean 'table"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_exit_code_2_and_nothing_is_written(
    words: str, sentence: str, say: Say, tmp_path: Path
) -> None:
    import re

    code, _, error = say(words)
    assert code == 2
    assert len(error.splitlines()) == 1
    assert re.search(sentence if ".*" in sentence else re.escape(sentence), error)
    assert list(tmp_path.iterdir()) == []


def test_an_unreachable_cluster_is_one_sentence_and_exit_code_2_and_nothing_is_written(
    say: Say, tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    code, _, error = say(f"sweep smoke --out a --engine dask --address {address}")
    assert (code, error) == (2, f"steadygrad: no dask cluster answers at {address} (Connection refused)\n")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_other_files_is_refused_and_left_alone(say: Say, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("dear committee")
    code, _, error = say("sweep smoke --out home")
    assert code == 2
    assert (
        error
        == "steadygrad: the sweep's folder must be new, empty, or of an earlier sweep, and home holds other files\n"
    )
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["thesis.tex"]

"""Records: one line for each cell, the same file for the same folder, and nothing lost when they are put together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pretended import pretend

from steadygrad import provenance, sweep
from steadygrad.experiments import Config, Result, preset


class Here:
    name = "here"

    def run(self, function: Any, cells: Any) -> list[Any]:
        return [function(cell) for cell in cells]


def fails_with_sgd(config: Config, directory: Path, **options: Any) -> Result:
    if config.algorithm == "sgd":
        raise OSError(28, "no space left")
    return pretend(config, directory, **options)


@pytest.fixture
def swept(tmp_path: Path, grid: Any, fake: Any) -> Path:
    out = tmp_path / "out"
    cells = grid(seeds=[1, 10, 9], test_lengths=[250, 400])
    sweep.run(
        cells, out, engine=Here(), progress="none", command="steadygrad sweep tiny", **{**fake, "train": fails_with_sgd}
    )
    return out


def test_a_record_has_all_that_is_needed_to_run_it_again(swept: Path) -> None:
    record = next(record for record in sweep.collect(swept) if record["algorithm"] == "sgd-cr" and record["seed"] == 9)
    said = {key: record[key] for key in ("problem", "algorithm", "seed")} | {"length": tuple(record["length"])}
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in record["config"].items()}
    again = Config(**said, **settings)
    few = {"max_updates": 3, "check_every": 3, "check_sequences": 20, "test_sequences": 20, "after_success": "stop"}
    assert again == preset("temporal-order", "sgd-cr", "steady", length=(10, 10), seed=9, hidden=4, **few)
    assert record["result"]["solved"] is True
    assert record["result"]["updates"] == 100
    assert record["generalisation"] == {"250": 0.025, "400": 0.04}
    assert (record["grid"], record["command"], record["preset"]) == ("tiny", "steadygrad sweep tiny", "steady")
    assert record["machine"] == provenance.machine()
    assert record["date"] == provenance.today()


def test_a_failed_cell_is_a_record_without_a_result(swept: Path) -> None:
    failed = [record for record in sweep.collect(swept) if record["algorithm"] == "sgd"]
    assert [(record["result"], record["failed"]) for record in failed] == [
        (None, "OSError: [Errno 28] no space left")
    ] * 3


def test_records_are_sorted_by_seed_as_numbers_and_the_file_is_the_same_every_time(swept: Path, tmp_path: Path) -> None:
    records = sweep.collect(swept)
    assert [record["seed"] for record in records if record["algorithm"] == "sgd-cr"] == [1, 9, 10]
    one = sweep.write_records(tmp_path / "one.jsonl", records).read_bytes()
    assert one == sweep.write_records(tmp_path / "two.jsonl", reversed(sweep.collect(swept))).read_bytes()
    assert one == sweep.write_records(tmp_path / "one.jsonl", records[:2]).read_bytes()
    assert sweep.read_records(tmp_path / "one.jsonl") == records
    assert max(map(len, one.splitlines())) < 1200  # small enough for version control


def test_a_record_keeps_the_errors_norm_against_lag_of_the_last_snapshot(swept: Path) -> None:
    cell = swept / "temporal-order_10_sgd-cr_steady_seed1"
    norms = [1.0, *(0.98765 * 0.9**lag for lag in range(1, 199)), None]
    lines = [
        {"updates": 1, "steps": 5, "stride": 1, "norms": [1.0]},
        {"updates": 2, "steps": 400, "stride": 2, "norms": norms},
    ]
    (cell / "flow.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    records = {record["id"]: record for record in sweep.collect(swept)}
    flow = records[cell.name]["flow"]
    assert (flow["steps"], flow["stride"], len(flow["norms"])) == (400, 10, 40)
    assert flow["norms"][:3] == [1.0, 0.583, 0.344]
    assert "flow" not in records["temporal-order_10_sgd-cr_steady_seed9"]


def test_a_newer_record_takes_the_place_of_the_older_one_and_the_others_stay(swept: Path, tmp_path: Path) -> None:
    records = sweep.collect(swept)
    path = sweep.write_records(tmp_path / "results" / "tiny.jsonl", records)
    changed = {**records[0], "date": "2099-01-01"}
    sweep.write_records(path, [changed])
    assert sweep.read_records(path) == [changed, *records[1:]]


def test_a_line_that_is_no_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    for line in ("{", "[]", '{"id": "a"}'):
        path.write_text(json.dumps({"id": "a", "problem": "addition", "result": None}) + "\n" + line + "\n")
        with pytest.raises(ValueError, match=r"bad\.jsonl, line 2, must be a record of a sweep"):
            sweep.read_records(path)


def test_a_folder_that_is_no_sweep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"must be the folder of a sweep, and holds no sweep\.json$"):
        sweep.collect(tmp_path)


def test_the_commit_is_that_of_the_repository_and_tells_of_changes(tmp_path: Path) -> None:
    import subprocess

    def git(*words: str) -> str:
        names = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        return subprocess.run(
            ["git", "-C", str(tmp_path), *names, *words], capture_output=True, text=True, check=True
        ).stdout

    assert provenance.commit(tmp_path) is None
    git("init", "-q")
    assert provenance.commit(tmp_path) is None  # a repository, but nothing of it is in there
    (tmp_path / "a.txt").write_text("one")
    git("add", "a.txt")
    git("commit", "-q", "-m", "one")
    short = git("rev-parse", "--short", "HEAD").strip()
    assert provenance.commit(tmp_path) == short
    (tmp_path / "a.txt").write_text("two")
    assert provenance.commit(tmp_path) == short + "+"


def test_the_cells_without_a_result_by_their_own_settings_are_those_that_are_not_recorded(
    swept: Path, grid: Any, tmp_path: Path
) -> None:
    cells = grid(seeds=[1, 10, 9], test_lengths=[250, 400])
    path = tmp_path / "tiny.jsonl"
    assert sweep.unrecorded(cells, path) == cells.cells
    sweep.write_records(path, sweep.collect(swept))
    failed = [cell.id for cell in cells.cells if cell.config.algorithm == "sgd"]
    assert [cell.id for cell in sweep.unrecorded(cells, path)] == failed
    further = grid(seeds=[1, 11], algorithms=["sgd-cr"], test_lengths=[250, 400])
    assert [cell.config.seed for cell in sweep.unrecorded(further, path)] == [11]
    otherwise = grid(seeds=[1], algorithms=["sgd-cr"], lr=0.5)  # an id names it, and so does the record
    assert sweep.unrecorded(otherwise, path) == otherwise.cells
    longer = grid(seeds=[1], algorithms=["sgd-cr"], max_updates=9)  # the id of the one that is recorded
    assert sweep.unrecorded(longer, path) == longer.cells


def test_the_study_of_recall_is_recorded_as_its_grid_says() -> None:
    path = Path(__file__).parents[2] / "results" / "recall.jsonl"
    assert sweep.unrecorded(sweep.get("recall", "hours"), path) == ()

"""Whole runs: what solves, what diverges, what is left on disk, what is refused."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import steadygrad
from harm import fill_disk
from same_run import SMALL, assert_same_run, metrics
from steadygrad import storage, tasks
from steadygrad.experiments import Config, FolderError, Result, evaluate, files, judges, preset, run
from steadygrad.experiments.learner import Learner
from steadygrad.experiments.presets import PRESETS

METRICS = {
    "updates",
    "loss",
    "test_loss",
    "error",
    "errors",
    "tested",
    "beyond",
    "gradient_norm",
    "gradient_norm_max",
    "clip_rate",
    "skipped",
    "omega",
    "active",
    "spectral_radius",
    "horizon",
    "low",
    "high",
    "lr",
    "alpha",
    "updates_per_second",
    "seconds",
}


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """A run that solves temporal order over 10 to 12 steps within two thousand updates, and is polished."""
    directory = tmp_path_factory.mktemp("solved") / "run"
    config = preset(
        "temporal-order",
        "sgd-cr",
        "steady",
        length=(10, 12),
        hidden=20,
        check_every=250,
        average=100,
        polish=1.0,
        max_updates=4000,
    )
    return run(config, directory, progress="none"), directory


def test_a_short_task_is_solved_and_the_verdict_says_so(solved: tuple[Result, Path]) -> None:
    result, directory = solved
    assert result.solved
    assert result.reason == "solved"
    assert result.error <= 0.01
    assert Result.read(directory) == result
    written = json.loads((directory / files.RESULT).read_text())
    assert written["version"] == steadygrad.__version__
    assert Config.from_dict(written["config"]).problem == "temporal-order"
    # other sequences than those it was judged by: 1 % of 10,000 and four standard deviations
    assert evaluate(directory, (10, 12), seed=7)["error"] <= 0.01 + 4 * (0.01 * 0.99 / 10_000) ** 0.5


def test_polishing_goes_on_past_the_first_success_and_keeps_the_best_weights(solved: tuple[Result, Path]) -> None:
    result, directory = solved
    lines = metrics(directory)
    whole = [line for line in lines if line["tested"] == 10_000]
    first = next(line for line in whole if line["error"] <= 0.01)
    assert first["updates"] == result.updates
    nothing_wrong = [line["updates"] for line in lines if line["beyond"] == 0.0]
    assert result.total_updates == lines[-1]["updates"] == min([2 * result.updates, 4000, *nothing_wrong])
    assert all((line["beyond"] is not None) is (line["error"] <= 0.01) for line in whole)
    counted = [line for line in whole if line["updates"] >= result.updates]
    best = min(
        (line for line in counted if line["error"] <= 0.01),
        key=lambda line: (line["beyond"], line["error"], line["test_loss"]),
    )
    assert (best["updates"], best["error"]) == (result.best_updates, result.error)


def test_omega_sees_all_pairs_and_the_error_reaches_the_first_step(solved: tuple[Result, Path]) -> None:
    last = metrics(solved[1])[-1]
    assert last["active"] == 1.0
    assert last["horizon"] == 11


def test_plain_descent_with_a_huge_rate_ends_as_diverged(tmp_path: Path) -> None:
    config = Config("temporal-order", "sgd", lr=1e6, **SMALL)
    result = run(config, tmp_path / "run", progress="none")
    assert result.diverged
    assert not result.solved
    assert result.reason.startswith("diverged: the ")
    assert result.updates < 100
    written = json.loads((tmp_path / "run" / files.RESULT).read_text())
    assert written["reason"] == result.reason
    # the weights that are kept are those before it, and can be used
    assert 0 < evaluate(tmp_path / "run", 12, 50)["error"] <= 1


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("task", tasks.names())
def test_every_task_trains_with_every_preset(task: str, name: str, tmp_path: Path) -> None:
    few: dict[str, Any] = {"max_updates": 2, "check_sequences": 20, "test_sequences": 20, "length": (50, 60)}
    result = run(preset(task, "sgd-cr", name, **few), tmp_path / "run", progress="none")
    assert (result.updates, result.reason) == (2, "max_updates")
    assert 0 < result.error <= 1


def test_every_check_writes_its_line_and_a_snapshot(small: Config, tmp_path: Path) -> None:
    result = run(small, tmp_path / "run", progress="none")
    assert (result.reason, result.updates, result.solved) == ("max_updates", 100, False)
    lines = [json.loads(line) for line in (tmp_path / "run" / files.METRICS).read_text().splitlines()]
    assert [line["updates"] for line in lines] == [0, 20, 40, 60, 80, 100]
    assert all(line.keys() == METRICS for line in lines)
    assert lines[0]["loss"] is None
    assert all(line["loss"] > 0 and line["gradient_norm_max"] >= line["gradient_norm"] > 0 for line in lines[1:])
    snapshots = [json.loads(line) for line in (tmp_path / "run" / files.FLOW).read_text().splitlines()]
    assert [each["updates"] for each in snapshots] == [0, 20, 40, 60, 80, 100]
    for line, each in zip(lines, snapshots, strict=True):
        assert len(each["norms"]) == each["steps"] == 12
        assert each["norms"][0] == 1.0
        # four decimals are kept of an eigenvalue
        radius = max(abs(complex(*eigenvalue)) for eigenvalue in each["eigenvalues"])
        assert radius == pytest.approx(line["spectral_radius"], abs=1e-4)


def test_regression_records_both_criteria(tmp_path: Path) -> None:
    config = Config("addition", "sgd-c", threshold=1.0, **SMALL)
    result = run(config, tmp_path / "run", progress="none", max_updates=20)
    assert result.errors.keys() == {"absolute", "squared"}
    assert result.error == result.errors["absolute"] >= result.errors["squared"]
    assert metrics(tmp_path / "run")[-1]["errors"].keys() == {"absolute", "squared"}


def test_the_best_weights_are_tested_on_all_sequences_at_the_end(
    small: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    score = judges.score

    def watched(network: Any, length: Any, sequences: int, generator: Any) -> Any:
        asked.append(sequences)
        return score(network, length, sequences, generator)

    monkeypatch.setattr(judges, "score", watched)
    run(small, tmp_path / "run", progress="none", max_updates=20)
    # far from solved: few at 0 and at 20 updates, and all of them for the verdict
    assert asked == [50, 50, 100]


def test_checking_and_saving_more_often_changes_no_weight(small: Config, tmp_path: Path) -> None:
    run(small, tmp_path / "seldom", progress="none")
    often = small.changed(check_every=5)
    run(often, tmp_path / "often", progress="none", checkpoint_seconds=0.0)
    one, other = (
        storage.safetensors().torch.load((tmp_path / name / files.CHECKPOINTS / "000000100.safetensors").read_bytes())
        for name in ("seldom", "often")
    )
    for name in one:
        if not name.startswith("best."):
            assert torch.equal(one[name], other[name]), name


def test_the_same_seed_gives_the_same_run_and_another_seed_another(small: Config, tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        run(small.changed(seed=seed), tmp_path / name, progress="none")
    assert_same_run(tmp_path / "one", tmp_path / "again")
    assert metrics(tmp_path / "one") != metrics(tmp_path / "other")


def test_a_limit_that_is_no_whole_number_of_checks_still_tests_the_last_weights(
    tmp_path: Path, solved: tuple[Result, Path]
) -> None:
    config = files.read_config(solved[1]).changed(after_success="stop", polish=0.5)
    # it would be found solved at the next check; the limit comes a little before
    at = solved[0].updates + 10
    result = run(config.changed(check_every=10 * at), tmp_path / "run", progress="none", max_updates=at)
    assert (result.solved, result.updates, result.reason) == (True, at, "solved")
    assert [line["updates"] for line in metrics(tmp_path / "run")] == [0]


def test_time_can_run_out(small: Config, tmp_path: Path) -> None:
    config = small.changed(max_updates=10**9, max_seconds=0.3)
    result = run(config, tmp_path / "run", progress="none")
    assert result.reason == "max_seconds"
    assert 0.3 <= result.seconds < 5
    assert run(config, tmp_path / "run", progress="none", resume=True) == result


def test_a_cores_time_stands_still_while_the_run_waits(
    small: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Learner.update

    def waits(learner: Learner) -> float:
        time.sleep(0.02)
        return real(learner)

    monkeypatch.setattr(Learner, "update", waits)
    config = small.changed(max_updates=40, check_every=40)
    by = {
        clock: run(config.changed(clock=clock), tmp_path / clock, progress="none").seconds for clock in ("wall", "core")
    }
    assert by["wall"] >= 40 * 0.02
    assert 0 < by["core"] < by["wall"] - 0.9 * 40 * 0.02
    resumed = run(config.changed(clock="core"), tmp_path / "core", progress="none", resume=True, max_updates=80)
    assert resumed.total_seconds > by["core"]


def test_ctrl_c_stops_between_two_updates_with_a_checkpoint_and_no_verdict(small: Config, tmp_path: Path) -> None:
    config = small.changed(max_updates=10**9)
    before = signal.getsignal(signal.SIGINT)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    result = run(config, tmp_path / "run", progress="none")
    assert result.reason == "interrupted"
    assert signal.getsignal(signal.SIGINT) is before
    assert not (tmp_path / "run" / files.RESULT).exists()
    newest = max((tmp_path / "run" / files.CHECKPOINTS).iterdir())
    assert int(newest.stem) == result.total_updates > 0


def test_a_folder_that_holds_another_run_is_left_alone(small: Config, tmp_path: Path) -> None:
    run(small, tmp_path / "run", progress="none", max_updates=5)
    there = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(FolderError, match="holds this run already"):
        run(small, tmp_path / "run", progress="none")
    for resume in (False, True):
        with pytest.raises(FolderError, match=r"holds another run .seed is 2, not 1 here."):
            run(small.changed(seed=2), tmp_path / "run", progress="none", resume=resume)
    assert {path: path.read_bytes() for path in there} == there
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / files.METRICS).write_text("{}\n")
    with pytest.raises(FolderError, match=r"holds metrics.jsonl of a run without its config.json"):
        run(small, tmp_path / "part", progress="none")
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="must be a folder, and a file is in its place"):
        run(small, tmp_path / "file", progress="none")


def test_a_folder_in_use_by_another_process_is_refused(small: Config, tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    run(small, tmp_path / "run", progress="none", max_updates=5)
    with open(tmp_path / "run" / ".lock", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(FolderError, match="is in use: another process is training there"):
            run(small, tmp_path / "run", progress="none", resume=True)


@pytest.mark.parametrize("failing", ["checkpoint", "metrics"])
def test_a_full_disk_is_told_by_file_and_loses_nothing(
    failing: str, small: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "run"
    run(small, directory, progress="none", max_updates=40)
    kept = {path.name: path.read_bytes() for path in (directory / files.CHECKPOINTS).iterdir()}

    fill_disk(failing, monkeypatch)
    what = {"checkpoint": "000000100.safetensors", "metrics": "metrics.jsonl"}[failing]
    with pytest.raises(OSError, match=f"cannot write .*{what}: No space left on device") as caught:
        run(small, directory, progress="none", resume=True)
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in (directory / files.CHECKPOINTS).iterdir()} == kept
    run(small, directory, progress="none", resume=True)
    run(small, tmp_path / "undisturbed", progress="none")
    assert_same_run(directory, tmp_path / "undisturbed")


def test_a_line_that_a_full_disk_takes_in_part_is_cut_off_on_resumption(small: Config, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    run(small, directory, progress="none", max_updates=40)
    with open(directory / files.METRICS, "ab") as file:
        file.write(b'{"updates": 60, "loss"')
    run(small, directory, progress="none", resume=True)
    run(small, tmp_path / "undisturbed", progress="none")
    assert_same_run(directory, tmp_path / "undisturbed")


def test_threads_are_put_back(small: Config, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    run(small.changed(threads=before + 1), tmp_path / "run", progress="none", max_updates=1)
    assert torch.get_num_threads() == before

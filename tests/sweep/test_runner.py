"""Sweeps: what is finished is left alone, what fails is recorded, and what is killed goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pretended import contents, pretend

from steadygrad import sweep
from steadygrad.experiments import Config, Result, files
from steadygrad.sweep import Local
from steadygrad.sweep.cell import DEATHS, Outcome, Work

QUIET = {"progress": "none"}


class Here:
    """An engine that runs cells in this very process, one after the other."""

    name = "here"

    def run(self, function: Callable[[Any], Any], cells: Any) -> list[Any]:
        return [function(cell) for cell in cells]


def test_a_real_grid_leaves_a_verdict_for_every_cell_and_its_errors_elsewhere(tmp_path: Path, grid: Any) -> None:
    cells = grid(seeds=[1, 2], test_lengths=[11, 13])
    outcomes = sweep.run(cells, tmp_path / "out", engine=Here(), **QUIET)
    assert [outcome.id for outcome in outcomes] == [cell.id for cell in cells.cells]
    assert {outcome.status for outcome in outcomes} == {"finished"}
    for cell in cells.cells:
        folder = tmp_path / "out" / cell.id
        assert Result.read(folder) is not None
        assert files.read_config(folder) == cell.config
        tested = contents(folder / "generalisation.json")
        assert list(tested) == ["11", "13"]
        assert all(0.0 <= each["error"] <= 1.0 and each["sequences"] == 10_000 for each in tested.values())
        assert not (folder / "starts.json").exists()


def test_a_finished_cell_is_never_run_again(tmp_path: Path, grid: Any, fake: Any, calls: Any) -> None:
    first = sweep.run(grid(seeds=[1]), tmp_path / "out", engine=Here(), **fake, **QUIET)
    assert len(calls()) == 2
    again = sweep.run(grid(seeds=[1, 2]), tmp_path / "out", engine=Here(), **fake, **QUIET)
    assert again[:2] == first
    assert sorted(calls()) == sorted(cell.id for cell in grid(seeds=[1, 2]).cells)


def test_a_cell_that_was_not_tested_everywhere_is_tested_and_not_trained_again(
    tmp_path: Path, grid: Any, fake: Any, calls: Any
) -> None:
    out = tmp_path / "out"
    sweep.run(grid(test_lengths=[20]), out, engine=Here(), **fake, **QUIET)
    sweep.run(grid(test_lengths=[20, 40]), out, engine=Here(), **fake, **QUIET)
    assert len(calls()) == 2
    tested = contents(out / grid().cells[0].id / "generalisation.json")
    assert {length: each["error"] for length, each in tested.items()} == {"20": 0.002, "40": 0.004}


def fails_with_sgd(config: Config, directory: Path, **options: Any) -> Result:
    if config.algorithm == "sgd":
        raise ZeroDivisionError("no luck\ntoday")
    return pretend(config, directory, **options)


def test_a_failing_cell_is_recorded_with_its_reason_and_the_rest_goes_on(
    tmp_path: Path, grid: Any, fake: Any, calls: Any
) -> None:
    out = tmp_path / "out"
    failed, fine = sweep.run(grid(), out, engine=Here(), **{**fake, "train": fails_with_sgd}, **QUIET)
    assert (failed.status, failed.reason) == ("failed", "ZeroDivisionError: no luck today")
    assert (fine.status, fine.result.solved) == ("finished", True)
    record = contents(out / failed.id / "failed.json")
    assert record["reason"] == failed.reason
    assert "fails_with_sgd" in record["traceback"]

    # The next sweep tries it again, and forgets the failure once it is none.
    failed, fine = sweep.run(grid(), out, engine=Here(), **fake, **QUIET)
    assert failed.status == "finished"
    assert not (out / failed.id / "failed.json").exists()
    assert calls() == [fine.id, failed.id]


def deadly_at_first(config: Config, directory: Path, **options: Any) -> Result:
    assert os.environ["OMP_NUM_THREADS"] == "1"
    if config.algorithm == "sgd-cr" and not (directory.parent / "died").exists():
        (directory.parent / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.5)
    return pretend(config, directory, **options)


def test_a_worker_that_dies_loses_its_own_cell_alone_and_it_is_tried_again(
    tmp_path: Path, grid: Any, fake: Any, calls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")  # which no worker must see
    cells = grid(algorithms=["sgd-cr", "sgd", "sgd-c"])
    outcomes = sweep.run(cells, tmp_path / "out", engine=Local(2), **{**fake, "train": deadly_at_first}, **QUIET)
    assert {outcome.status for outcome in outcomes} == {"finished"}
    # No cell came to its end twice: the others never noticed.
    assert sorted(calls()) == sorted(cell.id for cell in cells.cells)
    assert (tmp_path / "out" / "died").exists()


def test_a_cell_is_given_up_after_three_starts_without_an_end(tmp_path: Path, grid: Any, calls: Any) -> None:
    out = tmp_path / "out"
    cell = grid().cells[0]
    (out / cell.id).mkdir(parents=True)
    (out / "sweep.json").write_text("{}")
    starts = out / cell.id / "starts.json"

    def dies(config: Config, directory: Path, **options: Any) -> Result:
        # What is left of a process that was killed is what it had written before.
        left_behind.append(starts.read_bytes())
        return pretend(config, directory, **options)

    left_behind: list[bytes] = []
    for death in range(DEATHS):
        assert Work(out, run=dies)(cell).status == "finished"
        (out / cell.id / "result.json").unlink()
        starts.write_bytes(left_behind[-1])
        assert contents(starts)["starts"] == death + 1
    lost = Work(out, run=dies)(cell)
    assert (lost.status, lost.reason) == ("failed", "its worker died 3 times, every time it was tried")
    assert contents(out / cell.id / "failed.json")["reason"] == lost.reason
    assert len(calls()) == DEATHS
    assert not starts.exists()


LONG = {"check_every": 200, "success": 0.0, "lr": 1e-6, "curriculum": None, "seeds": [1, 2], "algorithms": ["sgd-cr"]}
# A process that a shell began in the background ignores Ctrl-C, and so do all that it begins: here it shall be heard.
SWEEP = f"""
import signal
import sys
from pathlib import Path
from pretended import tiny
from steadygrad import sweep
signal.signal(signal.SIGINT, signal.default_int_handler)
sweep.run(tiny(max_updates=int(sys.argv[2]), **{LONG}), Path(sys.argv[1]), engine=sweep.Local(1), progress="plain")
"""


@contextmanager
def started(out: Path, updates: int) -> Iterator[subprocess.Popen[str]]:
    """A sweep of two runs in a process of its own, which does not outlive the test."""
    words = [sys.executable, "-c", SWEEP, str(out), str(updates)]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=here) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{process}/stat").read_text().split()[2] if Path("/proc").exists() else True


def test_a_killed_sweep_leaves_no_orphan_and_goes_on_where_it_stopped(tmp_path: Path, grid: Any) -> None:
    out, updates = tmp_path / "out", 2000
    with started(out, updates) as process:
        wait_until(lambda: bool(list(out.glob("*/metrics.jsonl"))))
        (worker,) = [contents(path)["process"] for path in out.glob("*/starts.json")]
        process.kill()
    wait_until(lambda: not alive(worker), 10.0)
    assert not list(out.glob("*/result.json"))
    (begun,) = out.glob("*/checkpoints")

    outcomes = sweep.run(grid(max_updates=updates, **LONG), out, engine=Here(), **QUIET)
    assert [(outcome.status, outcome.result.updates) for outcome in outcomes] == [("finished", updates)] * 2
    lines = (begun.parent / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["updates"] for line in lines] == list(range(0, updates + 1, 200))


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_ctrl_c_lets_a_cell_write_a_checkpoint_and_the_next_sweep_goes_on_from_it(tmp_path: Path, grid: Any) -> None:
    out = tmp_path / "out"
    with started(out, 5_000_000) as process:
        wait_until(lambda: any(len(path.read_text().splitlines()) > 2 for path in out.glob("*/metrics.jsonl")))
        process.send_signal(signal.SIGINT)
        _, lines = process.communicate(timeout=180)
    assert lines.rstrip().endswith("KeyboardInterrupt")
    # Without an interrupt, the first checkpoint after that of update 0 would come after 30 seconds.
    (folder,) = out.glob("*/checkpoints")
    assert max(int(path.stem) for path in folder.iterdir()) > 0
    assert not list(out.glob("*/starts.json"))
    assert not list(out.glob("*/failed.json"))


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"])
def test_a_signal_to_the_sweep_alone_reaches_its_workers_at_once_and_leaves_nothing_behind(
    number: int, code: int, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = "sweep --problem temporal-order --length 10 --algorithm sgd --optimizer sgd --max-updates 1000000000 --success 0"
    words += f" --after-success stop --seeds 1,2 --workers 1 --plain --out {out}"
    # A process that a shell began in the background ignores Ctrl-C: here it shall be heard.
    main = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from steadygrad.cli import main; "
    line = [sys.executable, "-c", f"{main} sys.exit(main(sys.argv[1:]))", *words.split()]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: any(len(path.read_text().splitlines()) > 2 for path in out.glob("*/metrics.jsonl")), 240.0)
        (worker,) = [contents(path)["process"] for path in out.glob("*/starts.json")]
        process.send_signal(number)
        # well below the 20 s of grace that a worker which does not hear it would be given
        begun = time.monotonic()
        _, said = process.communicate(timeout=120)
        assert time.monotonic() - begun < 15.0
    assert process.returncode == code
    first, *_, last = said.splitlines()
    assert first == "stopping: 1 running cells write a checkpoint (at most 20 s)"
    assert last == "stopped: 0 of 2 cells are finished; the same command goes on with the rest"
    assert "semaphore" not in said
    assert "Traceback" not in said
    wait_until(lambda: not alive(worker), 10.0)
    assert not list(out.glob("*/starts.json"))
    assert any(int(path.stem) > 0 for path in out.glob("*/checkpoints/*"))


def test_two_sweeps_begun_in_one_folder_at_the_same_moment_know_of_all_cells(tmp_path: Path, grid: Any) -> None:
    from steadygrad.sweep import runner

    out = tmp_path / "out"
    grids = [grid(seeds=[seed]) for seed in range(1, 9)]
    threads = [threading.Thread(target=runner._prepare, args=(each, out, "")) for each in grids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(contents(out / "sweep.json")["cells"]) == {cell.id for each in grids for cell in each.cells}


def test_a_run_that_gave_up_goes_on_if_the_limit_is_higher_now(tmp_path: Path, grid: Any) -> None:
    out = tmp_path / "out"
    sweep.run(grid(max_updates=3), out, engine=Here(), **QUIET)
    for outcome in sweep.run(grid(max_updates=6), out, engine=Here(), **QUIET):
        assert (outcome.reason, outcome.result.updates) == ("max_updates", 6)
    lines = (out / grid().cells[0].id / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 3  # the checks after 0, 3 and 6 updates: it was not begun anew
    with pytest.raises(
        ValueError, match=r"holds another run \(there max_updates is 6, not 3\)|max_updates is 3, not 2"
    ):
        sweep.run(grid(max_updates=2), out, engine=Here(), **QUIET)


def test_a_folder_that_holds_something_else_is_refused_before_anything_runs(
    tmp_path: Path, grid: Any, fake: Any, calls: Any
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("dear committee")
    with pytest.raises(ValueError, match=r"must be new, empty, or of an earlier sweep, and .* holds other files$"):
        sweep.run(grid(), out, engine=Here(), **fake, **QUIET)
    with pytest.raises(ValueError, match=r"must be a folder, and .* is a file$"):
        sweep.run(grid(), out / "thesis.tex", engine=Here(), **fake, **QUIET)
    (out / "thesis.tex").unlink()
    sweep.run(grid(), out, engine=Here(), **fake, **QUIET)
    with pytest.raises(ValueError, match=r"holds another run \(there batch is 20, not 3\): choose another folder"):
        sweep.run(grid(batch=3), out, engine=Here(), **fake, **QUIET)
    assert len(calls()) == 2
    # What ids name can share the folder, and the file of records.
    sweep.run(grid(lr=0.5), out, engine=Here(), **fake, **QUIET)
    assert len(calls()) == len({record["id"] for record in sweep.collect(out)}) == 4


def test_a_cell_that_another_process_runs_is_left_to_it(
    tmp_path: Path, grid: Any, fake: Any, calls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr("steadygrad.sweep.cell.PATIENCE", 0.2)
    out = tmp_path / "out"
    first, second = grid().cells
    (out / first.id).mkdir(parents=True)
    (out / "sweep.json").write_text('{"cells": []}')
    with open(out / first.id / ".cell.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        busy, done = sweep.run(grid(), out, engine=Here(), **fake, **QUIET)
    assert (busy.status, busy.reason, done.status) == ("busy", "another process is running it", "finished")
    assert calls() == [second.id]


def test_a_worker_that_does_not_see_the_folder_says_so(tmp_path: Path, grid: Any) -> None:
    outcome = Work(tmp_path / "elsewhere")(grid().cells[0])
    assert outcome.status == "failed"
    assert "must be on a disk that all nodes share" in outcome.reason


def test_the_clock_of_the_watch_is_not_needed_for_the_outcome(tmp_path: Path, grid: Any, fake: Any) -> None:
    before = threading.active_count()
    sweep.run(grid(), tmp_path / "out", engine=Here(), progress="plain", **{key: fake[key] for key in fake})
    assert threading.active_count() == before


def test_an_outcome_tells_the_result_in_a_few_words() -> None:
    solved = Result("solved", 12_000, 14.0, 12_000, 14.0, solved=True, error=0.004)
    assert str(Outcome("a", "finished", "solved", solved)) == "solved after 12,000 updates (14 s, 0.40 % wrong)"
    scored = Result("patience", 9000, 600.0, 9000, 600.0, train=3.21, test=3.456, epochs=40)
    assert (
        str(Outcome("b", "finished", "patience", scored))
        == "test 3.456, train 3.210 after 40 epochs (10 min, patience)"
    )

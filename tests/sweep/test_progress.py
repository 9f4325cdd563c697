"""What a sweep shows while it runs, and how long it says it will take."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from pretended import pretend

from steadygrad.experiments import Config, Result
from steadygrad.sweep.cell import Work
from steadygrad.sweep.progress import Estimate, Watch, duration, estimate, measured_update


def unsolved(config: Config, directory: Path, **options: Any) -> Result:
    return pretend(config, directory, **{**options, "solved": False})


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sweep.json").write_text("{}")
    return tmp_path / "out"


def test_every_cell_that_ends_has_one_line_with_what_is_left(out: Path, grid: Any) -> None:
    cells = grid(seeds=[1, 2]).cells
    stream = io.StringIO()
    watch = Watch(cells, out, done=3, workers=2, style="plain", stream=stream)
    with watch:
        Work(out, run=pretend)(cells[0])
        watch.poll()
        watch.poll()  # and no more than one
        Work(out, run=unsolved)(cells[1])
    first, second = stream.getvalue().splitlines()
    # Each took 2.5 s: three are left, on two workers.
    assert first == (
        "[4/7] temporal-order_10_sgd_steady_seed1: solved after 100 updates (2 s, 0.40 % wrong)"
        " · 0 running · 3 waiting · about 4 s left"
    )
    assert second.startswith("[5/7] temporal-order_10_sgd-cr_steady_seed1: not solved: max_updates after 3 updates")


def test_a_failure_is_shown_with_its_reason(out: Path, grid: Any) -> None:
    def fails(*_: Any, **__: Any) -> Result:
        raise RuntimeError("out of luck")

    stream = io.StringIO()
    with Watch(grid().cells[:1], out, style="plain", stream=stream):
        Work(out, run=fails)(grid().cells[0])
    assert stream.getvalue() == "[1/1] temporal-order_10_sgd_steady_seed1: failed: RuntimeError: out of luck\n"


def test_a_terminal_gets_a_live_bar(out: Path, grid: Any) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    with Watch(grid().cells, out, workers=2, stream=stream) as watch:
        Work(out, run=pretend)(grid().cells[0])
        watch.poll()
    shown = stream.getvalue()
    assert "1/2 cells" in shown
    assert "solved after 100 updates" in shown


def test_the_time_left_of_unlike_cells_goes_by_updates_and_steps(out: Path, grid: Any) -> None:
    done, alike = grid(seeds=[1, 2], algorithms=["sgd"]).cells
    (longer,) = grid(algorithms=["sgd"], lengths=[(30, 30)], max_updates=6).cells
    watch = Watch([done, alike, longer], out, workers=1, style="none")
    assert watch.time_left is None
    Work(out, run=pretend)(done)
    watch.style = "plain"
    watch.stream = io.StringIO()
    watch.poll()
    assert watch.time_left == pytest.approx(2.5 + 2.5 * 2 * 3)


def test_an_estimate_counts_only_what_is_left_and_no_less_than_the_longest_cell(
    out: Path, grid: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # of the cells that are not like the finished one; a loaded machine would measure more than 25 s
    monkeypatch.setattr("steadygrad.sweep.progress.measured_update", lambda config: 0.01)
    cells = grid(seeds=[1, 2], max_updates=1000)
    Work(out, run=pretend)(cells.cells[0])
    left = estimate(cells, out, workers=8)
    assert set(left.cells) == {cell.id for cell in cells.cells[1:]}
    # The finished one took 2.5 s for 100 updates; its like will take no more than that for each.
    assert left.cells[cells.cells[2].id] == pytest.approx(25.0)
    assert left.seconds == pytest.approx(25.0)
    assert Estimate({"a": 3.0, "b": 5.0}, 1).seconds == 8.0
    assert Estimate({}, 2).seconds == 0.0


def test_a_measured_update_holds_its_share_of_a_test(grid: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,) = grid(algorithms=["sgd-cr"], hidden=5, check_sequences=40, check_every=8).cells
    assert measured_update(cell.config, 2) > 0
    clock = iter([0.0, 10.0, 20.0, 24.0])  # five updates in ten seconds, then a test in four
    monkeypatch.setattr("steadygrad.sweep.progress.time.perf_counter", lambda: next(clock))
    assert measured_update(cell.config, 5) == pytest.approx(10 / 5 + 4 / 8)


def test_durations_are_said_in_words_that_fit() -> None:
    assert [duration(seconds) for seconds in (0.4, 99, 101, 5900, 86_400)] == [
        "0 s",
        "99 s",
        "2 min",
        "98 min",
        "24.0 h",
    ]

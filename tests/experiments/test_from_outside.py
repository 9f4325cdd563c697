"""What comes from outside while a run works: SIGTERM, a closed pipe, a terminal that knows no Ω, data that were moved."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from same_run import assert_same_run
from steadygrad import experiments
from steadygrad.cli import main
from steadygrad.data import write_midi
from steadygrad.experiments import files

PROGRAM = [sys.executable, "-m", "steadygrad.cli"]
SMALL = ["--length", "10:12", "--hidden", "6", "--batch", "4", "--check-every", "20", "--check-sequences", "50"]
SMALL += [
    "--test-sequences",
    "100",
    "--after-success",
    "stop",
    "--success",
    "0",
    "--algorithm",
    "sgd",
    "--optimizer",
    "sgd",
]
ENDLESS = [*SMALL, "--max-updates", "1000000000"]


@contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """The program with these words, which does not outlive the test."""
    with subprocess.Popen([*PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(path: Path, seconds: float = 240.0) -> None:
    """Until the run has written its first lines."""
    deadline = time.monotonic() + seconds
    while not (path.exists() and path.stat().st_size > 500):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"])
def test_a_signal_while_torch_is_imported_says_that_nothing_was_written(
    number: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, begun = tmp_path / "run", tmp_path / "begun"
    (tmp_path / "torch.py").write_text(  # found before torch itself, and slower still
        f"import pathlib, signal, time; signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"pathlib.Path({str(begun)!r}).write_text('.' * 501); time.sleep(240)"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with started(["train", "temporal-order", "--out", str(out)]) as process:
        wait_for(begun)
        process.send_signal(number)
        said, errors = process.communicate(timeout=120)
    assert (process.returncode, said, errors) == (code, "", "stopped before training began; nothing was written\n")
    assert not out.exists()


def test_sigterm_writes_a_checkpoint_says_how_to_go_on_and_exits_with_143(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", "temporal-order", *ENDLESS, "--quiet", "--checkpoint-seconds", "1e9", "--out", str(out)]
    with started(words) as process:
        wait_for(out / files.METRICS)
        process.send_signal(signal.SIGTERM)
        said, errors = process.communicate(timeout=120)
    assert process.returncode == 143
    assert said.endswith(f"updates (by SIGTERM); go on with: steadygrad resume {out}\n")
    assert errors == ""
    made = int(max((out / files.CHECKPOINTS).iterdir()).stem)
    assert made > 0
    config = experiments.read_config(out)
    limit = made + 20 - made % 20
    experiments.run(config, out, progress="none", resume=True, max_updates=limit)
    experiments.run(config, tmp_path / "one", progress="none", max_updates=limit)
    assert_same_run(out, tmp_path / "one")


def test_a_closed_pipe_stops_a_run_with_a_checkpoint_a_sentence_and_a_code_of_its_own(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["train", "temporal-order", *ENDLESS, "--plain", "--checkpoint-seconds", "1e9", "--out", str(out)]
    with started(words) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(timeout=120) == 141
    assert lines[0].startswith("temporal-order · sgd (plain gradient), optimizer sgd")
    assert "updates (its output was closed); go on with: steadygrad resume" in errors
    assert errors.count("\n") == 1
    assert int(max((out / files.CHECKPOINTS).iterdir()).stem) > 0


def test_a_pipe_that_knows_no_omega_gets_it_spelled_out(tmp_path: Path) -> None:
    words = [
        *PROGRAM,
        "train",
        "temporal-order",
        *SMALL,
        "--max-updates",
        "20",
        "--plain",
        "--out",
        str(tmp_path / "run"),
    ]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Omega 0.0" in done.stdout
    assert "|g|" not in done.stdout.splitlines()[0]


@pytest.mark.parametrize("what", ["text", "music"])
def test_data_that_were_moved_are_found_by_their_checksum(
    what: str, text_path: str, music_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, run = Path(text_path if what == "text" else music_path), str(tmp_path / "run")
    few = ["--hidden", "7", "--steps", "8", "--batch", "3", "--quiet"]
    assert main(["train", what, str(path), *few, "--epochs", "1", "--out", run]) == 0
    moved = path.rename(tmp_path / "elsewhere")
    capsys.readouterr()
    assert main(["evaluate", run]) == 2
    told = f"cannot read {path}, the data of {run}: it is not there any more; if it was moved, give --data PATH"
    assert told in capsys.readouterr().err
    assert main(["resume", run, "--epochs", "2"]) == 2
    assert told in capsys.readouterr().err
    assert main(["evaluate", run, "--data", str(moved)]) == 0
    assert main(["resume", run, "--epochs", "2", "--data", str(moved), "--quiet"]) == 0
    assert "after 2 epochs" in capsys.readouterr().out
    assert experiments.read_config(run).path == str(path)  # the run's settings are what they were
    if what == "text":
        moved.write_text("another text " * 50)
        assert main(["evaluate", run, "--data", str(moved)]) == 2
        assert "has changed since the run in" in capsys.readouterr().err


def test_midi_files_that_cannot_be_read_are_left_out_and_named_where_it_is_asked_for(
    music_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (Path(music_path) / "broken.mid").write_bytes(b"no music")
    words = ["train", "music", music_path, "--hidden", "7", "--epochs", "1", "--plain", "--out", str(tmp_path / "run")]
    assert main(words) == 2
    assert "1 of 8 MIDI files cannot be used (faults='skip', as an option --faults skip, " in capsys.readouterr().err
    assert main([*words, "--faults", "skip"]) == 0
    assert "left out, as they cannot be read: 1 of the files (" in capsys.readouterr().out


def test_ten_lines_are_written_in_an_epoch_of_many_short_pieces(tmp_path: Path) -> None:
    folder = tmp_path / "short"
    folder.mkdir()
    generator = torch.Generator().manual_seed(0)
    for number in range(60):
        roll = (torch.rand(5, 88, generator=generator) < 0.1).to(torch.uint8)
        roll[-1, 40] = 1
        write_midi(roll, folder / f"{number}.mid", step_seconds=0.25)
    config = experiments.preset("music", "sgd-cr", "paper", path=str(folder), hidden=5, epochs=1)
    result = experiments.run(config, tmp_path / "run", progress="none")
    lines = (tmp_path / "run" / files.METRICS).read_text().splitlines()
    assert result.updates == 54
    assert len(lines) == 10


def test_at_most_ten_lines_are_written_within_an_epoch_of_few_updates(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question " * 60)
    config = experiments.preset("text", "sgd-c", path=str(text), hidden=5, steps=8, batch=13, epochs=1)
    result = experiments.run(config, tmp_path / "run", progress="none")
    assert result.updates == 22  # a line after every second update would make eleven
    assert len((tmp_path / "run" / files.METRICS).read_text().splitlines()) == 10


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "addition", "--out", ""], "argument --out: must be a path, not ''"),
        (["reproduce", "fig3", "--out", ""], "argument --out: must be a path, not ''"),
        (["flow", ""], "argument DIR: must be a path, not ''"),
        (["resume", "LINES", "--data", " "], "argument --data: must be a path, not ' '"),
        (
            ["train", "addition", "--seed", "99999999999999999999", "--out", "RUN"],
            "seed must be a whole number of at most 9,223,372,036,854,775,807, not 99999999999999999999",
        ),
        (
            ["train", "addition", "--hidden", "99999999999999999999", "--out", "RUN"],
            "hidden must be at most 9,223,372,036,854,775,807, not 99999999999999999999",
        ),
        (
            ["train", "addition", "--length", "10:99999999999999999999", "--out", "RUN"],
            "length must be at most 9,223,372,036,854,775,807, not (10, 99999999999999999999)",
        ),
        (
            ["train", "my_problem.py", "--out", "RUN"],
            "problem must name a class of my_problem.py too: my_problem.py:CLASS",
        ),
        (["evaluate", "SPOILT"], "config.json must be UTF-8 text, and is not"),
        (["report", "LINES"], "metrics.jsonl, line 2, must be a JSON object, and is not"),
        (["report", "HALF"], "metrics.jsonl, line 1, must have updates, and has not"),
        (["flow", "HALF"], "flow.jsonl, line 1, must have updates, steps, stride, norms, eigenvalues, and has not"),
    ],
)
def test_bad_input_is_refused_by_name(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in (
        ("SPOILT", b"\xff\xfe{}"),
        ("LINES", experiments.Config("addition", "sgd").to_json().encode()),
        ("HALF", experiments.Config("addition", "sgd").to_json().encode()),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / files.CONFIG).write_bytes(content)
    (tmp_path / "LINES" / files.METRICS).write_text('{"updates": 0}\nno line\n{"updates": 1}\n')
    (tmp_path / "HALF" / files.METRICS).write_text('{"loss": 0}\n')
    (tmp_path / "HALF" / files.FLOW).write_text("{}\n")
    before = sorted(tmp_path.rglob("*"))
    try:
        code = main(words)
    except SystemExit as left:
        code = left.code
    assert code == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_page_that_a_full_disk_does_not_take_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    config = experiments.Config("addition", "sgd")
    (tmp_path / files.CONFIG).write_text(config.to_json())
    (tmp_path / files.METRICS).write_text(json.dumps({"updates": 0, "error": 1.0, "loss": None}) + "\n")
    (tmp_path / "index.html").write_text("the old page")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr("steadygrad.report.curves.draw_run", lambda *_: None)
    monkeypatch.setattr("steadygrad.plotting.svg", lambda _: b"<svg/>")
    assert main(["report", str(tmp_path)]) == 2
    assert f"cannot write {tmp_path / 'index.html'}: No space left on device" in capsys.readouterr().err
    assert (tmp_path / "index.html").read_text() == "the old page"


@pytest.mark.parametrize("kind", ["npz", "png", "svg"])
def test_a_figure_that_a_full_disk_does_not_take_is_named_and_leaves_no_part_of_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    replace = os.replace

    def full(beside: Path, path: Path) -> None:
        if path.suffix == f".{kind}":
            raise OSError(28, "No space left on device")
        replace(beside, path)

    monkeypatch.setattr(os, "replace", full)
    assert main(["reproduce", "fig2", "--out", str(tmp_path)]) == 2
    assert f"cannot write {tmp_path / 'fig2'}.{kind}: No space left on device" in capsys.readouterr().err
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".") or path.suffix == f".{kind}"]


def test_polishing_is_said_when_it_begins_and_in_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "temporal-order", "--length", "10:12", "--hidden", "20", "--check-every", "100", "--seed", "1"]
    words += ["--max-updates", "1000", "--test-sequences", "1000", "--plain", "--out", str(tmp_path / "run")]
    assert main(words) == 0
    said = capsys.readouterr().out
    result = experiments.Result.read(tmp_path / "run")
    assert result is not None
    assert result.solved
    if result.total_updates > result.updates:
        assert "trains on for up to" in said
        assert "more to err less at longer lengths" in said

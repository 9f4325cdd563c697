"""The command line for music and text: train, resume, evaluate, and how they refuse."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from pathlib import Path

import pytest
from tiny import TEXT

from steadygrad import experiments
from steadygrad.cli import main, parser
from steadygrad.commands import options, train
from steadygrad.experiments import Config, files, preset

SMALL = ["--hidden", "7", "--steps", "8", "--batch", "16", "--epochs", "2"]


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What stderr says where the command line is refused: one sentence, exit code 2."""
    try:
        code = main(words)
    except SystemExit as left:
        code = left.code
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert captured.err.count("\n") == 1
    return captured.err[:-1]


def test_train_resume_and_evaluate_a_text(text_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["train", "text", text_path, *SMALL, "--out", str(out)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith("epoch   1")
    assert printed[-3].startswith("ended (epochs) after 2 epochs, 34 updates (")
    assert re.fullmatch(
        r"best weights, of epoch \d: train [\d.]+   valid [\d.]+   test [\d.]+ bits/character", printed[-2]
    )
    assert printed[-1] == f"everything is in {out}"
    assert main(["resume", str(out), "--epochs", "3", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("ended (epochs) after 3 epochs, 51 updates (")
    test = json.loads((out / files.RESULT).read_text())["test"]
    assert main(["evaluate", str(out)]) == 0
    assert capsys.readouterr().out == f"test  {test:.4f} bits/character\n"
    assert main(["evaluate", str(out), "--split", "valid", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"split": "valid", "score": found["score"], "unit": "bits/character"}
    assert found == experiments.evaluate(out, split="valid")


def test_train_a_folder_of_midi_files(music_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    words = [
        "train",
        "music",
        music_path,
        "--time-step",
        "0.5",
        "--preset",
        "paper",
        *SMALL,
        "--quiet",
        "--out",
        str(out),
    ]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("nats/step")
    assert experiments.read_config(out).time_step == 0.5


def test_a_run_that_diverged_is_told(text_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "train",
        "text",
        text_path,
        *SMALL,
        "--algorithm",
        "sgd",
        "--nonlinearity",
        "relu",
        "--optimizer",
        "momentum",
    ]
    assert main([*words, "--lr", "1e30", "--cost", "sum", "--quiet", "--out", str(tmp_path / "run")]) == 0
    first, second, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("ended (diverged: ")
    assert second == "no weights are kept: there was no validation before"


def test_every_setting_has_its_option_and_reaches_the_config(text_path: str) -> None:
    typed = {
        "seed": ("4", 4),
        "ahead": ("5", 5),
        "hidden": ("6", 6),
        "nonlinearity": ("relu", "relu"),
        "leak": ("0.5", 0.5),
        "init": ("identity", "identity"),
        "dropout": ("0.25", 0.25),
        "steps": ("77", 77),
        "batch": ("5", 5),
        "cost": ("sum", "sum"),
        "optimizer": ("nesterov", "nesterov"),
        "lr": ("0.3", 0.3),
        "momentum": ("0.7", 0.7),
        "threshold": ("auto", "auto"),
        "nonfinite": ("shrink", "shrink"),
        "alpha": ("1.5", 1.5),
        "omega": ("program", "program"),
        "lr_schedule": ("half-when-worse", "half-when-worse"),
        "alpha_schedule": ("1/t", "1/t"),
        "epochs": ("12", 12),
        "patience": ("3", 3),
        "max_seconds": ("45.5", 45.5),
        "backend": ("torch", "torch"),
        "dtype": ("float64", "float64"),
        "threads": ("2", 2),
    }
    words = ["train", "text", text_path, "--out", "x", "--no-bias"]
    for name, (text, _) in typed.items():
        words += [options.option(name), text]
    config = train.config(parser().parse_args(words))
    assert {name: getattr(config, name) for name in typed} == {name: value for name, (_, value) in typed.items()}
    assert (config.problem, config.path, config.bias) == ("text", text_path, False)


def test_a_config_file_is_enough_to_run_again(tmp_path: Path) -> None:
    config = preset("ptb", "sgd-c", "paper", seed=9, ahead=5)
    (tmp_path / "config.json").write_text(config.to_json())
    words = ["train", "--config", str(tmp_path / "config.json"), "--out", "x"]
    assert train.config(parser().parse_args(words)) == config
    assert train.config(parser().parse_args([*words, "--epochs", "2"])) == config.changed(epochs=2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nottinham"], "problem must be one of .* not 'nottinham' .did you mean 'nottingham'"),
        (["nottingham", "somewhere"], "path must be left out with 'nottingham', which is known by name"),
        (
            ["addition", "somewhere"],
            "PATH must be left out with 'addition', whose sequences are drawn, not 'somewhere'",
        ),
        (["text"], "path must be given with 'text': a text file"),
        (["music"], "path must be given with 'music': a folder of MIDI files"),
        (["text", "nowhere.txt"], "cannot read .*nowhere.txt: No such file or directory"),
        (["music", "nowhere"], "nowhere is not a folder"),
        (["text", "TEXT", "--time-step", "0.25"], "time_step must be left out with 'text', whose steps are given"),
        (["text", "TEXT", "--ahead", "0"], "ahead must be a whole number of at least 1, not 0"),
        (
            ["text", "TEXT", "--ahead", "500"],
            "ahead must be below the 120 characters that rhyme has for valid, not 500",
        ),
        (["jsb", "--ahead", "5"], "ahead must be left out with 'jsb', which is music, not 5"),
        (["ptb", "--length", "50:200"], "--length must be left out with 'ptb', which has no such setting"),
        (["ptb", "--option", "a=b"], "--option must be left out with 'ptb'"),
        (["addition", "--ahead", "5"], "--ahead must be left out with 'addition', which has no such setting"),
        (["ptb", "--algorithm", "sgd", "--threshold", "45"], "threshold must be left out with algorithm 'sgd'"),
        (["ptb", "--preset", "program"], "preset must be one of 'paper', 'steady', not 'program'"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(
    words: list[str], sentence: str, text_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = [text_path if word == "TEXT" else word for word in words]
    said = refused(["train", *typed, "--out", str(tmp_path / "run")], capsys)
    assert re.search(sentence, said), said
    assert not (tmp_path / "run").exists()


def test_what_a_run_of_this_kind_would_not_read_is_refused(
    text_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    main(["train", "text", text_path, *SMALL, "--quiet", "--out", str(out)])
    capsys.readouterr()
    assert "--max-updates must be left out with" in refused(["resume", str(out), "--max-updates", "9"], capsys)
    assert "--length must be left out with" in refused(["evaluate", str(out), "--length", "20"], capsys)
    assert "split must be one of 'train', 'valid', 'test', not 'dev'" in refused(
        ["evaluate", str(out), "--split", "dev"], capsys
    )
    task = tmp_path / "task"
    task.mkdir()
    (task / files.CONFIG).write_text(Config("addition", "sgd").to_json())
    assert "--epochs must be left out with" in refused(["resume", str(task), "--epochs", "9"], capsys)


def test_ctrl_c_prints_the_command_that_goes_on_and_exits_with_130(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "long.txt", tmp_path / "a run"
    path.write_text(TEXT)
    words = ["train", "text", str(path), *SMALL, "--epochs", "1000000", "--quiet", "--out", str(out)]
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert main(words) == 130
    assert capsys.readouterr().out.endswith(f"updates; go on with: steadygrad resume '{out}'\n")

"""The command line: what it does, and how it refuses: one sentence on stderr, exit code 2, no traceback."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import steadygrad
from steadygrad import storage, tasks
from steadygrad.cli import COMMANDS, main, parser
from steadygrad.commands import doctor, options, train
from steadygrad.experiments import Config, files, preset

SMALL = ["--length", "10:12", "--hidden", "6", "--batch", "4", "--max-updates", "60"]
SMALL += ["--check-every", "20", "--check-sequences", "50", "--test-sequences", "100"]


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What stderr says where the command line is refused: one sentence, exit code 2."""
    try:
        code = main(words)
    except SystemExit as left:
        code = left.code
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.endswith("\n")
    assert "Traceback" not in captured.err
    return captured.err[:-1]


def test_train_evaluate_and_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["train", "temporal-order", *SMALL, "--seed", "3", "--out", str(out)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed[:4]] == ["temporal-order", "0", "20", "40"]
    assert printed[5].startswith("not solved: max_updates after 60 updates")
    assert printed[6] == f"everything is in {out}"
    assert json.loads((out / files.RESULT).read_text())["updates"] == 60
    assert main(["resume", str(out), "--max-updates", "80", "--quiet"]) == 0
    assert "after 80 updates" in capsys.readouterr().out
    assert main(["evaluate", str(out), "--length", "20", "12:14", "--sequences", "100"]) == 0
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["length", "sequences", "wrong", "loss"]
    assert (first.split()[:2], second.split()[:2]) == (["20", "100"], ["12:14", "100"])
    assert main(["evaluate", str(out), "--sequences", "100", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["length"], found["sequences"]) == ([10, 12], 100)


def test_every_setting_of_a_run_has_its_option_and_reaches_the_config() -> None:
    typed = {
        "length": ("60:90", (60, 90)),
        "seed": ("4", 4),
        "batch": ("5", 5),
        "hidden": ("6", 6),
        "nonlinearity": ("relu", "relu"),
        "leak": ("0.5", 0.5),
        "noise": ("0.1", 0.1),
        "init": ("identity", "identity"),
        "optimizer": ("nesterov", "nesterov"),
        "lr": ("0.3", 0.3),
        "momentum": ("0.7", 0.7),
        "threshold": ("auto", "auto"),
        "nonfinite": ("shrink", "shrink"),
        "per": ("parameter", "parameter"),
        "clip_error": ("0.25", 0.25),
        "l1": ("0.001", 0.001),
        "l2": ("0.002", 0.002),
        "truncate": ("30", 30),
        "radius": ("1.1", 1.1),
        "alpha": ("1.5", 1.5),
        "omega": ("program", "program"),
        "lr_schedule": ("half-when-worse", "half-when-worse"),
        "alpha_schedule": ("1/t", "1/t"),
        "epoch": ("77", 77),
        "curriculum": ("12:18", (12, 18)),
        "growth": ("1.4", 1.4),
        "growth_steps": ("7", 7),
        "curriculum_patience": ("33", 33),
        "curriculum_loss": ("0.2", 0.2),
        "curriculum_lost": ("0.9", 0.9),
        "max_updates": ("123", 123),
        "max_seconds": ("45.5", 45.5),
        "check_every": ("11", 11),
        "check_sequences": ("22", 22),
        "test_sequences": ("44", 44),
        "success": ("0.02", 0.02),
        "average": ("10", 10),
        "after_success": ("polish", "polish"),
        "polish": ("0.5", 0.5),
        "backend": ("torch", "torch"),
        "dtype": ("float64", "float64"),
        "threads": ("2", 2),
    }
    others = {"problem", "algorithm", "options", "bias", "network", "path", "ahead", "time_step", "faults", "longest"}
    others |= {"teacher_forcing", "input_scaling", "damping", "structural", "curvature_batch", "latch", "clock"}
    of_data = {"steps", "cost", "epochs", "patience", "dropout", "transpose"}
    assert typed.keys() | others | of_data == Config.model_fields.keys()
    assert options.settings().keys() == Config.model_fields.keys() - {"problem", "algorithm", "path"}
    words = ["train", "addition", "--out", "x", "--algorithm", "sgd-cr", "--option", "criterion=squared"]
    for name, (text, _) in typed.items():
        words += [options.option(name), text]
    config = train.config(parser().parse_args(words))
    assert {name: getattr(config, name) for name in typed} == {name: value for name, (_, value) in typed.items()}
    assert (config.problem, config.options) == ("addition", {"criterion": "squared"})


def test_latch_takes_the_place_of_the_presets_polishing() -> None:
    config = train.config(parser().parse_args(["train", "temporal-order", "--out", "x", "--latch", "0.5"]))
    assert (config.latch, config.after_success) == (0.5, "stop")


def test_a_config_file_is_enough_to_run_again(tmp_path: Path) -> None:
    config = preset("addition", "sgd-c", "program", seed=9)
    (tmp_path / "config.json").write_text(config.to_json())
    words = ["train", "--config", str(tmp_path / "config.json"), "--out", "x"]
    assert train.config(parser().parse_args(words)) == config
    assert train.config(parser().parse_args([*words, "--seed", "2"])) == config.changed(seed=2)


def test_without_a_word_about_it_train_takes_the_steady_preset_with_clipping_and_omega() -> None:
    args = parser().parse_args(["train", "temporal-order", "--out", "x"])
    assert train.config(args) == preset("temporal-order", "sgd-cr", "steady")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["trian"], "steadygrad: command must be one of 'train', .* not 'trian' .did you mean 'train'.."),
        (
            ["train", "temporal-ordr"],
            "steadygrad: problem must be one of .* not 'temporal-ordr' .did you mean 'temporal-order'..",
        ),
        (
            ["train", "addition", "--algorithm", "sgd_c"],
            "algorithm must be one of .* not 'sgd_c' .did you mean 'sgd-c'..",
        ),
        (["train", "addition", "--preset", "papr"], "preset must be one of .* not 'papr' .did you mean 'paper'.."),
        (["train", "addition", "--init", "basic-tanh"], "init must be one of .*did you mean 'basic_tanh'"),
        (["train", "addition", "--length", "200:50"], r"length must be a pair .* low before high, not \(200, 50\)"),
        (
            ["train", "addition", "--length", "5:50"],
            "length must begin at 10 or more, the shortest addition can be, not at 5",
        ),
        (["train", "addition", "--length", "a:b"], "argument --length: must be a length or LOW:HIGH.* not 'a:b'"),
        (["train", "addition", "--lr", "fast"], "argument --lr: invalid float value: 'fast'"),
        (["train", "addition", "--threshold", "low"], "argument --threshold: must be a number or 'auto', not 'low'"),
        (["train", "addition", "--option", "squared"], "argument --option: must be NAME=VALUE"),
        (["train", "addition", "--task-option", "a=b"], "argument --task-option: is now called --option: --option a=b"),
        (
            ["train", "addition", "--option", "a=b"],
            "options must fit .*: an option of addition must be one of 'criterion', not 'a'",
        ),
        (["train", "addition", "--algorithm", "sgd", "--alpha", "2"], "alpha must be 0 with algorithm 'sgd'"),
        (["train", "addition", "--max-up", "5"], "unrecognized arguments: --max-up 5"),
        (["train"], "PROBLEM must be given, or --config FILE"),
        (["train", "--config", "nowhere.json"], "No such file or directory: nowhere.json"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import re

    out = tmp_path / "run"
    said = refused([*words, "--out", str(out)] if words[0] == "train" else words, capsys)
    assert "\n" not in said
    assert re.search(sentence, said), said
    assert not out.exists()


def test_several_faults_are_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(["train", "addition", "--lr", "-1", "--length", "9:5", "--out", str(tmp_path / "x")], capsys)
    assert said.splitlines()[0] == "steadygrad: the config has 2 faults:"
    assert [line.split()[0] for line in said.splitlines()[1:]] == ["length", "lr"]


@pytest.mark.parametrize("command", ["resume", "evaluate"])
def test_a_folder_without_a_run_is_refused(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        said = refused([command, str(folder)], capsys)
        assert said == f"steadygrad: {folder} must be the folder of a run, and holds no config.json"


def test_a_folder_that_holds_another_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    main(["train", "temporal-order", *SMALL, "--quiet", "--out", str(out)])
    capsys.readouterr()
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    said = refused(["train", "temporal-order", *SMALL, "--seed", "2", "--out", str(out)], capsys)
    assert f"{out} holds another run (seed is 2, not 1 here): give another folder" in said
    assert {path: path.read_bytes() for path in before} == before


def test_a_full_disk_is_told_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(storage.os, "fsync", full)
    said = refused(["train", "temporal-order", *SMALL, "--quiet", "--out", str(tmp_path / "run")], capsys)
    assert said == f"steadygrad: cannot write {tmp_path / 'run' / 'config.json'}: No space left on device"


def test_ctrl_c_prints_the_command_that_goes_on_and_exits_with_130(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a run"
    words = ["train", "temporal-order", *SMALL, "--max-updates", "1000000000", "--quiet", "--out", str(out)]
    threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert main(words) == 130
    said = capsys.readouterr().out
    assert said.endswith(f"updates; go on with: steadygrad resume '{out}'\n")
    made = int(max((out / files.CHECKPOINTS).iterdir()).stem)
    assert main(["resume", str(out), "--max-updates", str(made + 20), "--quiet"]) == 0


def test_a_missing_extra_is_named_with_the_line_that_installs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train", "temporal-order", *SMALL, "--quiet", "--out", str(tmp_path / "run")]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    said = refused([*words, "--tensorboard"], capsys)
    assert said == "steadygrad: --tensorboard needs tensorboard: pip install 'steadygrad[tensorboard]'"
    monkeypatch.setitem(sys.modules, "safetensors", None)
    assert refused(words, capsys) == "steadygrad: training needs safetensors: pip install 'steadygrad[train]'"
    assert not (tmp_path / "run").exists()


def test_every_name_that_exists_is_in_the_help_of_train(capsys: pytest.CaptureFixture[str]) -> None:
    from steadygrad import data, init
    from steadygrad.experiments import config, problem
    from steadygrad.experiments.presets import PRESETS
    from steadygrad.recurrence.nonlinearity import NONLINEARITIES
    from steadygrad.recurrence.run import BACKENDS
    from steadygrad.regularizer import CONVENTIONS
    from steadygrad.schedules import OF_LENGTH, SCHEDULES, SCHEDULES_BY_LENGTH

    assert tuple(OF_LENGTH) == SCHEDULES_BY_LENGTH
    assert tasks.names() == config.TASKS
    assert {*config.MUSIC, *config.TEXTS} - {"music", "text"} == data.SOURCES.keys()
    assert problem.UNITS.keys() == {*config.MUSIC, *config.TEXTS}
    registered = {
        "init": [*init.REGISTRY, "uniform", "remember", "chrono"],
        "nonlinearity": NONLINEARITIES,
        "omega": CONVENTIONS,
        "backend": BACKENDS,
        "optimizer": [*config.USUAL_MOMENTUM, "hessian-free"],
        "lr_schedule": [*SCHEDULES, *OF_LENGTH],
        "alpha_schedule": SCHEDULES,
        "network": config.NETWORKS,
        "algorithm": config.ALGORITHMS,
    }
    for name, values in registered.items():
        assert set(config.kind(name)[1]) == set(values), name
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    shown = "".join(capsys.readouterr().out.split())  # argparse breaks lines, at hyphens too
    for value in [*config.PROBLEMS, *PRESETS, *(each for values in registered.values() for each in values)]:
        assert value in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert f"usage: steadygrad {command}" in capsys.readouterr().out


def test_doctor_tells_versions_extras_backend_and_data(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STEADYGRAD_DATA", str(tmp_path))
    monkeypatch.setitem(doctor.EXTRAS, "ray", ("no_such_package",))
    assert main(["doctor"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    told = {line[0]: line[1] for line in lines if len(line) == 2}
    assert told["steadygrad"] == steadygrad.__version__
    assert told["ray"] == "missing no_such_package: pip install 'steadygrad[ray]'"
    assert told["train"].startswith("safetensors ")
    assert told["native"].split()[0] in ("built,", "not")
    assert told["ptb"].endswith("missing")


@pytest.mark.parametrize("module", ["steadygrad", "steadygrad.cli"])
def test_the_program_runs_as_a_module(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"steadygrad {steadygrad.__version__}\n"

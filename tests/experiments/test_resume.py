"""A run that is stopped, killed or finds its checkpoint spoilt goes on to the very same numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from harm import kill_at_random_moments
from same_run import assert_same_run
from steadygrad.experiments import CheckpointError, Config, files, run

PLAIN: dict[str, Any] = {"algorithm": "sgd", "threshold": None, "nonfinite": None, "alpha": 0.0}
TAUGHT: dict[str, Any] = {"problem": "memorization-5bit", "options": {"counted": "all"}, "length": (3, 5)}
TAUGHT |= {"algorithm": "sgd-c", "alpha": 0.0}
VARIANTS: dict[str, dict[str, Any]] = {
    "sgd": {},
    "momentum": {"optimizer": "momentum"},
    "nesterov": {"optimizer": "nesterov", "momentum": 0.8},
    "rmsprop": {"optimizer": "rmsprop", "lr": 0.001},
    "adam": {"optimizer": "adam", "lr": 0.001, "threshold": "auto"},
    "schedules": {"lr_schedule": "half-when-worse", "alpha_schedule": "1/t", "epoch": 7},
    "cosine, linear": {"lr_schedule": "cosine", "alpha_schedule": "linear"},
    "curriculum": {"length": (14, 20), "curriculum": (10, 12), "curriculum_patience": 9, "curriculum_loss": 1.5},
    "1/length": {
        "length": (60, 80),
        "curriculum": (40, 50),
        "curriculum_patience": 9,
        "curriculum_loss": 1.5,
        "lr_schedule": "1/length",
    },
    "lost": {
        "length": (14, 20),
        "curriculum": (10, 12),
        "curriculum_patience": 2,
        "curriculum_loss": 1.37,
        "curriculum_lost": 1.3,
        "optimizer": "momentum",
    },
    "polish": {"success": 0.9, "after_success": "polish", "lr": 0.02},
    "average": {"check_every": 15, "average": 12, "after_success": "polish", "success": 0.9},
    "regression": {"problem": "addition", "dtype": "float64"},
    "penalties": {"l1": 0.001, "l2": 0.01},
    "per entry": {"per": "entry", "threshold": 0.01, "clip_error": 0.001},
    "truncated": {"truncate": 4},
    "noise": {"noise": 0.1},
    "radius": {"radius": 1.1},
    "hessian-free": {**PLAIN, "optimizer": "hessian-free", "structural": 0.1, "batch": 8, "curvature_batch": 4},
    "teacher forcing": {**TAUGHT, "teacher_forcing": 1.0},
    "scheduled sampling": {**TAUGHT, "teacher_forcing": 0.5, "check_every": 15, "average": 12},
    "echo-state": {**PLAIN, "network": "echo-state", "leak": 0.2, "input_scaling": 0.5},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_in_pieces_equals_the_run_in_one(variant: str, small: Config, tmp_path: Path) -> None:
    config = small.changed(max_updates=60, **VARIANTS[variant])
    whole = run(config, tmp_path / "one", progress="none")
    for limit in (1, 33, 40, None):
        result = run(config, tmp_path / "pieces", progress="none", resume=True, max_updates=limit)
    assert (result.updates, result.total_updates, result.error) == (whole.updates, whole.total_updates, whole.error)
    assert_same_run(tmp_path / "one", tmp_path / "pieces")


def test_snapshots_of_the_gradient_are_thinned_alike_in_pieces_and_in_one(small: Config, tmp_path: Path) -> None:
    # ⌈1.015 · 71⌉ = 73: after 71 updates the next is not due at 72
    config = small.changed(max_updates=75, check_every=1, check_sequences=10, test_sequences=20)
    assert run(config, tmp_path / "one", progress="none").updates == 75
    for limit in (71, None):
        run(config, tmp_path / "pieces", progress="none", resume=True, max_updates=limit)
    assert_same_run(tmp_path / "one", tmp_path / "pieces")


def test_a_run_killed_at_random_moments_ends_with_the_same_weights_bit_for_bit(small: Config, tmp_path: Path) -> None:
    config = small.changed(max_updates=900, check_every=50, optimizer="momentum")
    killed = tmp_path / "killed"
    kill_at_random_moments(run, config, killed)
    run(config, killed, progress="none", resume=True)
    run(config, tmp_path / "one", progress="none")
    assert_same_run(killed, tmp_path / "one")


def test_a_run_stopped_before_its_first_update_is_not_checked_twice(small: Config, tmp_path: Path) -> None:
    run(small, tmp_path / "run", progress="none", max_updates=1)
    (tmp_path / "run" / files.RESULT).unlink()
    (tmp_path / "run" / files.CHECKPOINTS / "000000001.safetensors").unlink()
    run(small, tmp_path / "run", progress="none", resume=True)
    run(small, tmp_path / "one", progress="none")
    assert_same_run(tmp_path / "run", tmp_path / "one")


def test_a_run_killed_before_its_first_checkpoint_begins_anew(small: Config, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    (directory / files.CONFIG).write_text(small.to_json())
    (directory / files.METRICS).write_text('{"updates": 0, "lo')
    run(small, directory, progress="none", resume=True)
    run(small, tmp_path / "one", progress="none")
    assert_same_run(directory, tmp_path / "one")


def test_a_run_with_a_verdict_is_not_run_again_unless_its_limit_is_raised(small: Config, tmp_path: Path) -> None:
    result = run(small, tmp_path / "run", progress="none")
    written = (tmp_path / "run" / files.RESULT).stat().st_mtime_ns
    assert run(small, tmp_path / "run", progress="none", resume=True) == result
    assert (tmp_path / "run" / files.RESULT).stat().st_mtime_ns == written
    further = run(small, tmp_path / "run", progress="none", resume=True, max_updates=140)
    assert (further.updates, further.reason) == (140, "max_updates")


def test_only_the_last_two_checkpoints_are_kept(small: Config, tmp_path: Path) -> None:
    for limit in (10, 20, 30, 40):
        run(small, tmp_path / "run", progress="none", resume=True, max_updates=limit)
    kept = sorted(path.name for path in (tmp_path / "run" / files.CHECKPOINTS).iterdir())
    assert kept == ["000000030.safetensors", "000000040.safetensors"]


@pytest.fixture
def stopped(small: Config, tmp_path: Path) -> Path:
    """A run with checkpoints after 30 and 70 updates."""
    for limit in (30, 70):
        run(small, tmp_path / "run", progress="none", resume=True, max_updates=limit)
    return tmp_path / "run"


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _flip_a_weight(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)


def _change_a_counter(path: Path) -> None:
    data = path.read_bytes()
    changed = data.replace(b'\\"updates\\": 70', b'\\"updates\\": 71', 1)
    assert changed != data
    path.write_bytes(changed)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _other_file(path: Path) -> None:
    save_file({"weight": torch.zeros(3)}, path)


SPOILT = {
    _truncate: "truncated or altered",
    _flip_a_weight: "its checksum does not fit",
    _change_a_counter: "its checksum does not fit",
    _empty: "truncated or altered",
    _other_file: "no checkpoint of this version",
}


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_spoilt_checkpoint_is_refused_by_name_and_the_one_before_it_is_used(
    spoil: Any, small: Config, stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    newest = stopped / files.CHECKPOINTS / "000000070.safetensors"
    spoil(newest)
    run(small, stopped, progress="none", resume=True)
    (record,) = caplog.records
    assert f"{newest} is refused" in record.getMessage()
    assert SPOILT[spoil] in record.getMessage()
    run(small, tmp_path / "one", progress="none")
    assert_same_run(stopped, tmp_path / "one")


def test_a_checkpoint_of_another_run_is_refused_by_name(
    small: Config, stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = small.changed(seed=5)
    run(other, tmp_path / "other", progress="none", max_updates=90)
    name = "000000090.safetensors"
    foreign = stopped / files.CHECKPOINTS / name
    foreign.write_bytes((tmp_path / "other" / files.CHECKPOINTS / name).read_bytes())
    run(small, stopped, progress="none", resume=True)
    assert f"{foreign} is refused, it is of another run: here seed is 1, not 5" in caplog.text
    run(small, tmp_path / "one", progress="none")
    assert_same_run(stopped, tmp_path / "one")


def test_where_no_checkpoint_can_be_used_nothing_is_begun_anew(small: Config, stopped: Path) -> None:
    for path in (stopped / files.CHECKPOINTS).iterdir():
        _truncate(path)
    before = (stopped / files.METRICS).read_bytes()
    (stopped / files.RESULT).unlink()
    with pytest.raises(CheckpointError, match=r"000000070.*refused.*000000030.*refused.*no other is left"):
        run(small, stopped, progress="none", resume=True)
    assert (stopped / files.METRICS).read_bytes() == before


def test_a_checkpoint_holds_tensors_and_json_alone(stopped: Path, small: Config) -> None:
    path = stopped / files.CHECKPOINTS / "000000070.safetensors"
    state, written = files.read_checkpoint(path, small), load_file(path)
    tensors = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
    values = {name: value for name, value in state.items() if name not in tensors}
    assert tensors.keys() == written.keys()
    assert json.loads(json.dumps(values)) == values
    assert {name.split(".")[0] for name in tensors} == {"weights", "best", "generator"}
    assert tensors["generator"].dtype == torch.uint8
    assert values["updates"] == 70

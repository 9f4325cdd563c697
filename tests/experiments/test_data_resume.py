"""A run on music or text that is stopped, killed or finds its checkpoint spoilt goes on to the very same numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny import of_music, of_text

from harm import kill_at_random_moments
from same_run import assert_same_run, metrics
from steadygrad.experiments import CheckpointError, Config, files, run
from steadygrad.experiments.learner import Learner

VARIANTS: dict[str, tuple[Callable[..., Config], dict[str, Any]]] = {
    "text, sgd": (of_text, {}),
    "text, adam": (
        of_text,
        {"optimizer": "adam", "lr": 0.01, "threshold": "auto", "lr_schedule": "cosine", "alpha_schedule": "1/t"},
    ),
    "music, momentum": (of_music, {"optimizer": "momentum", "lr_schedule": "half-when-worse", "lr": 2.0}),
    "text, dropout": (of_text, {"dropout": 0.5}),
    "music, transposed": (of_music, {"transpose": 5}),
    "music, noise and dropout": (of_music, {"noise": 0.2, "dropout": 0.5}),
    "music, leaky, float64": (of_music, {"dtype": "float64", "leak": 0.3, "cost": "sum"}),
}


class _Stop(Exception):
    """The process is gone: nothing more is written."""


def stopped_after(updates: int, config: Config, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run until `updates` more were made, with a checkpoint after each, and leave everything as it is then."""
    update = Learner.update
    left = updates

    def counted(self: Learner) -> float:
        nonlocal left
        left -= 1
        if left < 0:
            raise _Stop
        return update(self)

    with monkeypatch.context() as patch:
        patch.setattr("steadygrad.experiments.loop.TICK", 0.0)
        patch.setattr(Learner, "update", counted)
        with pytest.raises(_Stop):
            run(config, directory, progress="none", resume=True, checkpoint_seconds=0.0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_in_pieces_equals_the_run_in_one(
    variant: str, text_path: str, music_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, fields = VARIANTS[variant]
    config = made(text_path if made is of_text else music_path, **fields)
    whole = run(config, tmp_path / "one", progress="none")
    # in the middle of the first epoch, across its end, and in the middle of the second; then after a whole epoch
    for updates in (3, 8, 2):
        stopped_after(updates, config, tmp_path / "pieces", monkeypatch)
    assert run(config, tmp_path / "pieces", progress="none", resume=True, epochs=2).reason == "epochs"
    result = run(config, tmp_path / "pieces", progress="none", resume=True)
    for name in ("train", "valid", "test", "best_epoch", "epochs", "updates", "reason"):
        assert getattr(result, name) == getattr(whole, name), name
    assert_same_run(tmp_path / "one", tmp_path / "pieces")


@pytest.mark.parametrize("kind", ["text", "music"])
def test_a_run_killed_at_random_moments_ends_with_the_same_weights_bit_for_bit(
    kind: str, text_path: str, music_path: str, tmp_path: Path
) -> None:
    small = of_text(text_path) if kind == "text" else of_music(music_path, batch=1)
    config = small.changed(epochs=25, optimizer="momentum", lr_schedule="cosine")
    killed = tmp_path / "killed"
    kill_at_random_moments(run, config, killed)
    run(config, killed, progress="none", resume=True)
    run(config, tmp_path / "one", progress="none")
    assert_same_run(killed, tmp_path / "one")


def test_a_run_killed_before_its_first_checkpoint_begins_anew(text_path: str, tmp_path: Path) -> None:
    config, directory = of_text(text_path), tmp_path / "run"
    directory.mkdir()
    (directory / files.CONFIG).write_text(config.to_json())
    (directory / files.METRICS).write_text('{"epoch": 1, "upd')
    run(config, directory, progress="none", resume=True)
    run(config, tmp_path / "one", progress="none")
    assert_same_run(directory, tmp_path / "one")


def test_a_run_with_a_verdict_is_not_run_again_unless_its_limit_is_raised(text_path: str, tmp_path: Path) -> None:
    config, directory = of_text(text_path), tmp_path / "run"
    result = run(config, directory, progress="none", epochs=2)
    written = (directory / files.RESULT).stat().st_mtime_ns
    assert run(config, directory, progress="none", resume=True, epochs=2) == result
    assert (directory / files.RESULT).stat().st_mtime_ns == written
    assert run(config, directory, progress="none", resume=True).epochs == 3
    assert [line["epoch"] for line in metrics(directory) if line["valid"] is not None] == [1, 2, 3]


def test_a_spoilt_checkpoint_is_refused_by_name_and_the_one_before_it_is_used(
    text_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config, directory = of_text(text_path), tmp_path / "run"
    stopped_after(9, config, directory, monkeypatch)
    _, newest = sorted((directory / files.CHECKPOINTS).iterdir())
    newest.write_bytes(newest.read_bytes()[:-50])
    run(config, directory, progress="none", resume=True)
    assert f"{newest} is refused, it is truncated or altered" in caplog.text
    run(config, tmp_path / "one", progress="none")
    assert_same_run(directory, tmp_path / "one")
    for path in (directory / files.CHECKPOINTS).iterdir():
        path.write_bytes(b"")
    with pytest.raises(CheckpointError, match="no other is left"):
        run(config, directory, progress="none", resume=True, epochs=4)


def test_data_that_changed_since_the_run_was_begun_are_refused(text_path: str, tmp_path: Path) -> None:
    config = of_text(text_path)
    run(config, tmp_path / "run", progress="none", epochs=1)
    text = Path(text_path).read_text()
    Path(text_path).write_text(text.replace("bat", "tab", 1))
    with pytest.raises(ValueError, match=r"rhyme.txt has changed since the run in .* was begun: put it back"):
        run(config, tmp_path / "run", progress="none", resume=True)
    Path(text_path).write_text(text)
    assert run(config, tmp_path / "run", progress="none", resume=True).epochs == 3

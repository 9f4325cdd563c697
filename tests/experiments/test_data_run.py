"""From settings to verdict: what a run on music or text writes, when it stops, and what it keeps."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny import of_music, of_text

from harm import fill_disk
from same_run import assert_same_run, metrics
from steadygrad import experiments
from steadygrad.data import datasets
from steadygrad.experiments import Config, FolderError, Result, files, judges, loop, run
from steadygrad.experiments.display import DataWords, Live, Words, displays


def test_a_text_is_learned_and_the_verdict_is_that_of_the_best_weights(text_path: str, tmp_path: Path) -> None:
    config = of_text(text_path, hidden=20, epochs=12, optimizer="adam", lr=0.02, nonlinearity="tanh", init="orthogonal")
    result = run(config, tmp_path / "run", progress="none")
    assert (result.reason, result.epochs, result.updates) == ("epochs", 12, 12 * 17)
    # 'a rat sat at a bat ' over and over: two bits say which letter follows, were none remembered
    assert result.valid is not None
    assert result.valid < 1
    lines = [line for line in metrics(tmp_path / "run") if line["valid"] is not None]
    assert result.valid == min(line["valid"] for line in lines)
    assert result.best_epoch == min(lines, key=lambda line: line["valid"])["epoch"]
    written = json.loads((tmp_path / "run" / files.RESULT).read_text())
    assert Config.from_dict(written["config"]) == config
    assert Result.read(tmp_path / "run") == result
    assert written["test"] == result.test
    assert result.tokens_per_second > 0


def test_the_data_are_gone_through_once_for_each_epoch_and_not_for_each_update(
    music_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[int] = []
    real = datasets.Music.epoch
    monkeypatch.setattr(datasets.Music, "epoch", lambda self, number: walked.append(number) or real(self, number))
    result = run(of_music(music_path, batch=1), tmp_path / "run", progress="none", epochs=3)
    assert result.updates > 30
    assert sorted(walked) == [
        0,
        1,
        1,
        2,
        3,
        4,
    ]  # the sample; to count the updates of an epoch, which 1 is read once more for


def test_pieces_are_in_other_keys_in_every_epoch_and_as_they_are_in_tests(music_path: str) -> None:
    plain, moved = (datasets.read(of_music(music_path, transpose=keys)) for keys in (0, 5))

    def sums(data: datasets.DataSet, epoch: int) -> torch.Tensor:
        return torch.stack([chunk.targets.sum((0, 1)) for chunk in data.epoch(epoch)]).sum(0)

    assert torch.equal(sums(plain, 1), sums(plain, 2))
    assert torch.equal(sums(moved, 1), sums(moved, 1))
    assert not torch.equal(sums(moved, 1), sums(moved, 2))
    assert sums(moved, 1).sum() == sums(plain, 1).sum()  # no note is lost
    assert moved.checksum() == plain.checksum()
    for split in datasets.SPLITS:
        for chunk, same in zip(plain.whole(split), moved.whole(split), strict=True):
            assert torch.equal(chunk.targets, same.targets)


def test_lines_are_written_within_an_epoch_and_at_its_end(music_path: str, tmp_path: Path) -> None:
    run(of_music(music_path, batch=1), tmp_path / "run", progress="none", epochs=2)
    lines = metrics(tmp_path / "run")
    # 5 pieces in chunks of at most 8 steps: as many updates, and ten lines at even distances
    ends = [line for line in lines if line["valid"] is not None]
    of_epoch = ends[0]["updates"]
    assert 10 < of_epoch <= 20
    due = [epoch * of_epoch + -(-line * of_epoch // 10) for epoch in (0, 1) for line in range(1, 11)]
    assert [line["updates"] for line in lines] == due
    assert [line["epoch"] for line in ends] == [1, 2]
    assert ends[-1] == lines[-1]
    for line in ends:
        assert line["spectral_radius"] > 0
        of_epoch = [each for each in lines if each["epoch"] == line["epoch"]]
        assert min(each["loss"] for each in of_epoch) < line["train"] < max(each["loss"] for each in of_epoch)
        assert line["tokens"] == line["epoch"] * ends[0]["tokens"]
    flow = [json.loads(line) for line in (tmp_path / "run" / files.FLOW).read_text().splitlines()]
    assert [line["updates"] for line in flow] == [line["updates"] for line in ends]
    assert len(flow[0]["eigenvalues"]) == 7


def test_a_run_without_a_better_validation_ends_after_its_patience(
    text_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([3.0, 2.0, 2.1, 2.0, 9.9, 9.9])
    monkeypatch.setattr(judges, "figure", lambda *_: next(found))
    result = run(of_text(text_path, epochs=9, patience=2), tmp_path / "run", progress="none")
    assert (result.reason, result.best_epoch, result.epochs, result.valid) == ("patience", 2, 4, 2.0)
    kept = load_file(tmp_path / "run" / files.WEIGHTS)
    monkeypatch.undo()
    run(of_text(text_path, epochs=9, patience=2), tmp_path / "other", progress="none", epochs=2)
    newest = load_file(max((tmp_path / "other" / files.CHECKPOINTS).iterdir()))
    assert all(torch.equal(tensor, newest[f"weights.{name}"]) for name, tensor in kept.items())


def test_a_limit_of_seconds_ends_a_run_within_an_epoch_and_its_last_weights_count(
    text_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "TICK", 0.0)
    result = run(of_text(text_path), tmp_path / "run", progress="none", max_seconds=1e-9)
    assert (result.reason, result.epochs, result.updates, result.best_epoch) == ("max_seconds", 0, 1, 1)
    assert result.valid == experiments.evaluate(tmp_path / "run", split="valid")["score"]
    run(of_text(text_path), tmp_path / "run", progress="none", resume=True)
    run(of_text(text_path), tmp_path / "one", progress="none")
    assert_same_run(tmp_path / "run", tmp_path / "one")


def test_a_run_that_diverges_ends_with_a_verdict(text_path: str, tmp_path: Path) -> None:
    wild = {"path": text_path, "hidden": 7, "nonlinearity": "relu", "lr": 1e30, "cost": "sum", "steps": 8, "epochs": 2}
    result = run(Config("text", "sgd", **wild), tmp_path / "run", progress="none")
    assert result.reason.startswith("diverged: ")
    assert result.diverged
    assert (result.train, result.valid, result.test, result.best_epoch) == (None, None, None, 0)
    assert json.loads((tmp_path / "run" / files.RESULT).read_text())["reason"] == result.reason
    assert not (tmp_path / "run" / files.WEIGHTS).exists()
    assert run(Config("text", "sgd", **wild), tmp_path / "run", progress="none", resume=True) == result


def test_a_run_that_diverges_late_keeps_its_best_weights(
    text_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([3.0, math.nan, 1.5, 1.6])  # two validations; then training text and test
    monkeypatch.setattr(judges, "figure", lambda *_: next(found))
    result = run(of_text(text_path), tmp_path / "run", progress="none")
    assert result.reason == "diverged: the validation costs nan after 34 updates"
    assert (result.valid, result.train, result.test, result.best_epoch) == (3.0, 1.5, 1.6, 1)
    assert (tmp_path / "run" / files.WEIGHTS).exists()


def test_ctrl_c_ends_a_run_without_a_verdict_and_it_can_be_gone_on_with(text_path: str, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    result = run(of_text(text_path, epochs=1_000_000), tmp_path / "run", progress="none")
    assert (result.reason, result.test) == ("interrupted", None)
    assert signal.getsignal(signal.SIGINT) is before
    assert not (tmp_path / "run" / files.RESULT).exists()
    assert int(max((tmp_path / "run" / files.CHECKPOINTS).iterdir()).stem) == result.updates > 0


def test_ctrl_c_while_the_verdict_is_worked_out_leaves_it_to_the_resumption(
    text_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: judges.ByValidation) -> None:
        self.loop.interrupted = "interrupted"
        raise judges._Stopped

    with monkeypatch.context() as patch:
        patch.setattr(judges.ByValidation, "_pulse", interrupted)
        assert run(of_text(text_path), tmp_path / "run", progress="none").reason == "interrupted"
    assert not (tmp_path / "run" / files.RESULT).exists()
    result = run(of_text(text_path), tmp_path / "run", progress="none", resume=True)
    assert (result.reason, result.updates) == ("epochs", 3 * 17)


def test_a_folder_that_holds_another_run_is_left_alone(text_path: str, tmp_path: Path) -> None:
    config = of_text(text_path)
    run(config, tmp_path / "run", progress="none", epochs=1)
    there = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(FolderError, match="holds this run already"):
        run(config, tmp_path / "run", progress="none")
    with pytest.raises(FolderError, match=r"holds another run .seed is 2, not 1 here."):
        run(config.changed(seed=2), tmp_path / "run", progress="none", resume=True)
    assert {path: path.read_bytes() for path in there} == there
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / files.CONFIG).write_text(Config("addition", "sgd").to_json())
    with pytest.raises(FolderError, match=r"holds another run .*: give another folder"):
        run(config, tmp_path / "task", progress="none", resume=True)


@pytest.mark.parametrize("failing", ["checkpoint", "metrics"])
def test_a_full_disk_is_told_by_file_and_loses_nothing(
    failing: str, text_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, directory = of_text(text_path), tmp_path / "run"
    run(config, directory, progress="none", epochs=2)
    kept = {path.name: path.read_bytes() for path in (directory / files.CHECKPOINTS).iterdir()}

    fill_disk(failing, monkeypatch)
    what = {"checkpoint": "000000051.safetensors", "metrics": "metrics.jsonl"}[failing]
    with pytest.raises(OSError, match=f"cannot write .*{what}: No space left on device"):
        run(config, directory, progress="none", resume=True)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in (directory / files.CHECKPOINTS).iterdir()} == kept
    run(config, directory, progress="none", resume=True)
    run(config, tmp_path / "undisturbed", progress="none")
    assert_same_run(directory, tmp_path / "undisturbed")


def test_the_live_display_shows_epoch_time_left_and_the_last_figures(text_path: str, tmp_path: Path) -> None:
    from rich.console import Console

    config = of_text(text_path)
    run(config, tmp_path / "run", progress="none")
    lines = [json.loads(line) for line in (tmp_path / "run" / files.METRICS).read_text().splitlines()]
    end = next(line for line in lines if line["valid"] is not None)
    file = io.StringIO()
    live = Live(Console(file=file, force_terminal=True, width=200), DataWords(1000, 2.0))
    with live.shown(config, 3000, None, 0):
        live.check(end, None)
        live.tick(1500, 10.0, end["loss"])
        live.tick(1700, 11.0, end["loss"])
    shown = file.getvalue()
    for words in (
        f"text {text_path}, 1 ahead · sgd-cr (norm clipping and Ω), optimizer sgd · 7 units · seed 1",
        "epoch 2 of 3",
        "200 tokens/s",
        "0:06 left at most",  # 1,300 tokens at 200 a second
        f"train {2 * end['loss']:.4f}",
        f"valid {end['valid']:.4f} (best {end['valid']:.4f})",
        f"ρ {end['spectral_radius']:.4f}",
        "rate 0.1",
        "updates/s",
    ):
        assert words in shown


def test_plain_lines_are_printed_for_every_line_of_metrics(
    text_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(of_text(text_path), tmp_path / "run", progress="plain")
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 + len(metrics(tmp_path / "run"))
    assert printed[-1].startswith("epoch   3        51 updates  train ")


def test_tensorboard_gets_the_figures(text_path: str, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(of_text(text_path), tmp_path / "run", progress="none", tensorboard=True)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    ends = [line for line in metrics(tmp_path / "run") if line["valid"] is not None]
    assert [(each.step, each.value) for each in events.Scalars("valid")] == [
        (line["tokens"], pytest.approx(line["valid"], rel=1e-6)) for line in ends
    ]
    assert len(displays(tmp_path, "none", True, Words())) == 2


def test_threads_are_put_back(text_path: str, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    run(of_text(text_path, threads=before + 1), tmp_path / "run", progress="none", epochs=1)
    assert torch.get_num_threads() == before


def test_weights_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    # large enough for torch's own products and sums to split over threads
    path = tmp_path / "text.txt"
    path.write_text("the gradient neither explodes nor vanishes, " * 400)
    for threads in (1, 2):
        config = of_text(str(path), hidden=256, steps=50, epochs=1, threads=threads)
        run(config, tmp_path / f"{threads}", progress="none")
    one, two = (experiments.load(tmp_path / f"{threads}").model.state_dict() for threads in (1, 2))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert experiments.evaluate(tmp_path / "1", layer_threads=2) == experiments.evaluate(tmp_path / "1")

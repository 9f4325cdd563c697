"""What a run shows: the live display, plain lines, TensorBoard, and what the snapshots hold."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from same_run import metrics
from steadygrad.analysis.history import heat_map
from steadygrad.experiments import Config, Network, run
from steadygrad.experiments.display import DataWords, Live, Plain, Words, displays
from steadygrad.experiments.display import words as words_of
from steadygrad.experiments.evaluation import look
from steadygrad.experiments.files import Record
from steadygrad.snapshots import LAGS


def line(**changed: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "updates": 1000,
        "loss": 0.412,
        "error": 0.1234,
        "gradient_norm": 3.1,
        "gradient_norm_max": 412.0,
        "clip_rate": 0.61,
        "omega": 0.0123,
        "spectral_radius": 1.0812,
        "horizon": 140,
        "low": 46,
        "high": 69,
        "updates_per_second": 1210.0,
        "seconds": 61.0,
    }
    return {**shown, **changed}


def test_the_live_display_shows_the_time_left_and_the_last_check(small: Config) -> None:
    file = io.StringIO()
    live = Live(Console(file=file, force_terminal=True, width=160))
    seen: Any = None
    with live.shown(small, 10_000, None, 0):
        live.check(line(), seen)
        live.tick(1000, 10.0, 0.5)
        live.tick(2000, 12.0, 0.5)
    shown = file.getvalue()
    for words in (
        "temporal-order · sgd-cr (norm clipping and Ω), optimizer sgd · length 10–12 · seed 1",
        "2,000 of 10,000 updates",
        "500/s",
        "0:16 left at most",  # 8,000 updates at 500 a second
        "wrong 12.34 %",
        "‖g‖ 3.1 (max 4.1e+02)",
        "clipped 61 %",
        "Ω 0.012",
        "ρ 1.081",
        "horizon 140",
        "length 46–69",
    ):
        assert words in shown


def test_a_line_of_a_data_set_tells_epoch_scores_and_speed() -> None:
    shown = {"epoch": 3, "updates": 1200, "train": 1.5, "valid": None, "gradient_norm": 2.0, "clip_rate": 0.5}
    shown |= {"omega": 0.01, "spectral_radius": None, "lr": 0.01, "updates_per_second": 9.5}
    shown |= {"tokens_per_second": 41200.0, "seconds": 61}
    assert DataWords(1000, 1.0).text(shown).startswith("epoch   3     1,200 updates  train 1.5000  valid –   ")
    assert Words().text(line(loss=0.5, error=0.25)).startswith("   1,000 updates  loss 0.5     wrong  25.00 %  ‖g‖ 3.1")


SAID = (
    "clipped every update: the threshold 0.5 is below the usual gradient norm 3.1, so an update goes by the gradient's "
    "direction and not by its norm"
)


def test_that_every_update_is_clipped_is_explained_once(small: Config, capsys: pytest.CaptureFixture[str]) -> None:
    every = {**line(), "clip_rate": 1.0}
    plain = Plain(Words(0.5))
    for each in (line(), every, every):
        plain.check(each, None)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 4
    assert printed[2] == SAID  # after the first line with 100 %

    file = io.StringIO()
    live = Live(Console(file=file, force_terminal=True, width=160), Words(0.5))
    with live.shown(small, 10_000, None, 0):
        live.check(every, None)
        live.check(every, None)
    assert file.getvalue().count(SAID) == 1


@pytest.mark.parametrize("threshold", [0.5, "auto"])
def test_a_threshold_that_adapts_needs_no_explanation(small: Config, threshold: Any) -> None:
    text = words_of(small.changed(threshold=threshold), None)
    assert text.remark({**line(), "clip_rate": 1.0}) == (SAID if threshold == 0.5 else "")
    assert text.remark({**line(), "clip_rate": 1.0, "gradient_norm": None}) == ""  # where no norm was finite


def test_the_time_left_is_the_shorter_of_both_limits(small: Config) -> None:
    file = io.StringIO()
    live = Live(Console(file=file, force_terminal=True, width=160))
    with live.shown(small, 10_000, 15.0, 0):
        live.tick(1000, 10.0, 0.5)
        live.tick(2000, 12.0, 0.5)
    assert "0:03 left at most" in file.getvalue()


def shown_by(progress: str) -> type:
    (shown,) = displays(Path(), progress, False, Words())
    return type(shown)


def test_a_terminal_gets_the_live_display_and_a_pipe_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_by("auto") is Plain
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert shown_by("auto") is Live
    assert shown_by("plain") is Plain


def test_without_rich_a_terminal_gets_plain_lines_and_is_told_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setitem(__import__("sys").modules, "rich.live", None)
    assert shown_by("auto") is Plain
    assert "pip install 'steadygrad[train]'" in caplog.text


def test_plain_progress_is_one_line_for_each_check(
    small: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(small.changed(threshold=100.0), tmp_path / "run", progress="plain", max_updates=40)  # clips nothing
    printed = capsys.readouterr().out.splitlines()
    lines = metrics(tmp_path / "run")
    assert printed[0].startswith("temporal-order · sgd-cr (norm clipping and Ω), optimizer sgd")
    assert len(printed[1:]) == len(lines) == 3
    for text, each in zip(printed[1:], lines, strict=True):
        assert text.split()[:2] == [str(each["updates"]), "updates"]
        assert f"wrong {100 * each['error']:6.2f} %" in text
        assert f"ρ {each['spectral_radius']:.3f}" in text


def test_a_snapshot_equals_norms_and_eigenvalues_worked_out_by_autograd() -> None:
    network = Network(Config("temporal-order", "sgd", (20, 20), hidden=5, batch=3, dtype="float64"))
    seen = look(network, 20, torch.Generator().manual_seed(4))
    batch = network.problem.sample(3, 20, torch.Generator().manual_seed(4))
    W, U, b = (getattr(network.rnn, name).detach() for name in ("weight_hh_l0", "weight_ih_l0", "bias_ih_l0"))
    h = torch.zeros(3, 5, dtype=torch.float64)
    states = []
    for token in batch.inputs:
        x = (U.T[token] + h @ W.T + b).requires_grad_()
        states.append(x)
        h = torch.tanh(x)
    loss = network.problem.loss(network.readout(h).unsqueeze(0), batch)
    norms = torch.stack([g.norm(dim=1).mean() for g in torch.autograd.grad(loss, states)]).flip(0)
    # four digits are kept
    assert seen.norms == pytest.approx((norms / norms[0]).tolist(), rel=1e-3)
    assert seen.spectral_radius == pytest.approx(float(torch.linalg.eigvals(W).abs().max()), rel=1e-12)
    assert len(seen.eigenvalues) == 5
    assert all(parameter.grad is None for parameter in network.parameters())


def test_a_snapshot_of_a_long_sequence_is_thinned_to_200_lags() -> None:
    network = Network(Config("temporal-order", "sgd", hidden=4, batch=2))
    seen = look(network, 1001, torch.Generator())
    assert (seen.stride, seen.steps) == (6, 1001)
    assert len(seen.norms) == math.ceil(1001 / 6) <= LAGS


def test_snapshots_become_rarer_as_a_run_gets_long(tmp_path: Path) -> None:
    record = Record(tmp_path)
    network = Network(Config("temporal-order", "sgd", hidden=4, batch=2))
    seen = look(network, 12, torch.Generator())
    for updates in range(0, 5_000_000, 1000):
        record.snapshot(updates, seen)
    record.close()
    assert 200 < len((tmp_path / "flow.jsonl").read_text().splitlines()) < 400


def test_the_heat_map_is_brighter_where_the_error_is_larger_and_black_where_there_is_none() -> None:
    picture = heat_map([[1.0, 1e-2, 1e-4, 0.0], [1e2, 1.0]]).astype(int).sum(-1)
    assert list(picture[:, 0]) == sorted(picture[:, 0], reverse=True)
    assert picture[0, 1] > picture[0, 0]
    assert picture[3, 0] > 0
    assert picture[2:, 1].tolist() == [0, 0]
    assert heat_map([[None, 1.0]]).shape == (2, 1, 3)
    assert heat_map([[1.0]]).dtype == np.uint8


def test_tensorboard_gets_scalars_and_the_heat_map(small: Config, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for limit in (30, 100):
        run(small, tmp_path / "run", progress="none", resume=True, max_updates=limit, tensorboard=True)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    lines = metrics(tmp_path / "run")
    written = [(event.step, event.value) for event in events.Scalars("error")]
    # TensorBoard keeps float32
    assert written == [(each["updates"], pytest.approx(each["error"], rel=1e-6)) for each in lines]
    assert events.Images("gradient flow (lag × updates)")


def test_tensorboard_is_refused_in_one_sentence_where_it_is_missing(
    small: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match=r"pip install 'steadygrad\[tensorboard\]'"):
        displays(tmp_path, "none", True, Words())


def test_a_snapshot_shows_what_becomes_of_one_error_where_errors_arise_at_every_step() -> None:
    options = {"predict": "all"}
    network = Network(
        Config("random-permutation", "sgd", (20, 20), hidden=5, batch=3, dtype="float64", options=options)
    )
    with torch.no_grad():
        network.rnn.weight_hh_l0.copy_(0.5 * torch.eye(5))
    seen = look(network, 20, torch.Generator().manual_seed(4))
    # W_rec halves an error in every step, and tanh' is at most 1: new errors at every step would keep the norm up
    assert all(later <= 0.5 * sooner for sooner, later in zip(seen.norms, seen.norms[1:], strict=False))


def test_the_flow_of_a_data_set_is_that_of_an_error_at_the_last_step(tmp_path: Path) -> None:
    import json

    (tmp_path / "abc.txt").write_text("abcab" * 200)
    units = {"nonlinearity": "tanh", "init": "basic_tanh", "hidden": 5}
    config = Config("text", "sgd", path=tmp_path / "abc.txt", steps=20, batch=4, lr=1e-9, epochs=1, **units)
    run(config, tmp_path / "run", progress="none")
    (line,) = [json.loads(each) for each in (tmp_path / "run" / "flow.jsonl").read_text().splitlines()]
    assert len(line["norms"]) == 20
    # W_rec is drawn from N(0, 0.1²) for 5 units: its norm is well below ½, and so is every ratio of neighbours
    assert all(later < 0.5 * sooner for sooner, later in zip(line["norms"], line["norms"][1:], strict=False))

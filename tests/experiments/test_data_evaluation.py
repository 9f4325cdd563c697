"""Figures of merit against a loop over single steps, and the data they are read from."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import TEXT, of_music, of_text
from torch.nn.functional import logsigmoid

from steadygrad import data, experiments
from steadygrad.data import DataError, datasets
from steadygrad.data.datasets import read as open_corpus
from steadygrad.experiments import Config, FolderError, Network, files
from steadygrad.experiments.evaluation import figure


@pytest.mark.parametrize("ahead", [1, 5])
def test_bits_a_character_are_those_of_one_stream_read_step_by_step(
    text_path: str, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "TEST_STEPS", 50)
    config = of_text(text_path, ahead=ahead, dtype="float64", init="basic_tanh")
    read = open_corpus(config)
    network = Network(config, read)
    tokens = data.text_file(text_path).valid
    bits, state = 0.0, None
    with torch.no_grad():
        for t in range(len(tokens) - ahead):
            y, state = network(tokens[t].view(1, 1), state)
            bits -= (torch.log_softmax(y[0, 0], 0)[tokens[t + ahead]] / math.log(2)).item()
    assert len(tokens) == 120 > 2 * 50
    assert figure(network, read, "valid") == pytest.approx(bits / (len(tokens) - ahead), rel=1e-12)


def test_nats_a_step_are_those_of_whole_pieces_read_one_by_one(
    music_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "TEST_STEPS", 8)
    monkeypatch.setattr(datasets, "SIDE_BY_SIDE", 3)
    config = of_music(music_path, dtype="float64", init="basic_tanh")
    read = open_corpus(config)
    network = Network(config, read)
    pieces = data.midi_folder(music_path, step=0.25, valid=0.05, test=0.05).train
    nats, steps = 0.0, 0
    with torch.no_grad():
        for piece in pieces:
            notes, state = piece.double(), None
            for t in range(len(notes)):
                before = notes[t - 1] if t else torch.zeros(88, dtype=torch.float64)
                y, state = network(before.view(1, 1, 88), state)
                p = torch.where(notes[t] == 1, logsigmoid(y[0, 0]), logsigmoid(-y[0, 0]))
                nats -= p.sum().item()
                steps += 1
    assert steps == read.predictions("train") > 5 * 8
    assert figure(network, read, "train") == pytest.approx(nats / steps, rel=1e-12)


def test_the_users_text_and_music_are_split_90_5_5(text_path: str, music_path: str) -> None:
    read = open_corpus(of_text(text_path))
    n = len(TEXT)
    assert [read.predictions(split) + 1 for split in ("train", "valid", "test")] == [
        n - 2 * (n // 20),
        n // 20,
        n // 20,
    ]
    music = data.midi_folder(music_path, step=0.25, valid=0.05, test=0.05)
    assert [pieces for pieces, _ in music.counts.values()] == [5, 1, 1]
    own = open_corpus(of_music(music_path))
    assert [own.predictions(split) for split in music.counts] == [steps for _, steps in music.counts.values()]


def test_evaluate_is_the_figure_of_the_best_weights_and_load_needs_no_data(text_path: str, tmp_path: Path) -> None:
    config = of_text(text_path)
    result = experiments.run(config, tmp_path / "run", progress="none")
    for split in ("train", "valid", "test"):
        assert experiments.evaluate(tmp_path / "run", split=split)["score"] == getattr(result, split)
    with pytest.raises(ValueError, match="split must be one of 'train', 'valid', 'test', not 'tset'"):
        experiments.evaluate(tmp_path / "run", split="tset")
    Path(text_path).write_text(TEXT[:-1] + "y")
    with pytest.raises(FolderError, match=r"rhyme.txt has changed since the run in .* was begun"):
        experiments.evaluate(tmp_path / "run")
    Path(text_path).unlink()
    with pytest.raises(DataError, match=r"cannot read .*rhyme.txt"):
        experiments.evaluate(tmp_path / "run")
    trained = experiments.load(tmp_path / "run")
    assert (trained.config, trained.symbols) == (config, sorted(set(TEXT)))
    assert trained.model.readout.out_features == len(trained.symbols or [])


def test_a_model_of_music_has_no_symbols(music_path: str, tmp_path: Path) -> None:
    experiments.run(of_music(music_path), tmp_path / "run", progress="none", epochs=1)
    assert experiments.load(tmp_path / "run").symbols is None


def test_a_folder_that_was_not_trained_in_is_refused(text_path: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"must be the folder of a run, and holds no config.json"):
        experiments.load(tmp_path)
    (tmp_path / files.CONFIG).write_text(of_text(text_path).to_json())
    with pytest.raises(FileNotFoundError, match=r"data.json is not there: the run has not begun"):
        experiments.load(tmp_path)
    (tmp_path / files.DATA).write_text("{}")
    with pytest.raises(ValueError, match=r"data.json does not tell what the run was trained on .KeyError."):
        experiments.load(tmp_path)
    (tmp_path / files.DATA).write_text('{"width": 9, "symbols": null, "sha256": ""}')
    with pytest.raises(FileNotFoundError, match=r"weights.safetensors is not there"):
        experiments.load(tmp_path)


@pytest.mark.parametrize(
    ("content", "fields", "error", "sentence"),
    [
        (b"", {}, DataError, "is too short: of its 0 characters fewer than 2 fall to train and valid and test"),
        (b"short", {}, DataError, "is too short: of its 5 characters"),
        (b"\xff\xfe latin", {}, DataError, "is not UTF-8 text"),
        (b"ab" * 50, {"ahead": 9}, ValueError, "ahead must be below the 5 characters that own has for valid, not 9"),
        (b"ab" * 50, {"batch": 99}, ValueError, "batch must be at most 89, the predictions in own, not 99"),
        (None, {}, DataError, "cannot read .*own.txt: No such file or directory"),
    ],
)
def test_a_text_that_cannot_be_learned_from_is_refused_in_one_sentence(
    content: bytes | None, fields: dict[str, Any], error: type[Exception], sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "own.txt"
    if content is not None:
        path.write_bytes(content)
    config = Config("text", "sgd", path=str(path), **fields)
    with pytest.raises(error, match=sentence):
        experiments.run(config, tmp_path / "run", progress="none")
    assert not (tmp_path / "run").exists()


def test_music_that_cannot_be_learned_from_is_refused_in_one_sentence(music_path: str, tmp_path: Path) -> None:
    mido = pytest.importorskip("mido")

    def refused(path: Path, sentence: str) -> None:
        with pytest.raises(DataError, match=sentence):
            experiments.run(Config("music", "sgd", path=str(path)), tmp_path / "run", progress="none")
        assert not (tmp_path / "run").exists()

    empty = tmp_path / "empty"
    refused(empty, "empty is not a folder")
    empty.mkdir()
    refused(empty, "empty holds 0 usable MIDI files, and its parts need at least 3")
    mido.MidiFile(tracks=[mido.MidiTrack()]).save(str(Path(music_path) / "silence.mid"))
    refused(Path(music_path), "1 of 8 MIDI files cannot be used .*silence.mid holds no notes")


def test_a_data_set_that_is_not_there_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEADYGRAD_DATA", str(tmp_path / "nowhere"))

    def unreachable(*arguments: Any, **options: Any) -> Any:
        raise OSError("no network here")

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    with pytest.raises(DataError, match=r"JSB_Chorales.mat"):
        experiments.run(Config("jsb", "sgd"), tmp_path / "run", progress="none")
    assert not (tmp_path / "run").exists()

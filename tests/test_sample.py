"""Sampling: every step is the whole model's prediction, draws follow its probabilities, and `steadygrad sample` writes them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from steadygrad import cli, data, experiments
from steadygrad.data.sampling import sample_music, sample_text
from steadygrad.experiments import Config, Network, Trained

SYMBOLS = ["\n", " ", "a", "b", "c"]


def model(name: str, width: int, **other: Any) -> Network:
    """A network whose weights are large enough that its predictions depend on what came long ago."""
    sizes = SimpleNamespace(input_size=width, output_size=width)
    units = {"nonlinearity": "sigmoid", "init": "sigmoid", "hidden": 12}
    network = Network(Config(name, "sgd", **units, dtype="float64", **other), sizes)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 1, generator=generator)
    return network


def of_text(**other: Any) -> Trained:
    network = model("ptb", len(SYMBOLS), **other)
    return Trained(network.config, network, SYMBOLS)


def of_music() -> Trained:
    network = model("jsb", 88)
    return Trained(network.config, network, None)


def constant(trained: Trained, logits: torch.Tensor) -> Trained:
    """The same with predictions that are always `logits`."""
    with torch.no_grad():
        trained.model.readout.weight.zero_()
        trained.model.readout.bias.copy_(logits)
    return trained


@pytest.mark.parametrize("ahead", [1, 3])
@pytest.mark.parametrize("prompt", ["", "ab", "cabba c"])
def test_the_most_likely_text_equals_reading_all_of_it_anew_for_every_character(ahead: int, prompt: str) -> None:
    trained = of_text(ahead=ahead)
    lead = "\n" * max(0, ahead - len(prompt))
    s = lead + prompt
    for _ in range(30):
        tokens = torch.tensor([SYMBOLS.index(each) for each in s])[: len(s) + 1 - ahead]
        with torch.no_grad():
            logits, _ = trained.model(tokens.unsqueeze(1))
        s += SYMBOLS[int(logits[-1, 0].argmax())]
    assert sample_text(trained, 30, temperature=0, prompt=prompt) == s[len(lead + prompt) :]
    assert len(set(s)) > 2  # not one character over and over, which a wrong state would give as well


@pytest.mark.parametrize("given", [0, 7])
def test_the_most_likely_music_equals_reading_all_of_it_anew_for_every_step(given: int) -> None:
    trained = of_music()
    prompt = torch.bernoulli(torch.full((given, 88), 0.1), generator=torch.Generator().manual_seed(0))
    u = torch.cat([torch.zeros(1, 88), prompt]).double()
    for _ in range(20):
        with torch.no_grad():
            logits, _ = trained.model(u.unsqueeze(1))
        u = torch.cat([u, (logits[-1] > 0).double()])
    roll = sample_music(trained, 20, temperature=0, prompt=prompt if given else None)
    assert roll.dtype == torch.uint8
    assert torch.equal(roll.double(), u[1 + given :])
    assert not torch.equal(roll[0], roll[1])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_characters_are_drawn_as_often_as_the_softmax_of_the_logits_over_the_temperature_says(
    temperature: float,
) -> None:
    logits = torch.tensor([0.0, 1.0, -1.0, 0.5, 2.0], dtype=torch.float64)
    n = 4000
    text = sample_text(constant(of_text(), logits), n, temperature=temperature, seed=1)
    p = torch.softmax(logits / temperature, 0)
    found = torch.tensor([text.count(symbol) / n for symbol in SYMBOLS])
    # four standard deviations of a share of n draws: beyond them is one seed in three thousand
    assert bool(((found - p).abs() < 4 * (p * (1 - p) / n).sqrt()).all())


def test_keys_are_drawn_each_by_itself_as_often_as_the_sigmoid_of_their_logits_over_the_temperature_says() -> None:
    logits = torch.linspace(-3, 3, 88, dtype=torch.float64)
    n = 2000
    roll = sample_music(constant(of_music(), logits), n, temperature=1.5, seed=2).double()
    p = torch.sigmoid(logits / 1.5)
    # 88 shares at once: five standard deviations
    assert bool(((roll.mean(0) - p).abs() < 5 * (p * (1 - p) / n).sqrt()).all())
    together = (roll[:, 40] * roll[:, 41]).mean()
    assert float(together) == pytest.approx(float(p[40] * p[41]), abs=5 * 0.5 / n**0.5)


def test_a_temperature_near_0_is_as_0_and_never_fails() -> None:
    trained, tune = of_text(), of_music()
    for tiny in (1e-9, 1e-300):
        assert sample_text(trained, 40, temperature=tiny) == sample_text(trained, 40, temperature=0)
        assert torch.equal(sample_music(tune, 10, temperature=tiny), sample_music(tune, 10, temperature=0))


def test_the_same_seed_gives_the_same_sample_and_another_another() -> None:
    trained = of_text()
    assert sample_text(trained, 50, seed=4) == sample_text(trained, 50, seed=4) != sample_text(trained, 50, seed=5)
    before = torch.random.get_rng_state()
    sample_music(of_music(), 3)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_what_is_wrong_is_named() -> None:
    trained = of_text()
    with pytest.raises(ValueError, match=r"^prompt must hold only .* \(5 of them\), not 'X', 'é'$"):
        sample_text(trained, 5, prompt="aXbéX")
    for name, value in {"length": 0, "temperature": -0.5, "seed": -1}.items():
        with pytest.raises(ValueError, match=f"^{name} must be "):
            sample_text(trained, **{"length": 5, name: value})
    with pytest.raises(ValueError, match=r"^trained must be a model of music, not one of text"):
        sample_music(trained, 5)
    with pytest.raises(ValueError, match=r"^trained must be a model of text, not one of music"):
        sample_text(of_music(), 5)
    with pytest.raises(ValueError, match=r"^prompt must be \[steps, 88\] of zeros and ones, not \[3, 12\]$"):
        sample_music(of_music(), 5, prompt=torch.zeros(3, 12))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny run on text and one on music."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "abba.txt").write_text("abba baab\n" * 60, encoding="utf-8")
    small: dict[str, Any] = {"hidden": 6, "steps": 20, "batch": 2, "epochs": 1}
    experiments.run(
        experiments.preset("text", path=str(folder / "abba.txt"), **small), folder / "text", progress="none"
    )
    (folder / "tunes").mkdir()
    for key in range(4):
        data.write_midi(torch.eye(88)[key : key + 30], folder / "tunes" / f"{key}.mid")
    music = experiments.preset("music", path=str(folder / "tunes"), time_step=0.5, **small)
    experiments.run(music, folder / "music", progress="none")
    return folder


def test_the_command_writes_text_to_standard_output_or_to_a_file(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sample", str(runs / "text"), "--length", "40", "--prompt", "abba", "--seed", "3", "--temperature", "0.8"]
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    written = sample_text(experiments.load(runs / "text"), 40, temperature=0.8, seed=3, prompt="abba")
    assert said == f"abba{written}" + ("" if written.endswith("\n") else "\n")
    assert cli.main([*words, "--out", str(tmp_path / "a.txt")]) == 0
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == f"abba{written}"
    assert capsys.readouterr().out == f"{tmp_path / 'a.txt'}\n"


def test_the_command_writes_a_midi_file_that_reads_back_to_the_roll(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sample", str(runs / "music"), "--length", "12", "--temperature", "3"]
    assert cli.main(words) == 0
    assert capsys.readouterr().out == f"{runs / 'music' / 'sample.mid'}\n"
    roll = sample_music(experiments.load(runs / "music"), 12, temperature=3)
    # The model's step is half a second.
    assert torch.equal(data.read_midi(runs / "music" / "sample.mid", 0.5).roll, roll)
    out, prompt = tmp_path / "go.mid", runs / "tunes" / "1.mid"
    assert cli.main([*words, "--prompt", str(prompt), "--out", str(out)]) == 0
    opening = data.read_midi(prompt, 0.5).roll
    after = sample_music(experiments.load(runs / "music"), 12, temperature=3, prompt=opening)
    assert torch.equal(data.read_midi(out, 0.5).roll, torch.cat([opening, after]))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "text --prompt abXba",
            "prompt must hold only characters that the model has seen in training (4 of them), not 'X'",
        ),
        ("text --temperature -1", "temperature must be a finite number of at least 0, not -1.0"),
        ("text --length 0", "length must be a whole number of at least 1, not 0"),
        ("text --seed -2", "seed must be a whole number of at least 0, not -2"),
        ("text --out tune.mid", "--out must be a text file, not tune.mid: "),
        ("music --out tune.txt", "--out must end in .mid, not be tune.txt: "),
        ("music --prompt nowhere.mid", "cannot read nowhere.mid: No such file or directory"),
        ("nowhere", "must be the folder of a run, and holds no config.json"),
    ],
)
def test_bad_words_are_one_sentence_and_exit_code_2_and_nothing_is_written(
    words: str, sentence: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    run, *rest = words.split()
    assert cli.main(["sample", str(runs / run), *rest]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert sentence in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_run_on_a_task_has_nothing_to_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from steadygrad.experiments import Config

    (tmp_path / "config.json").write_text(Config("addition", "sgd").to_json())
    assert cli.main(["sample", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said == f"steadygrad: {tmp_path} must be the folder of a run on text or music, and holds one on addition\n"

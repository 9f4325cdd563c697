"""A problem of one's own, as docs/problems.md has it: trained, resumed, tested, swept and reported like any other."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import settings_page
import torch

from harm import kill_at_random_moments
from same_run import assert_same_run
from steadygrad import experiments, sweep
from steadygrad.cli import main
from steadygrad.experiments import Config, ConfigError, Network, preset, run

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = re.findall(r"```python\n(.*?)```", (DOCS / "problems.md").read_text(encoding="utf-8"), re.DOTALL)
FEW: dict[str, Any] = {"check_every": 20, "check_sequences": 50, "test_sequences": 100, "hidden": 6}
WORDS = [
    "--length",
    "4:6",
    "--hidden",
    "6",
    "--check-every",
    "20",
    "--check-sequences",
    "50",
    "--test-sequences",
    "100",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of the documentation."""
    path = tmp_path / "my_problem.py"
    path.write_text(BLOCKS[0], encoding="utf-8")
    return path


def loaded(path: Path) -> Any:
    """The file as a user imports it."""
    spec = importlib.util.spec_from_file_location("my_problem", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["my_problem"] = module
    spec.loader.exec_module(module)
    return module


def test_the_worked_example_is_a_problem_of_at_most_forty_lines() -> None:
    assert len(BLOCKS[0].splitlines()) <= 40


def test_the_python_of_the_documentation_runs_as_it_stands(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_problem", raising=False)
    # what the lines of shell above it leave in the same folder
    assert main(["train", "my_problem.py:Parity", *WORDS, "--max-updates", "20", "--out", "runs/parity"]) == 0
    exec(compile(BLOCKS[1], "problems.md", "exec"), {})
    assert re.search(r"^(True|False) [\d.]+$", capsys.readouterr().out, re.MULTILINE)
    monkeypatch.delitem(sys.modules, "my_problem", raising=False)


def test_it_is_trained_resumed_evaluated_drawn_and_reported_from_the_command_line(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    assert main(["train", f"{file}:Parity", *WORDS, "--max-updates", "20", "--option", "ones=0.3", "--out", out]) == 0
    assert capsys.readouterr().out.startswith(
        "Parity · sgd-cr (norm clipping and Ω), optimizer adam · length 4–6 · seed 1"
    )
    assert main(["resume", out, "--max-updates", "40", "--quiet"]) == 0
    assert main(["evaluate", out, "--length", "8", "--sequences", "50"]) == 0
    config = experiments.read_config(out)
    assert (config.problem, config.options) == (f"{file}:Parity", {"ones": 0.3})
    pytest.importorskip("matplotlib")
    assert main(["flow", out]) == 0
    assert main(["report", out]) == 0
    assert "Parity, 4–6 steps" in (tmp_path / "run" / "index.html").read_text(encoding="utf-8")


def test_it_is_swept_on_workers_that_load_it_from_its_file(file: Path, tmp_path: Path) -> None:
    grid = sweep.Grid.product(
        "own", problems=[f"{file}:Parity"], lengths=[(4, 6)], algorithms=["sgd", "sgd-cr"], presets=["steady"],
        test_lengths=[8], max_updates=20, after_success="stop", **FEW,
    )  # fmt: skip
    assert [cell.id for cell in grid.cells] == ["Parity_4-6_sgd_steady_seed1", "Parity_4-6_sgd-cr_steady_seed1"]
    outcomes = sweep.run(grid, tmp_path / "out", progress="none")
    assert [outcome.status for outcome in outcomes] == ["finished", "finished"]
    records = sweep.collect(tmp_path / "out")
    assert {record["problem"] for record in records} == {f"{file}:Parity"}
    assert all(set(record["generalisation"]) == {"8"} for record in records)


def test_a_class_is_taken_in_place_of_a_name_and_killed_runs_resume_bit_for_bit(file: Path, tmp_path: Path) -> None:
    Parity = loaded(file).Parity
    config = preset(
        Parity, "sgd-cr", "steady", length=(4, 6), max_updates=400, after_success="stop", success=0.0, **FEW
    )
    assert config.problem == f"{file}:Parity"
    assert run(Parity, config, tmp_path / "one", progress="none").total_updates <= 400
    kill_at_random_moments(run, config, tmp_path / "killed")
    run(config, tmp_path / "killed", progress="none", resume=True)
    assert_same_run(tmp_path / "one", tmp_path / "killed")
    del sys.modules["my_problem"]


def test_a_loss_of_ones_own_goes_through_autograd(file: Path, tmp_path: Path) -> None:
    source = (
        BLOCKS[0]
        + '''
    def loss(self, outputs, batch):
        return 3 * super().loss(outputs, batch)


class Plain:
    """No base class: only what is needed."""

    input_size, output_size = 2, 2

    def sample(self, batch, length, generator):
        return Parity().sample(batch, length, generator)

    def loss(self, outputs, batch):
        return 3 * torch.nn.functional.cross_entropy(outputs[0], batch.targets[0])

    def is_correct(self, outputs, batch):
        return outputs[0].argmax(-1) == batch.targets[0]
'''
    )
    file.write_text(source, encoding="utf-8")
    for name in ("Parity", "Plain"):
        network = Network(Config(f"{file}:{name}", "sgd", (4, 6), hidden=5, dtype="float64"))
        batch = network.problem.sample(7, 5, torch.Generator().manual_seed(1))
        expected = torch.autograd.grad(
            3 * torch.nn.functional.cross_entropy(network.answers(batch)[0], batch.targets[0]),
            [parameter for _, parameter in network.trained()],
        )
        network.backward(batch)
        for (_, parameter), gradient in zip(network.trained(), expected, strict=True):
            torch.testing.assert_close(parameter.grad, gradient)
    few = {**FEW, "max_updates": 20}
    result = run(Config(f"{file}:Plain", "sgd", (4, 6), **few), tmp_path / "plain", progress="none")
    assert (result.updates, result.errors.keys()) == (20, {"wrong"})


def test_a_data_set_of_ones_own_is_read_in_epochs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tides.py"
    file.write_text(BLOCKS[2], encoding="utf-8")
    config = preset(f"{file}:Tides", "sgd-cr", "steady", hidden=6, batch=4, epochs=2, lr=0.02)
    result = run(config, tmp_path / "run", progress="none")
    assert (result.reason, result.epochs, result.solved) == ("epochs", 2, None)
    found = experiments.evaluate(tmp_path / "run")
    assert (found["score"], found["unit"]) == (result.test, "nats/step")
    # uniform guessing costs log 4; the series is periodic
    assert result.test is not None
    assert result.test < 1.38
    assert main(["sample", str(tmp_path / "run")]) == 2
    assert "run must be the folder of a run on text or music, and holds one on Tides" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere.py:Parity", "problem must name a file, and .*nowhere.py is none"),
        ("my_problem.py:Party", r"problem must be a class in .*my_problem.py \(Parity\), not 'Party'"),
        ("broken.py:A", r"problem cannot be loaded from .*broken.py \(ZeroDivisionError: division by zero\)"),
        ("empty.py:A", "problem A must have input_size, output_size, loss, is_correct: see docs/problems.md"),
    ],
)
def test_a_problem_that_cannot_be_used_is_refused_in_one_sentence(
    name: str, sentence: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "empty.py").write_text("class A:\n    def sample(self): ...\n")
    assert main(["train", str(tmp_path / name), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert re.search(sentence, said), said
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_options_of_the_class_are_checked(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"options must be those of Parity .*unexpected keyword argument 'one'"):
        Config(f"{file}:Parity", "sgd", options={"one": 1})
    with pytest.raises(ConfigError, match="length must begin at 2 or more, the shortest Parity can be, not at 1"):
        Config(f"{file}:Parity", "sgd", (1, 5))


@pytest.mark.parametrize("network", ["gru", "lstm"])
def test_gated_networks_take_no_settings_of_plain_units(network: str) -> None:
    config = preset("temporal-order", "sgd-cr", "steady", network=network)
    assert (config.init, config.nonlinearity, config.leak) == ("uniform", "tanh", 0.0)
    for field, value in {"nonlinearity": "relu", "leak": 0.5, "init": "orthogonal"}.items():
        with pytest.raises(ConfigError, match=f"{field} must be left out with network '{network}', which has its own"):
            Config("addition", "sgd", network=network, **{field: value})
    with pytest.raises(
        ConfigError, match="init must be another than 'remember' with network 'rnn', which has no gates"
    ):
        Config("addition", "sgd", init="remember")
    with pytest.raises(ConfigError, match="init must be another than 'remember' without biases, which it sets"):
        Config("addition", "sgd", network=network, init="remember", bias=False)
    with pytest.raises(ConfigError, match="longest must be given with init 'chrono'"):
        Config("addition", "sgd", network=network, init="chrono")
    with pytest.raises(ConfigError, match="longest must be left out unless init is 'chrono', not 80"):
        Config("addition", "sgd", network=network, longest=80)


@pytest.mark.parametrize("network", ["gru", "lstm"])
def test_gates_that_begin_open_change_nothing_but_their_biases(network: str) -> None:
    def made(**settings: Any) -> Network:
        return Network(Config("addition", "sgd", network=network, hidden=6, **settings))

    uniform, remember, chrono = made(), made(init="remember"), made(init="chrono", longest=80)
    for other in (remember, chrono):
        for name, parameter in uniform.named_parameters():
            same = torch.equal(parameter, dict(other.named_parameters())[name])
            assert same == ("rnn.bias" not in name)
    gate = slice(6, 12)  # r, z, n of the GRU; i, f, g, o of the LSTM
    assert (remember.rnn.bias_ih_l0 + remember.rnn.bias_hh_l0)[gate].tolist() == [1.0] * 6
    steps = (chrono.rnn.bias_ih_l0 + chrono.rnn.bias_hh_l0)[gate].exp()
    assert bool((steps >= 1).all())
    assert bool((steps <= 79.01).all())
    assert float(steps.detach().max()) > 20


def test_a_plain_network_can_begin_as_torch_begins() -> None:
    network = Network(Config("addition", "sgd", init="uniform", hidden=25))
    weights = torch.cat([each.detach().flatten() for _, each in network.trained()])
    assert 0.19 < float(weights.max()) <= 0.2
    assert -0.2 <= float(weights.min()) < -0.19
    assert network.rnn.bias_hh_l0.tolist() == [0.0] * 25


@pytest.mark.parametrize("network", ["gru", "lstm"])
def test_a_gated_network_is_built_by_name(network: str) -> None:
    made = Network(Config("temporal-order", "sgd", (10, 12), network=network, hidden=5))
    batch = made.problem.sample(3, 10, torch.Generator().manual_seed(0))
    assert type(made.rnn).__name__.lower() == network
    assert made.answers(batch).shape == (1, 3, 4)


def test_the_table_of_settings_in_the_docs_is_what_is_declared() -> None:
    page = settings_page.PAGE.read_text(encoding="utf-8")
    assert page == settings_page.page(page), "make it again: python tests/experiments/settings_page.py"
    for name in Config.model_fields:
        assert f"| `{name}` |" in page

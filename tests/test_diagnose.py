"""`steadygrad diagnose`: the findings and the page of a run of the harness."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from steadygrad import experiments, storage
from steadygrad.cli import main
from steadygrad.experiments import files

SHORT = {"max_updates": 6, "check_every": 2, "check_sequences": 20, "test_sequences": 20, "after_success": "stop"}


def drawn(directory: Path, network: str = "rnn", **other: Any) -> Path:
    settings = {"length": (30, 30), "curriculum": None, "network": network, "hidden": 8, **SHORT, **other}
    experiments.run(experiments.preset("recall", "sgd-c", "steady", **settings), directory, progress="none")
    return directory


def shown(page: Path) -> dict[str, Any]:
    """The data that stands in the page."""
    found = re.search(
        r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page.read_text(encoding="utf-8"), re.S
    )
    assert found is not None
    return json.loads(found[1])


@pytest.mark.parametrize(("network", "kind"), [("rnn", "relu"), ("gru", "GRU"), ("lstm", "LSTM")])
def test_a_run_of_every_network_has_a_page_with_the_errors_it_recorded(
    network: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = drawn(tmp_path / "run", network)
    assert main(["diagnose", str(run)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].endswith("snapshots in 6 updates")
    assert out.splitlines()[-1] == str(run / "gradients.html")
    snapshots = storage.read_lines(run / files.FLOW)
    data = shown(run / "gradients.html")
    assert data["updates"] == [line["updates"] for line in snapshots]
    (cell,) = data["cells"]
    assert cell["kind"] == kind
    # The page has the first step left and log10; a snapshot the last step first, and norms relative to it.
    last = cell["looks"][-1]
    assert 10 ** last["norms"][0] == pytest.approx(snapshots[-1]["norms"][-1], rel=0.02)
    assert last["norms"][-1] == 0.0
    assert last["steps"] == snapshots[-1]["steps"]
    assert data["thresholds"][-1] == 1.0


def test_a_layer_that_forgets_is_told_so_with_its_horizon_and_a_cure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = drawn(tmp_path / "run", "gru")
    line = {"updates": 6, "steps": 30, "stride": 1, "norms": [0.5**lag for lag in range(30)], "eigenvalues": []}
    (run / files.FLOW).write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert main(["diagnose", str(run), "--out", str(tmp_path / "page.html")]) == 0
    said = capsys.readouterr().out
    assert "1. rnn l0 forgets: the error keeps 1 % after 6 of 29 steps. Give it alpha=1" in said
    assert "rnn l0 forgets" in (tmp_path / "page.html").read_text(encoding="utf-8")
    (run / files.FLOW).write_text(json.dumps({**line, "norms": [1.0] * 30}) + "\n", encoding="utf-8")
    assert main(["diagnose", str(run), "--out", str(tmp_path / "page.html")]) == 0
    assert "l0 forgets" not in capsys.readouterr().out


def test_an_error_that_explodes_or_is_not_finite_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = drawn(tmp_path / "run")
    line = {"updates": 6, "steps": 30, "stride": 10, "norms": [1.0, 50.0, 2500.0], "eigenvalues": [[1.0, 0.0]]}
    (run / files.FLOW).write_text(json.dumps(line) + "\n", encoding="utf-8")
    main(["diagnose", str(run)])
    assert "rnn l0 explodes: the error grows 2.5e+03-fold" in capsys.readouterr().out
    (run / files.FLOW).write_text(json.dumps({**line, "norms": [1.0, None, None]}) + "\n", encoding="utf-8")
    main(["diagnose", str(run)])
    assert "rnn l0: the error of step 19 is not finite, first at update 6" in capsys.readouterr().out


def test_a_run_on_a_text_is_diagnosed_without_its_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "abba.txt"
    text.write_text("abba baab\n" * 60, encoding="utf-8")
    small = {"hidden": 4, "steps": 20, "batch": 2, "epochs": 2, "patience": None}
    config = experiments.preset("text", "sgd-cr", "steady", path=str(text), **small)
    experiments.run(config, tmp_path / "run", progress="none")
    text.unlink()
    assert main(["diagnose", str(tmp_path / "run")]) == 0
    assert "snapshots in" in capsys.readouterr().out
    (cell,) = shown(tmp_path / "run" / "gradients.html")["cells"]
    assert (cell["kind"], cell["looks"][-1]["steps"]) == ("relu", 20)


def test_what_is_no_run_or_has_no_flow_is_told_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fault(*words: str) -> str:
        assert main(["diagnose", *words]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        return said.err

    assert f"{tmp_path} must be the folder of a run, and holds no config.json" in fault(str(tmp_path))
    run = drawn(tmp_path / "run")
    (run / files.FLOW).write_bytes(b"")
    assert "flow.jsonl must have a snapshot, and has none yet: wait for the first check" in fault(str(run))
    (run / files.FLOW).unlink()
    assert "must be the folder of a run, and holds no flow.jsonl" in fault(str(run))
    assert not (run / "gradients.html").exists()

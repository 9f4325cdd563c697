"""The code in docs/diagnosis.md runs as it stands, from top to bottom."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

import steadygrad as sg
from steadygrad.diagnosis import KINDS

PAGE = Path(__file__).parents[2] / "docs" / "diagnosis.md"


@pytest.mark.filterwarnings("ignore")  # Lightning's and TensorBoard's own
def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        needs = re.match(r"# needs (\w+)", code)
        if needs is None or importlib.util.find_spec(needs[1]):
            exec(compile(code, str(PAGE), "exec"), names)
    assert (tmp_path / "gradients.html").exists()
    assert (tmp_path / "looks.jsonl").exists()
    printed = capsys.readouterr().out
    assert "rnn l0 forgets: the error keeps 1 % after" in printed
    assert isinstance(names["watch"], sg.Watch)


def test_every_kind_is_in_the_table() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == list(KINDS)

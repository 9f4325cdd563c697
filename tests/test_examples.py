"""The programs in examples/ run, and say what they are said to say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from steadygrad.report import tables
from steadygrad.sweep.records import read_records

ROOT = Path(__file__).parents[1]


def test_digits_are_read_with_omega_and_without(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn has the digits: make integrations")
    words = ["--network", "lstm", "--order", "permuted", "--seeds", "101", "--epochs", "10"]
    command = [sys.executable, str(ROOT / "examples" / "digits.py"), *words, "--write", str(tmp_path / "digits.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    records = read_records(tmp_path / "digits.jsonl")
    assert {record["config"]["alpha"] for record in records} == {0.0, 0.1}
    assert all(record["result"]["test"] < 0.85 for record in records)  # 0.9 is chance
    assert "without Ω" in tables.digits(records).plain()
    assert done.stdout.count("% of the test set") == 2

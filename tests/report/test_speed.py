"""The table of speed stands in README.md as the record gives it."""

from __future__ import annotations

import json
from pathlib import Path

from steadygrad.report import speed

ROOT = Path(__file__).parents[2]


def test_the_readme_shows_what_the_record_says() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert speed.filled(page, ROOT / "results") == page, "make it again: make results"


def test_another_record_gives_another_table(tmp_path: Path) -> None:
    record = json.loads((ROOT / "results" / "bench.json").read_text(encoding="utf-8"))
    size = next(iter(record["milliseconds"]))
    record["milliseconds"][size][speed.OURS] *= 2
    (tmp_path / "bench.json").write_text(json.dumps(record), encoding="utf-8")
    assert speed.render(tmp_path) != speed.render(ROOT / "results")

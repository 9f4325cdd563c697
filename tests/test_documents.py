"""Every ```python block of README.md and docs/ runs: the blocks of a page one after the other, in one namespace."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

ELSEWHERE = {
    "docs/asked.md": "tests/test_asked.py",  # each snippet alone, after the first
    "docs/problems.md": "tests/experiments/test_own_problem.py",  # its first block is a file that the second imports
}
"""Pages whose blocks do not simply follow each other, and the test that runs them."""


def python_blocks(page: Path) -> list[tuple[int, str]]:
    """The line each block begins on, and its text."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python[^\n]*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [(text[: block.start(1)].count("\n"), block.group(1)) for block in found]


def run(page: Path, namespace: dict[str, Any]) -> list[str]:
    """Run the blocks, and name the packages that some say they need (`# needs NAME`) and that are not installed."""
    missing: list[str] = []
    for line, block in python_blocks(page):
        needed = re.match(r"# needs (\w+)\n", block)
        if needed and importlib.util.find_spec(needed[1]) is None:
            missing.append(needed[1])
            continue
        # Empty lines before it, so that a traceback names the line of the page.
        exec(compile("\n" * line + block, str(page), "exec"), namespace)
    return missing


def with_blocks() -> list[Any]:
    shown = [(page, page.relative_to(ROOT).as_posix()) for page in PAGES if python_blocks(page)]
    return [pytest.param(page, id=name) for page, name in shown if name not in ELSEWHERE]


@pytest.mark.parametrize("page", with_blocks())
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # what a block writes stays there
    torch.manual_seed(0)
    missing = run(page, {"__name__": "__main__"})
    if missing:
        pytest.skip(f"all blocks ran but those that need {', '.join(missing)}: make integrations")


def test_no_block_is_missed() -> None:
    for page in PAGES:
        opened = re.findall(r"^\s*```+ *(?:python|py)\b", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert len(python_blocks(page)) == len(opened), f"{page}: a Python block is indented or written otherwise"


def test_pages_that_are_run_elsewhere_are() -> None:
    for page, test in ELSEWHERE.items():
        assert (ROOT / page).exists()
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")

"""Every ```python block of README.md and docs/ runs: the blocks of a page one after the other, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

PREAMBLE: dict[str, str] = {
    # Pages that go on from a training loop of the reader's own. README has none: its lines must run as they stand.
    "docs/guide.md": """
import torch, steadygrad as sg
rnn = model = sg.RNN(6, 50)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.rand(30, 4, 6)
loss = model(inputs)[0][-1].square().mean()
""",
}
"""What a page takes for granted, by its path."""

TO_BE_REWRITTEN: dict[str, str] = {
    "README.md": "its first block makes no optimizer and no loss, its second gives one optimizer three clippers",
    "docs/guide.md": "temporal_components takes a function of the outputs, and the page gives it a loss",
}
"""Pages known not to run yet. A page that runs must leave this list: the test fails until it does."""


def python_blocks(page: Path) -> list[tuple[int, str]]:
    """The line each block begins on, and its text."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python[^\n]*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [(text[: block.start(1)].count("\n"), block.group(1)) for block in found]


def run(page: Path, namespace: dict[str, Any]) -> None:
    name = page.relative_to(ROOT).as_posix()
    exec(compile(PREAMBLE.get(name, ""), f"preamble of {name}", "exec"), namespace)
    for line, block in python_blocks(page):
        # Empty lines before it, so that a traceback names the line of the page.
        exec(compile("\n" * line + block, str(page), "exec"), namespace)


def with_blocks() -> list[Any]:
    shown = [(page, page.relative_to(ROOT).as_posix()) for page in PAGES if python_blocks(page)]
    return [
        pytest.param(
            page,
            id=name,
            marks=pytest.mark.xfail(strict=True, reason=TO_BE_REWRITTEN[name]) if name in TO_BE_REWRITTEN else (),
        )
        for page, name in shown
    ]


@pytest.mark.parametrize("page", with_blocks())
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # what a block writes stays there
    torch.manual_seed(0)
    run(page, {"__name__": "__main__"})


def test_no_block_is_missed() -> None:
    for page in PAGES:
        opened = re.findall(r"^\s*```+ *(?:python|py)\b", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert len(python_blocks(page)) == len(opened), f"{page}: a Python block is indented or written otherwise"


def test_every_page_that_is_named_exists() -> None:
    assert {*PREAMBLE, *TO_BE_REWRITTEN} <= {page.relative_to(ROOT).as_posix() for page in PAGES}

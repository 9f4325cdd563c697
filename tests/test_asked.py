"""Every snippet of docs/asked.md runs, after the one that all of them start from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "asked.md"


def snippets() -> list[tuple[int, str]]:
    """Line number and code of every Python block."""
    text = PAGE.read_text(encoding="utf-8")
    found = [(text[: m.start(1)].count("\n"), m[1]) for m in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)]
    assert text.count("```") == 2 * len(found), "a block that is no Python block would not be tested"
    return found


START, *REST = snippets()


def run(*blocks: tuple[int, str]) -> None:
    names: dict[str, object] = {}
    for line, code in blocks:
        # the empty lines make a traceback name the line of the page
        exec(compile("\n" * line + code, str(PAGE), "exec"), names)


@pytest.mark.parametrize("block", REST, ids=[f"line {line}" for line, _ in REST])
def test_snippet_runs(block: tuple[int, str]) -> None:
    run(START, block)


def test_every_question_names_where_it_was_asked_or_stands_below_one_that_does() -> None:
    questions = re.findall(r"^\*\*.*", PAGE.read_text(encoding="utf-8"), re.M)
    asked = [question for question in questions if re.search(r"#\d+", question)]
    assert len(questions) > 12
    assert len(asked) >= len(questions) - 1  # one threshold for each group: asked here

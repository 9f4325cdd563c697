"""docs/compatibility.md says what a run of its checks gives."""

from __future__ import annotations

import pytest
from compatibility import PAGE, page, version


def test_the_committed_page_is_what_the_run_gives() -> None:
    written = PAGE.read_text(encoding="utf-8")
    if f"with torch {version()}." not in written:
        pytest.skip(f"the page was written with another version of torch than {version()}")
    assert written == page(), "run: python tests/layers/compatibility.py --write docs/compatibility.md"

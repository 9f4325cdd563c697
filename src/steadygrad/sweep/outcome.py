"""What became of a cell, and how long things take, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Outcome:
    """What became of a cell.

    Attributes:
        id: the cell's.
        status: 'finished' (there is a result, good or bad), 'failed', 'interrupted', or 'busy': another process has it.
        reason: why it ended, or why there is no result, in one sentence.
        solved: of a task; None where there is no result, or nothing to be solved.
        updates, seconds: as in the result.
        error: of a task, as in the result.
        summary: of a finished run, its result in a few words.
    """

    id: str
    status: Literal["finished", "failed", "interrupted", "busy"]
    reason: str = ""
    solved: bool | None = None
    updates: int = 0
    error: float = float("nan")
    seconds: float = 0.0
    summary: str = ""

    def __str__(self) -> str:
        return self.summary if self.status == "finished" else f"{self.status}: {self.reason}"


def duration(seconds: float) -> str:
    """A time in words that fit it.

    >>> duration(42), duration(200), duration(9000)
    ('42 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"

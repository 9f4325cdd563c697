"""What became of a cell, and how long things take, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from steadygrad.experiments import Result


@dataclass(frozen=True)
class Outcome:
    """What became of a cell.

    Attributes:
        id: the cell's.
        status: 'finished' (there is a result, good or bad), 'failed', 'interrupted', or 'busy': another process has it.
        reason: why it ended, or why there is no result, in one sentence.
        solved: None where there is no result, or nothing to be solved.
        updates, seconds: as in the result.
        error: of a problem that can be solved, as in the result.
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

    @classmethod
    def of(cls, cell: str, result: Result) -> Outcome:
        """What became of a finished cell.

        >>> print(Outcome.of("a", Result("solved", 12_000, 14.0, 12_000, 14.0, solved=True, error=0.004)))
        solved after 12,000 updates (14 s, 0.40 % wrong)
        >>> print(Outcome.of("b", Result("patience", 9000, 600.0, 9000, 600.0, train=3.21, test=3.456, epochs=40)))
        test 3.456, train 3.210 after 40 epochs (10 min, patience)
        """
        if result.solved is None or result.error is None:
            more = result.reason
        else:
            more = f"{100 * result.error:.{2 if result.solved else 1}f} % wrong"
        summary = f"{result.verdict} ({duration(result.seconds)}, {more})"
        known = {"solved": result.solved, "updates": result.updates, "seconds": result.seconds}
        known |= {} if result.error is None else {"error": result.error}
        return cls(cell, "finished", result.reason, **known, summary=summary)

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

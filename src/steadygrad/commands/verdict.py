"""A run's verdict in words, for `train` and `resume`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..training import Result

INTERRUPTED = 130


def tell(result: Result, directory: Path) -> int:
    """Print how the run ended and where it is; return the exit code."""
    if result.reason == "interrupted":
        print(f"stopped after {result.total_updates:,} updates; go on with: steadygrad resume {_quoted(directory)}")
        return INTERRUPTED
    wrong = f"{100 * result.error:.2f} % wrong"
    if result.solved:
        print(f"solved after {result.updates:,} updates ({result.seconds:.0f} s); best weights: {wrong}")
    else:
        print(
            f"not solved: {result.reason} after {result.updates:,} updates ({result.seconds:.0f} s); best weights: {wrong}"
        )
    print(f"everything is in {directory}")
    return 0


def _quoted(directory: Path) -> str:
    import shlex

    return shlex.quote(str(directory))

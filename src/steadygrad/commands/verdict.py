"""A run's verdict in words, for `train` and `resume`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..natural import NaturalConfig, NaturalResult
    from ..training import Result

INTERRUPTED = 130


def tell(result: Result, directory: Path) -> int:
    """Print how the run ended and where it is; return the exit code."""
    if result.reason == "interrupted":
        return _stopped(result.total_updates, directory)
    from ..training.result import ended

    wrong = f"{100 * result.error:.2f} % wrong"
    verdict = ended(result.solved, result.reason, result.updates)
    print(f"{verdict} ({result.seconds:.0f} s); best weights: {wrong}")
    print(f"everything is in {directory}")
    return 0


def tell_natural(result: NaturalResult, config: NaturalConfig, directory: Path) -> int:
    """The same for a run on music or text."""
    from ..natural import UNITS

    if result.reason == "interrupted":
        return _stopped(result.updates, directory)
    print(
        f"ended ({result.reason}) after {result.epochs:,} epochs, {result.updates:,} updates ({result.seconds:.0f} s)"
    )
    if result.best_epoch:
        figures = "   ".join(f"{split} {getattr(result, split):.4f}" for split in ("train", "valid", "test"))
        print(f"best weights, of epoch {result.best_epoch}: {figures} {UNITS[config.is_text]}")
    else:
        print("no weights are kept: there was no validation before")
    print(f"everything is in {directory}")
    return 0


def _stopped(updates: int, directory: Path) -> int:
    print(f"stopped after {updates:,} updates; go on with: steadygrad resume {_quoted(directory)}")
    return INTERRUPTED


def _quoted(directory: Path) -> str:
    import shlex

    return shlex.quote(str(directory))

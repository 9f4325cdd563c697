"""The verdict of a run, of any kind and on a task."""

from __future__ import annotations

import json
from dataclasses import Field, asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from . import files
from .settings import Settings

if TYPE_CHECKING:
    from typing_extensions import Self


class Verdict:
    """How a run of any kind ended, for a frozen dataclass to build on."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    reason: str
    """Why it ended."""

    @property
    def diverged(self) -> bool:
        """Whether it ended because it diverged."""
        return self.reason.startswith("diverged")

    def write(self, directory: Path, config: Settings) -> None:
        """Put the verdict, the settings and the versions into DIR/result.json."""
        import torch

        from .. import __version__

        about = {"config": config.as_dict(), "version": __version__, "torch": torch.__version__}
        text = json.dumps({**asdict(self), **about}, indent=1, ensure_ascii=False, allow_nan=False)
        files.write(directory / files.RESULT, text.encode() + b"\n")

    @classmethod
    def read(cls, directory: str | Path) -> Self | None:
        """The verdict in `directory`, or None if there is none yet."""
        path = Path(directory) / files.RESULT
        try:
            values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{name: values[name] for name in cls.__dataclass_fields__})
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is not the verdict of a run ({type(error).__name__}: {error})") from error


def ended(solved: bool, reason: str, updates: int) -> str:
    """A run's verdict in words.

    >>> ended(True, "solved", 12_000), ended(False, "max_updates", 40_000)
    ('solved after 12,000 updates', 'not solved: max_updates after 40,000 updates')
    >>> ended(False, "diverged: the loss is nan, after 3 updates", 3)
    'not solved: diverged: the loss is nan, after 3 updates'
    """
    verdict = "solved" if solved else f"not solved: {reason}"
    return verdict if verdict.endswith(" updates") else f"{verdict} after {updates:,} updates"


@dataclass(frozen=True)
class Result(Verdict):
    """How a run ended.

    Attributes:
        solved: whether a test found at most the share `success` of the test sequences wrong.
        updates: until the first such test, or all there were.
        error: of the best weights on the test sequences, by the task's criterion.
        seconds: as `updates`: until the first success, or all.
        reason: why it ended: 'solved', 'max_updates', 'max_seconds', 'interrupted' or 'diverged: …'.
        errors: of the best weights by every criterion ('wrong'; for regression 'absolute' and 'squared').
        best_updates: when the best weights were tested.
        total_updates, total_seconds: all there were, polishing included.
    """

    solved: bool
    updates: int
    error: float
    seconds: float
    reason: str
    errors: dict[str, float]
    best_updates: int
    total_updates: int
    total_seconds: float

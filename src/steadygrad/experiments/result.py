"""How a run ended: DIR/result.json, with its settings and versions."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from .. import __version__, storage
from . import files
from .config import SPLITS, Config


@dataclass(frozen=True)
class Result:
    """How a run ended. What a problem does not have is None.

    `train`, `valid` and `test` are the scores of the weights that were best on validation, over each whole part; None if
    unknown: the test part is read once, at the end, and a run that diverged in its first epoch has no weights.
    """

    reason: str  # 'solved', 'max_updates', 'epochs', 'patience', 'max_seconds', 'interrupted' or 'diverged: …'
    updates: int  # until the first success, or all there were; so are the seconds
    seconds: float
    total_updates: int  # all there were, polishing included
    total_seconds: float
    best_updates: int | None = None  # when the best weights were tested
    solved: bool | None = None  # whether a test found at most the share `success` of the test sequences wrong
    error: float | None = None  # of the best weights on the test sequences, by the problem's criterion
    errors: dict[str, float] = field(default_factory=dict[str, float])  # by every criterion
    train: float | None = None
    valid: float | None = None
    test: float | None = None
    best_epoch: int | None = None  # at which they were validated; 0: none
    epochs: int | None = None  # that were completed
    tokens_per_second: float | None = None  # predictions learned from in a second of training, validation left out
    horizon: int | None = None  # how many steps back the error came at the last test of a drawn problem

    @property
    def diverged(self) -> bool:
        return self.reason.startswith("diverged")

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped from outside, and can be resumed."""
        return self.reason.startswith("interrupted")

    def reached(self, limit: str) -> int:
        """How far it came: the updates of 'max_updates', or the epochs of 'epochs'."""
        return self.total_updates if limit == "max_updates" else self.epochs or 0

    def write(self, directory: Path, config: Config) -> None:
        """Put the result, the settings and the versions into DIR/result.json."""
        about = {"config": config.as_dict(), "version": __version__, "torch": torch.__version__}
        storage.write_json(directory / files.RESULT, {**asdict(self), **about})

    @classmethod
    def read(cls, directory: str | Path) -> Result | None:
        """The result in `directory`, or None if there is none yet."""
        path = Path(directory) / files.RESULT
        try:
            return cls.of(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is not the result of a run ({type(error).__name__}: {error})") from error

    @classmethod
    def of(cls, values: dict[str, Any]) -> Result:
        """The result in a dict, such as a record's or result.json's; those of version 0.1.0 have no totals for data."""
        given = {each.name: values[each.name] for each in fields(cls) if each.name in values}
        given.setdefault("total_updates", given.get("updates"))
        given.setdefault("total_seconds", given.get("seconds"))
        return cls(**given)

    def told(self) -> dict[str, Any]:
        """The fields that say something, for a record."""
        kept = {name: value for name, value in asdict(self).items() if value is not None and value != {}}
        if self.solved is None:  # of a data set all scores are told, those that are not known too
            kept |= {split: getattr(self, split) for split in SPLITS}
        return kept

    @property
    def verdict(self) -> str:
        """The result in words: 'solved after 12,000 updates'."""
        if self.solved is None:
            scores = {part: getattr(self, part) for part in ("test", "train")}
            told = (f"{part} {'–' if value is None else f'{value:.3f}'}" for part, value in scores.items())
            return f"{', '.join(told)} after {self.epochs:,} epochs"
        verdict = "solved" if self.solved else f"not solved: {self.reason}"
        return verdict if verdict.endswith(" updates") else f"{verdict} after {self.updates:,} updates"

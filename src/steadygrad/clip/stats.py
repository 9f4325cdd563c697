"""What a NormClipper has seen and done: counts, the last norms, and a bounded history of them.

clip_rate = clipped / steps        history = ((‖g_n‖ before, after), …), oldest first
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ClipStats:
    """A snapshot; it does not change when the clipper goes on.

    Attributes:
      steps: gradients judged: one for each `optimizer.step()`, or one for each evaluation of its closure.
      clipped: how many of them were scaled down.
      skipped: how many updates were not made because the gradient was not finite.
      shrunk: how many updates shrank the recurrent matrix instead (nonfinite="shrink").
      norm_before: ‖g‖ of the last gradient as it came; NaN before the first.
      norm_after: ‖g‖ of the last gradient as the optimizer took it; 0 where the update was skipped.
      threshold: the threshold of the next update; infinite while an adaptive one has seen no norm.
      last_skipped: why the last skipped (or shrunk) update was: the names of the parameters.
      history: pairs (before, after) of the last updates, oldest first.
    """

    steps: int
    clipped: int
    skipped: int
    shrunk: int
    norm_before: float
    norm_after: float
    threshold: float
    last_skipped: tuple[str, ...]
    history: tuple[tuple[float, float], ...]

    @property
    def clip_rate(self) -> float:
        """The fraction of gradients that were scaled down; 0 before the first."""
        return self.clipped / self.steps if self.steps else 0.0

    def __str__(self) -> str:
        parts = [f"clipped {self.clipped:,} of {self.steps:,} gradients ({100 * self.clip_rate:.3g} %)"]
        if self.skipped:
            parts.append(f"skipped {self.skipped:,}")
        if self.shrunk:
            parts.append(f"shrunk {self.shrunk:,}")
        if self.last_skipped:
            parts.append(f"not finite last: {', '.join(self.last_skipped)}")
        if self.steps:
            parts.append(f"last norm {self.norm_before:.4g} -> {self.norm_after:.4g}")
        return "; ".join([*parts, f"threshold {self.threshold:.4g}"])


class Ledger:
    """The running account behind ClipStats."""

    def __init__(self, history: int) -> None:
        self.steps = self.clipped = self.skipped = self.shrunk = 0
        self.last_skipped: tuple[str, ...] = ()
        self.history: deque[tuple[float, float]] = deque(maxlen=history)
        self.last = (math.nan, math.nan)

    def enter(self, before: float, after: float) -> None:
        self.steps += 1
        self.last = pair = (before, after)
        self.history.append(pair)

    def snapshot(self, threshold: float) -> ClipStats:
        return ClipStats(
            self.steps,
            self.clipped,
            self.skipped,
            self.shrunk,
            *self.last,
            threshold,
            self.last_skipped,
            tuple(self.history),
        )

    def state_dict(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "clipped": self.clipped,
            "skipped": self.skipped,
            "shrunk": self.shrunk,
            "last_skipped": list(self.last_skipped),
            "last": _written(self.last),
            "history": [_written(pair) for pair in self.history],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps, self.clipped = state["steps"], state["clipped"]
        self.skipped, self.shrunk = state["skipped"], state["shrunk"]
        self.last_skipped = tuple(state["last_skipped"])
        self.last = _read(state["last"])
        self.history = deque(map(_read, state["history"]), maxlen=self.history.maxlen)


def _written(pair: tuple[float, float]) -> list[float | str]:
    # JSON has no infinity and no NaN: as 'inf' and 'nan' they survive any JSON reader
    return [x if math.isfinite(x) else str(x) for x in pair]


def _read(pair: list[float | str]) -> tuple[float, float]:
    before, after = map(float, pair)
    return before, after

"""What a NormClipper has seen and done: counts, the last norms, and a bounded history of them.

clip_rate = clipped / steps        history = ((‖g_n‖ before, after), …), oldest first
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any

SPIKE = "a spike"  # how the reason for skipping one begins


@dataclass(frozen=True)
class ClipStats:
    """A snapshot; it does not change when the clipper goes on.

    Attributes:
      steps: gradients judged: one for each `optimizer.step()`, or one for each evaluation of its closure.
      clipped: how many of them were scaled down.
      skipped: how many updates were not made, because the gradient was not finite or, with `Spike(action="skip")`, a spike.
      shrunk: how many updates shrank the recurrent matrix instead (nonfinite="shrink").
      norm_before: ‖g‖ of the last gradient as it came; NaN before the first.
      norm_after: ‖g‖ of the last gradient as the optimizer took it; 0 where the update was skipped.
      threshold: the threshold of the next update; infinite while an adaptive one has seen too few norms. The smallest of
        them where there are several.
      last_skipped: why the last skipped (or shrunk) update was: the names of the parameters, or the spike.
      history: pairs (before, after) of the last updates, oldest first.
      spikes: how many gradients were clipped or skipped as spikes (`Spike`).
      thresholds: with per="group" or "parameter", the threshold of each, by name.
      clipped_by: with per="group" or "parameter", how often each was scaled down, by name.
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
    spikes: int = 0
    thresholds: dict[str, float] = field(default_factory=dict[str, float])
    clipped_by: dict[str, int] = field(default_factory=dict[str, int])

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
        if self.spikes:
            parts.append(f"spikes {self.spikes:,}")
        if self.last_skipped:
            kind = "last" if self.last_skipped[0].startswith(SPIKE) else "not finite last"
            parts.append(f"{kind}: {', '.join(self.last_skipped)}")
        if self.steps:
            parts.append(f"last norm {self.norm_before:.4g} -> {self.norm_after:.4g}")
        return "; ".join([*parts, f"threshold {self.threshold:.4g}"])


class Ledger:
    """The running account behind ClipStats."""

    KEYS = ("steps", "clipped", "skipped", "shrunk", "last_skipped", "last", "history")  # that every state has

    def __init__(self, history: int) -> None:
        self.steps = self.clipped = self.skipped = self.shrunk = self.spikes = 0
        self.streak = 0  # updates in a row whose gradient could not be used
        self.clipped_by: list[int] = []
        self.last_skipped: tuple[str, ...] = ()
        self.history: deque[tuple[float, float]] = deque(maxlen=history)
        self.last = (math.nan, math.nan)

    def enter(self, before: float, after: float) -> None:
        self.steps += 1
        self.streak = 0
        self.last = pair = (before, after)
        self.history.append(pair)

    def enter_lost(self, before: float, after: float, counts: bool) -> None:
        """An update without its gradient; `counts`: as one more of a streak."""
        streak = self.streak
        self.enter(before, after)
        self.streak = streak + counts

    def snapshot(self, thresholds: list[float], names: list[str]) -> ClipStats:
        return ClipStats(
            self.steps,
            self.clipped,
            self.skipped,
            self.shrunk,
            *self.last,
            min(thresholds, default=math.inf),
            self.last_skipped,
            tuple(self.history),
            self.spikes,
            dict(zip(names, thresholds, strict=False)),
            dict(zip(names, self.clipped_by, strict=False)),
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
            "spikes": self.spikes,
            "streak": self.streak,
            "clipped_by": list(self.clipped_by),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps, self.clipped = state["steps"], state["clipped"]
        self.skipped, self.shrunk = state["skipped"], state["shrunk"]
        self.last_skipped = tuple(state["last_skipped"])
        self.last = _read(state["last"])
        self.history = deque(map(_read, state["history"]), maxlen=self.history.maxlen)
        # these came later: where they are missing, nothing of the kind could happen
        self.spikes, self.streak = state.get("spikes", 0), state.get("streak", 0)
        self.clipped_by = list(state.get("clipped_by", ()))


def _written(pair: tuple[float, float]) -> list[float | str]:
    # JSON has no infinity and no NaN: as 'inf' and 'nan' they survive any JSON reader
    return [x if math.isfinite(x) else str(x) for x in pair]


def _read(pair: list[float | str]) -> tuple[float, float]:
    before, after = map(float, pair)
    return before, after

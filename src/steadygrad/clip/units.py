"""What is measured together and clipped by its own norm: everything, each group of parameters, or each parameter.

    per="all":         one unit, g ← min(1, θ/‖g‖) g
    per="group":       unit u is the optimizer's u-th group of parameters,  g_u ← min(1, θ_u/‖g_u‖) g_u
    per="parameter":   unit u is the u-th parameter of all,                  likewise

Each unit has a tracker of its own: an adaptive θ_u comes from the norms of that unit alone.
"""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor
from torch.optim import Optimizer

from .fault import Names, named
from .threshold import Spike, Threshold
from .trackers import Tracker, track

Per = Literal["all", "group", "parameter", "entry"]
PER = ("all", "group", "parameter", "entry")


class Units:
    """The trackers of all units, and which gradient belongs to which."""

    def __init__(self, per: Per, threshold: Threshold, optimizer: Optimizer) -> None:
        self.per: Per = per
        self.several = per in ("group", "parameter")
        self.watches_spikes = isinstance(threshold, Spike)
        self._threshold: Threshold = threshold
        first = track(threshold)
        if per == "entry" and not isinstance(threshold, (int, float)):
            raise ValueError(f"threshold must be a number where per='entry', not {threshold!r}")
        self.trackers: list[Tracker] = [first]
        self.gradients(optimizer)

    def gradients(self, optimizer: Optimizer) -> tuple[list[Tensor], list[int]]:
        """The gradients there are and the unit of each; new groups and parameters get trackers."""
        gradients: list[Tensor] = []
        units: list[int] = []
        unit = -1
        for group in optimizer.param_groups:
            unit += self.per == "group"
            for p in group["params"]:
                unit += self.per == "parameter"
                if p.grad is not None:
                    gradients.append(p.grad)
                    units.append(unit)
        self._grow(unit + 1)
        return gradients, units

    def thresholds(self) -> list[float]:
        return [tracker.value for tracker in self.trackers]

    def names(self, optimizer: Optimizer, names: Names) -> list[str]:
        """The name of each unit; none where there is but one."""
        if self.per == "group":
            return [str(group.get("name", f"group {i}")) for i, group in enumerate(optimizer.param_groups)]
        if self.per == "parameter":
            return [name for name, _ in named(optimizer, names)]
        return []

    def state(self) -> Any:
        states = [tracker.state_dict() for tracker in self.trackers]
        return states if self.several else states[0]

    def load_state(self, state: Any) -> None:
        states: list[dict[str, Any]] = state if self.several else [state]
        if len(states) != len(self.trackers):
            raise ValueError(
                f"state must come from a clipper with {len(self.trackers)} thresholds (per={self.per!r}), not {len(states)}"
            )
        fresh = [track(self._threshold) for _ in states]
        for tracker, each in zip(fresh, states, strict=True):
            tracker.load_state_dict(each)
        self.trackers = fresh

    def _grow(self, count: int) -> None:
        self.trackers += [track(self._threshold) for _ in range(count - len(self.trackers))]

"""What is measured together and clipped by its own norm: everything, each group of parameters, or each parameter.

    per="all":         one unit, g ← min(1, θ/‖g‖) g
    per="group":       unit u is the optimizer's u-th group of parameters,  g_u ← min(1, θ_u/‖g_u‖) g_u
    per="parameter":   unit u is the u-th parameter of all,                  likewise

Each unit has a tracker of its own: an adaptive θ_u comes from the norms of that unit alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer

from steadygrad import checks

if TYPE_CHECKING:
    from .threshold import Threshold

Names = dict[int, tuple[str, Tensor]]
Per = Literal["all", "group", "parameter", "entry"]
PER = ("all", "group", "parameter", "entry")


class Tracker(Protocol):
    """`value` is θ for the next update, `observe` takes in the norm of one; `skips`: beyond θ no update is made."""

    value: float
    skips: bool
    watches_spikes: bool

    def observe(self, norm: float) -> None: ...

    def why(self, norm: float) -> str: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Clipping:
    """A rule that never skips."""

    skips = watches_spikes = False
    value: float

    def why(self, norm: float) -> str:
        return f"norm {norm:.4g} above {self.value:.4g}"


class Fixed(Clipping):
    """A θ that stays; those that adapt are in trackers.py."""

    def __init__(self, value: float) -> None:
        self.value = checks.number("threshold", value, low=0, open_low=True)

    def observe(self, norm: float) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {"rule": "fixed"}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        same_rule(state, self.state_dict())


def same_rule(state: dict[str, Any], rule: dict[str, Any]) -> None:
    came = {key: state.get(key) for key in rule}
    if came != rule:
        raise ValueError(f"state must come from a clipper with the threshold {rule}, not {came}")


def track(threshold: Threshold) -> Tracker:
    """The tracker of a threshold as given by the user."""
    if type(threshold) in (int, float):
        return Fixed(threshold)  # pyright: ignore[reportArgumentType]
    from . import trackers

    return trackers.track(threshold)


def parameters_of(optimizer: Optimizer) -> list[Tensor]:
    """All parameters of all groups, in order."""
    return [tensor for group in optimizer.param_groups for tensor in group["params"]]


def names_by_id(named_parameters: Iterable[tuple[str, Tensor]] | None, optimizer: Optimizer) -> Names:
    """id(tensor) → (name, tensor): an id is only good while its tensor lives, so that is kept beside it."""
    if named_parameters is None:
        return {}
    if isinstance(named_parameters, torch.nn.Module):
        raise TypeError("named_parameters must be pairs of name and tensor: module.named_parameters(), not the module")
    names = {id(tensor): (name, tensor) for name, tensor in named_parameters}
    if not any(id(tensor) in names for tensor in parameters_of(optimizer)):
        raise ValueError("named_parameters must name the optimizer's parameters, but none of them is among its tensors")
    return names


def named(optimizer: Optimizer, names: Names) -> Iterator[tuple[str, Tensor]]:
    """Every parameter of the optimizer with a name: the one given, the optimizer's own, or its place and shape."""
    for i, group in enumerate(optimizer.param_groups):
        own: list[Any] = group.get("param_names") or []
        for j, tensor in enumerate(group["params"]):
            if id(tensor) in names:
                yield names[id(tensor)]
            elif j < len(own):
                yield own[j], tensor
            else:
                yield f"parameter {j} of group {i} (shape {'x'.join(map(str, tensor.shape)) or 'scalar'})", tensor


@functools.cache
def fault() -> Any:
    """What is done where a gradient is not finite, or may have to be taken back (fault.py): loaded where that may be."""
    from . import fault

    return fault


class Units:
    """The trackers of all units, and which gradient belongs to which."""

    def __init__(self, per: Per, threshold: Threshold, optimizer: Optimizer) -> None:
        self.per: Per = per
        self.several = per in ("group", "parameter")
        self._threshold: Threshold = threshold
        first = track(threshold)
        self.watches_spikes = first.watches_spikes
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

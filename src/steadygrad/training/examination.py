"""How the settings of a run are examined: each by itself, then those that every kind of run has, one with another.

Some settings are None until here, and get the usual value: `momentum` the optimizer's, `nonfinite` 'skip' where gradients
are clipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from .. import checks, init
from ..regularizer import CONVENTIONS
from ..recurrence.nonlinearity import NONLINEARITIES
from ..recurrence.run import BACKENDS
from .optimizer import OPTIMIZERS, USUAL_MOMENTUM
from .schedule import SCHEDULES
from .settings import Settings

ALGORITHMS = {
    "sgd": "plain gradient descent",
    "sgd-c": "with norm clipping",
    "sgd-r": "with Ω, without clipping",
    "sgd-cr": "with clipping and Ω",
}
NAMES: dict[str, Iterable[str]] = {
    "algorithm": ALGORITHMS,
    "nonlinearity": NONLINEARITIES,
    "init": init.REGISTRY,
    "optimizer": OPTIMIZERS,
    "omega": CONVENTIONS,
    "lr_schedule": SCHEDULES,
    "alpha_schedule": SCHEDULES,
    "backend": BACKENDS,
    "dtype": ("float32", "float64"),
}
COUNTS = {"seed": 0, "batch": 1, "hidden": 1, "threads": 1}
NUMBERS: dict[str, dict[str, Any]] = {
    "leak": {"low": 0, "high": 1, "open_high": True},
    "lr": {"low": 0, "open_low": True},
    "momentum": {"low": 0, "high": 1, "open_high": True},
    "alpha": {"low": 0},
    "max_seconds": {"low": 0, "open_low": True},
}


class Examination:
    """The faults found so far, and the values settled so far.

    Args:
        config: what is examined.
        may_be_none: fields that need not be given.
    """

    def __init__(self, config: Settings, may_be_none: Iterable[str] = ()) -> None:
        self.config: Any = config
        self.faults: list[str] = []
        self.settled: dict[str, Any] = {}
        self._may_be_none = frozenset(may_be_none)

    def attempt(self, check: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the check gives, or None where it finds a fault."""
        try:
            return check(*arguments, **options)
        except (ValueError, TypeError) as error:
            self.faults.append(str(error))
            return None

    def settle(self, name: str, value: Any) -> None:
        if value is not None:
            self.settled[name] = value

    def names(self, allowed: dict[str, Iterable[str]]) -> None:
        """Whether each of these fields has one of its names."""
        for name, values in allowed.items():
            self.attempt(checks.one_of, name, getattr(self.config, name), values)

    def counts(self, lowest: dict[str, int]) -> None:
        """Whether each of these fields is a whole number from its lowest on."""
        for name, low in lowest.items():
            if self._is_given(name):
                self.attempt(checks.whole, name, getattr(self.config, name), low=low)

    def numbers(self, bounds: dict[str, dict[str, Any]]) -> None:
        """Whether each of these fields is a number within its bounds."""
        for name, between in bounds.items():
            if self._is_given(name):
                self.settle(name, self.attempt(checks.number, name, getattr(self.config, name), **between))

    def algorithm(self) -> None:
        """Whether clipping, Ω and momentum are set as the algorithm and the optimizer need them."""
        self._momentum()
        if self.config.algorithm in ALGORITHMS:
            self._clipping()
            self._regulariser()

    def unused(self, reasons: dict[str, tuple[bool, str]]) -> None:
        """An option that nothing would read is refused, not ignored: field to (whether it is unused, why)."""
        defaults = {each.name: each.default for each in fields(self.config)}
        for name, (unused, why) in reasons.items():
            if unused and getattr(self.config, name) != defaults[name]:
                self.faults.append(f"{name} must be left out {why}, not {getattr(self.config, name)!r}")

    def _is_given(self, name: str) -> bool:
        return getattr(self.config, name) is not None or name not in self._may_be_none

    def _momentum(self) -> None:
        given, usual = self.config.momentum, USUAL_MOMENTUM.get(self.config.optimizer)
        if given is None:
            self.settle("momentum", usual)
        elif self.config.optimizer == "sgd":
            self.faults.append(f"momentum must be left out with optimizer 'sgd', which has none, not {given!r}")

    def _clipping(self) -> None:
        config = self.config
        if not config.clips:
            for name in ("threshold", "nonfinite"):
                if getattr(config, name) is not None:
                    self.faults.append(
                        f"{name} must be left out with {self._algorithm()}, not {getattr(config, name)!r}"
                    )
            return
        if config.nonfinite is None:
            self.settled["nonfinite"] = "skip"
        else:
            self.attempt(checks.one_of, "nonfinite", config.nonfinite, ("skip", "shrink", "raise"))
        if config.threshold is None:
            self.faults.append(f"threshold must be given with {self._algorithm()}")
        elif isinstance(config.threshold, str):
            if config.threshold != "auto":
                self.faults.append(f"threshold must be a number or 'auto', not {config.threshold!r}")
        else:
            self.settle("threshold", self.attempt(checks.number, "threshold", config.threshold, low=0, open_low=True))

    def _regulariser(self) -> None:
        config = self.config
        if config.regularises and config.alpha == 0:
            self.faults.append(f"alpha must be above 0 with {self._algorithm()}")
        if not config.regularises and config.alpha != 0:
            self.faults.append(f"alpha must be 0 with {self._algorithm()}, not {config.alpha!r}")

    def _algorithm(self) -> str:
        return f"algorithm {self.config.algorithm!r} ({ALGORITHMS[self.config.algorithm]})"

"""What the settings of a run must be, one with another. All faults are found at once, each by name.

Some settings are None until here, and get the usual value: `hidden` the task's, `momentum` the optimizer's, `nonfinite`
'skip' where gradients are clipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from .. import checks, init, tasks
from ..regularizer import CONVENTIONS
from ..rnn.nonlinearity import NONLINEARITIES
from ..rnn.recurrence import BACKENDS
from .optimizer import OPTIMIZERS, USUAL_MOMENTUM
from .schedule import OF_EPOCHS, SCHEDULES

if TYPE_CHECKING:
    from .config import RunConfig

ALGORITHMS = {
    "sgd": "plain gradient descent",
    "sgd-c": "with norm clipping",
    "sgd-r": "with Ω, without clipping",
    "sgd-cr": "with clipping and Ω",
}
NAMES: dict[str, Any] = {
    "algorithm": ALGORITHMS,
    "nonlinearity": NONLINEARITIES,
    "init": init.REGISTRY,
    "optimizer": OPTIMIZERS,
    "omega": CONVENTIONS,
    "lr_schedule": SCHEDULES,
    "alpha_schedule": SCHEDULES,
    "after_success": ("stop", "polish"),
    "backend": BACKENDS,
    "dtype": ("float32", "float64"),
}
COUNTS = {
    "seed": 0,
    "batch": 1,
    "hidden": 1,
    "epoch": 1,
    "patience": 1,
    "max_updates": 1,
    "check_every": 1,
    "check_sequences": 1,
    "test_sequences": 1,
    "threads": 1,
}
NUMBERS: dict[str, dict[str, Any]] = {
    "leak": {"low": 0, "high": 1, "open_high": True},
    "lr": {"low": 0, "open_low": True},
    "momentum": {"low": 0, "high": 1, "open_high": True},
    "alpha": {"low": 0},
    "growth": {"low": 1, "open_low": True},
    "curriculum_loss": {"low": 0, "open_low": True},
    "max_seconds": {"low": 0, "open_low": True},
    "success": {"low": 0, "high": 1, "open_high": True},
    "polish": {"low": 0, "open_low": True},
}
MAY_BE_NONE = ("hidden", "momentum", "max_seconds")


def examine(config: RunConfig) -> tuple[dict[str, Any], list[str]]:
    """The values that fields shall have in place of what was given, and one sentence for each fault."""
    found = _Examination(config)
    task = found.attempt(_task, config)
    found.lengths("length", task)
    if config.curriculum is not None:
        found.lengths("curriculum", task)
        found.curriculum()
    if config.hidden is None and task is not None:
        found.settled["hidden"] = task.hidden_size
    for name, allowed in NAMES.items():
        found.attempt(checks.one_of, name, getattr(config, name), allowed)
    for name, low in COUNTS.items():
        if getattr(config, name) is not None or name not in MAY_BE_NONE:
            found.attempt(checks.whole, name, getattr(config, name), low=low)
    for name, bounds in NUMBERS.items():
        if getattr(config, name) is not None or name not in MAY_BE_NONE:
            found.settle(name, found.attempt(checks.number, name, getattr(config, name), **bounds))
    found.momentum()
    if config.algorithm in ALGORITHMS:
        found.clipping()
        found.regulariser()
    found.unused()
    return found.settled, found.faults


class _Examination:
    """The faults found so far, and the values settled so far."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.faults: list[str] = []
        self.settled: dict[str, Any] = {}

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

    def lengths(self, name: str, task: tasks.Task | None) -> None:
        value = getattr(self.config, name)
        if not _is_range(value):
            self.faults.append(f"{name} must be a pair of whole numbers, low before high, not {value!r}")
            return
        self.settled[name] = low, _ = tuple(value)
        if task is not None and low < task.minimum_length:
            least = task.minimum_length
            self.faults.append(f"{name} must begin at {least} or more, the shortest {task.name} can be, not at {low}")

    def curriculum(self) -> None:
        start, target = self.settled.get("curriculum"), self.settled.get("length")
        if start and target and any(first > last for first, last in zip(start, target, strict=True)):
            self.faults.append(f"curriculum must begin below length, {target}, to grow into it, not at {start}")

    def momentum(self) -> None:
        given, usual = self.config.momentum, USUAL_MOMENTUM.get(self.config.optimizer)
        if given is None:
            self.settle("momentum", usual)
        elif self.config.optimizer == "sgd":
            self.faults.append(f"momentum must be left out with optimizer 'sgd', which has none, not {given!r}")

    def clipping(self) -> None:
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

    def regulariser(self) -> None:
        config = self.config
        if config.regularises and config.alpha == 0:
            self.faults.append(f"alpha must be above 0 with {self._algorithm()}")
        if not config.regularises and config.alpha != 0:
            self.faults.append(f"alpha must be 0 with {self._algorithm()}, not {config.alpha!r}")

    def unused(self) -> None:
        """An option that nothing would read is refused, not ignored."""
        config = self.config
        by_epoch = config.lr_schedule in OF_EPOCHS or config.alpha_schedule in OF_EPOCHS
        no_curriculum = (config.curriculum is None, "without a curriculum")
        reasons = {
            "growth": no_curriculum,
            "patience": no_curriculum,
            "curriculum_loss": no_curriculum,
            "polish": (config.after_success == "stop", "with after_success='stop'"),
            "epoch": (not by_epoch, f"unless a schedule is {' or '.join(map(repr, OF_EPOCHS))}"),
            "alpha_schedule": (not config.regularises, f"with {config.algorithm!r}, which has no Ω"),
        }
        defaults = {each.name: each.default for each in fields(config)}
        for name, (unused, why) in reasons.items():
            if unused and getattr(config, name) != defaults[name]:
                self.faults.append(f"{name} must be left out {why}, not {getattr(config, name)!r}")

    def _algorithm(self) -> str:
        return f"algorithm {self.config.algorithm!r} ({ALGORITHMS[self.config.algorithm]})"


def _task(config: RunConfig) -> tasks.Task:
    options: Any = config.task_options
    if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
        raise ValueError(f"task_options must be a dict of the task's own options, not {options!r}")
    return tasks.get(config.task, **options)


def _is_range(value: Any) -> bool:
    """Whether `value` is a pair (low, high) of whole numbers, in order."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return False
    whole = all(isinstance(end, int) and not isinstance(end, bool) for end in value)
    return whole and value[0] <= value[1]

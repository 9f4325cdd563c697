"""What the settings of a run on a task must be, one with another. All faults are found at once, each by name.

`hidden` is None until here, and gets the task's number; for what else gets its usual value see examination.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import tasks
from . import examination
from .examination import ALGORITHMS as ALGORITHMS
from .examination import Examination
from .schedule import OF_EPOCHS, OF_LENGTH, SCHEDULES

if TYPE_CHECKING:
    from .config import RunConfig

NAMES: dict[str, Iterable[str]] = {
    **examination.NAMES,
    "lr_schedule": (*SCHEDULES, *OF_LENGTH),
    "after_success": ("stop", "polish"),
}
COUNTS = {
    **examination.COUNTS,
    "epoch": 1,
    "patience": 1,
    "max_updates": 1,
    "check_every": 1,
    "check_sequences": 1,
    "test_sequences": 1,
    "average": 1,
}
NUMBERS: dict[str, dict[str, Any]] = {
    **examination.NUMBERS,
    "growth": {"low": 1, "open_low": True},
    "curriculum_loss": {"low": 0, "open_low": True},
    "success": {"low": 0, "high": 1, "open_high": True},
    "polish": {"low": 0, "open_low": True},
}
MAY_BE_NONE = ("hidden", "momentum", "max_seconds")


def examine(config: RunConfig) -> tuple[dict[str, Any], list[str]]:
    """The values that fields shall have in place of what was given, and one sentence for each fault."""
    found = _Examination(config, MAY_BE_NONE)
    task = found.attempt(_task, config)
    found.lengths("length", task)
    if config.curriculum is not None:
        found.lengths("curriculum", task)
        found.curriculum()
    if config.hidden is None and task is not None:
        found.settled["hidden"] = task.hidden_size
    found.names(NAMES)
    found.counts(COUNTS)
    found.numbers(NUMBERS)
    found.algorithm()
    found.leftovers()
    return found.settled, found.faults


class _Examination(Examination):
    """With what only a run on a task has: lengths, and a curriculum."""

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

    def leftovers(self) -> None:
        """What nothing would read."""
        config = self.config
        by_epoch = config.lr_schedule in OF_EPOCHS or config.alpha_schedule in OF_EPOCHS
        no_curriculum = (config.curriculum is None, "without a curriculum")
        self.unused(
            {
                "growth": no_curriculum,
                "patience": no_curriculum,
                "curriculum_loss": no_curriculum,
                "polish": (config.after_success == "stop", "with after_success='stop'"),
                "epoch": (not by_epoch, f"unless a schedule is {' or '.join(map(repr, OF_EPOCHS))}"),
                "alpha_schedule": (not config.regularises, f"with {config.algorithm!r}, which has no Ω"),
            }
        )


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

"""The named settings, in one table.

paper     the supplement's, task by task. It gives none for memorization: those are temporal order's.
proceedings  what the final edition says: rate 0.01, no momentum, threshold 1, Ω of squared norms before σ with α = 4, and
          training goes on until none of 10,000 test sequences is wrong. It gives α for temporal order alone; the
          other tasks have the supplement's.
program   what the authors' program does where it differs from the paper: Ω of squared norms after σ, its own clipping
          and rate, sparse W_rec scaled to ρ = 0.95, [50, 200), and no rest before 0 % are wrong.
steady    this library's own: rectified units, lengths that grow, Adam, and the mean of the weights before each test.
"""

from __future__ import annotations

from typing import Any

from ..checks import one_of
from ..tasks import names as task_names
from .config import ALGORITHMS, RunConfig

Settings = dict[str, Any]

PAPER: Settings = {"length": (50, 200), "init": "basic_tanh", "threshold": 6.0, "max_updates": 5_000_000}
PAPER_BY_TASK: dict[str, Settings] = {
    "temporal-order": {"lr": 0.001, "alpha": 2.0},
    "temporal-order-3bit": {"lr": 0.001, "alpha": 2.0},
    "addition": {"lr": 0.01, "alpha": 0.5},
    "multiplication": {"lr": 0.01, "alpha": 0.5},
    "random-permutation": {"lr": 0.001, "alpha": 1.0},
    "memorization-5bit": {"lr": 0.001, "alpha": 2.0},
    "memorization-20bit": {"lr": 0.001, "alpha": 2.0},
}

PROCEEDINGS: Settings = {
    "length": (50, 200),
    "init": "basic_tanh",
    "lr": 0.01,
    "threshold": 1.0,
    "omega": "proceedings",
    "success": 0.0,
    "max_updates": 5_000_000,
}
PROCEEDINGS_BY_TASK: dict[str, Settings] = {
    "temporal-order": {"alpha": 4.0},
    "temporal-order-3bit": {"alpha": 4.0},
    "addition": {"alpha": 0.5, "task_options": {"criterion": "squared"}},
    "multiplication": {"alpha": 0.5, "task_options": {"criterion": "squared"}},
    "random-permutation": {"alpha": 1.0},
    "memorization-5bit": {"alpha": 4.0},
    "memorization-20bit": {"alpha": 4.0},
}

PROGRAM: Settings = {
    "length": (50, 199),
    "init": "smart_tanh",
    "lr": 0.01,
    "threshold": 1.0,
    "nonfinite": "shrink",
    "omega": "program",
    "success": 0.0,
    "max_updates": 5_000_000,
}
PROGRAM_BY_TASK: dict[str, Settings] = {
    "temporal-order": {"alpha": 2.0, "task_options": {"positions": "program"}},
    "temporal-order-3bit": {"alpha": 2.0, "task_options": {"positions": "program"}},
    "addition": {"alpha": 0.5, "task_options": {"criterion": "squared"}},
    "multiplication": {"alpha": 0.5, "task_options": {"criterion": "squared"}},
    "random-permutation": {"alpha": 1.0, "task_options": {"predict": "last"}},
    "memorization-5bit": {"alpha": 2.0, "task_options": {"counted": "all"}},
    "memorization-20bit": {"alpha": 2.0, "task_options": {"counted": "all"}},
}

# Rectified units that begin by keeping what they have (Le, Jaitly & Hinton 2015): their memory is linear, and does not fade
# as that of tanh does. Nothing but Ω then holds the error, and the state, from growing.
STEADY: Settings = {
    "length": (50, 200),
    "nonlinearity": "relu",
    "init": "identity",
    "optimizer": "adam",
    "lr": 0.0005,
    "threshold": 1.0,
    "alpha": 10.0,
    "curriculum": (10, 15),
    "curriculum_loss": 0.05,
    "check_every": 500,
    "average": 500,
    "after_success": "polish",
    "polish": 2.0,
    "max_updates": 100_000,
}
# A mean squared error: 0.04 is what a constant answer earns, 0.00024 what 99 % within 0.04 take. The rate's noise keeps it
# near 0.004 at first, so the lengths grow before that and the last digits come as the rate falls.
SUM: Settings = {
    "lr": 0.001,
    "lr_schedule": "cosine",
    "alpha": 1.0,
    "curriculum_loss": 0.005,
    "patience": 200,
    "max_updates": 30_000,
}
# Many symbols are more than a state can hold still. But a cycle of rectified units carries them along unharmed, to where
# they stand when they are due. That is elsewhere at every length: none can grow, and that a model errs at another is no fault.
RECALL: Settings = {
    "init": "cycle",
    "lr": 0.0005,
    "lr_schedule": "1/length",
    "threshold": 0.1,
    "curriculum": None,
    "after_success": "stop",
    "max_updates": 20_000,
}
STEADY_BY_TASK: dict[str, Settings] = {
    "temporal-order": {},
    "temporal-order-3bit": {},
    "addition": SUM,
    "multiplication": SUM,
    "random-permutation": {},
    "memorization-5bit": RECALL,
    "memorization-20bit": RECALL,
}

PRESETS: dict[str, tuple[Settings, dict[str, Settings]]] = {
    "paper": (PAPER, PAPER_BY_TASK),
    "proceedings": (PROCEEDINGS, PROCEEDINGS_BY_TASK),
    "program": (PROGRAM, PROGRAM_BY_TASK),
    "steady": (STEADY, STEADY_BY_TASK),
}
OF_CLIPPING = ("threshold", "nonfinite")
OF_OMEGA = ("alpha",)
OF_CURRICULUM = ("curriculum", "growth", "patience", "curriculum_loss")


def preset(task: str, algorithm: str = "sgd-cr", name: str = "paper", **overrides: Any) -> RunConfig:
    """The settings called `name`, for a task and an algorithm.

    What the algorithm does not do is left out of them (the threshold of 'sgd', say), and so is a curriculum that begins
    above the lengths asked for.

    Args:
        task: a name of `steadygrad.tasks`.
        algorithm: 'sgd', 'sgd-c', 'sgd-r' or 'sgd-cr'.
        name: 'paper', 'proceedings', 'program' or 'steady'.
        **overrides: fields of `RunConfig` that shall be otherwise.

    Returns:
        A `RunConfig`.

    Example:
        >>> config = preset("temporal-order", "sgd-c", "paper", seed=3)
        >>> config.lr, config.threshold, config.alpha, config.seed
        (0.001, 6.0, 0.0, 3)
        >>> preset("temporal-order", name="stedy")
        Traceback (most recent call last):
        ValueError: preset must be one of 'paper', 'proceedings', 'program', 'steady', not 'stedy' (did you mean 'steady'?)

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "Experimental setup".
    """
    one_of("task", task, task_names())
    one_of("algorithm", algorithm, ALGORITHMS)
    shared, by_task = PRESETS[one_of("preset", name, PRESETS)]
    settings = {**shared, **by_task[task]}
    unused: tuple[str, ...] = ()
    if algorithm not in ("sgd-c", "sgd-cr"):
        unused += OF_CLIPPING
    if algorithm not in ("sgd-r", "sgd-cr"):
        unused += OF_OMEGA
    if not _fits(settings.get("curriculum"), overrides):
        unused += OF_CURRICULUM
    if {**settings, **overrides}.get("after_success") == "stop":
        unused += ("polish",)
    settings = {field: value for field, value in settings.items() if field not in unused}
    return RunConfig(task, algorithm, **{**settings, **overrides})


def _fits(curriculum: tuple[int, int] | None, overrides: Settings) -> bool:
    """Whether the preset's curriculum, if it has one, can grow into the lengths asked for."""
    if curriculum is None or overrides.get("curriculum", curriculum) is None:
        return False
    if "curriculum" in overrides or "length" not in overrides:
        return True
    try:
        low, high = overrides["length"]
        return curriculum[0] <= low and curriculum[1] <= high and curriculum != (low, high)
    except (TypeError, ValueError):
        return True  # RunConfig will say what is wrong with the length

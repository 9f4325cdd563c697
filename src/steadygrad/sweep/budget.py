"""How much is run: the numbers that make the difference between minutes and weeks, in one place.

demo      two to three minutes on two cores      the effect, at lengths 10, 20 and 50
minutes   about ten                              the effect, at all lengths
hours     a night                                enough seeds to believe it
full      weeks                                  the paper's protocol: 50 seeds, up to 5·10⁶ updates

Of Tables 1 and 2 `minutes` has `steady` alone and few epochs; `hours` one seed of both settings, `paper` with few epochs;
`full` three seeds of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steadygrad.experiments.config import TASKS as ALL_TASKS

PAPERS_TASKS = tuple(name for name in ALL_TASKS if name != "recall")
"""Recall is not the paper's."""


@dataclass(frozen=True)
class Budget:
    """One row of a table below.

    Attributes:
        seeds: 1 … seeds.
        settings: fields of `Config` in place of the preset's; `max_updates` above all.
        presets: the settings to begin from.
        lengths: of Fig. 7; of memorization, which has a model for each length; the longest of each model of `LONGEST`.
        tasks: which of them.
        ablations: the algorithms that stand beside SGD-CR under `steady`.
        of: settings of 'paper' alone, or of the 'ablation': a run that solves nothing is the longest.
        fewer: seeds of either.
        permutation_seeds: seeds of random permutation, which the paper solved in 1 trial of 8.
    """

    seeds: int
    settings: Mapping[str, Any]
    presets: Sequence[str] = ("steady",)
    lengths: Sequence[int] = ()
    tasks: Sequence[str] = PAPERS_TASKS
    ablations: Sequence[str] = ("sgd", "sgd-c", "sgd-r")
    permutation_seeds: int = 0
    of: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    fewer: Mapping[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        object.__setattr__(self, "permutation_seeds", max(self.permutation_seeds, self.seeds))


@dataclass(frozen=True)
class DataBudget:
    """One row of a table of data sets.

    Attributes:
        seeds: 1 … seeds.
        epochs: where to stop, by preset and data set; a preset's own where nothing is said.
        presets: the settings, in the order in which they are run.
    """

    seeds: int
    epochs: Mapping[str, Mapping[str, int]]
    presets: Sequence[str] = ("paper", "steady")

    def settings(self, preset: str, problem: str) -> dict[str, Any]:
        """Fields of `Config` in place of the preset's.

        >>> DataBudget(1, {"paper": {"ptb": 3}}).settings("paper", "ptb")
        {'epochs': 3}
        """
        epochs = self.epochs.get(preset, {}).get(problem)
        return {} if epochs is None else {"epochs": epochs}


EVERY_LENGTH = (10, 20, 50, 100, 150, 200)
MEMORIZATION = (50, 100, 150, 200)
FIG7: dict[str, Budget] = {
    "demo": Budget(3, {"max_updates": 16_000}, ("fig7",), lengths=(10, 20, 50)),
    "minutes": Budget(3, {"max_updates": 40_000}, ("fig7",), lengths=EVERY_LENGTH),
    "hours": Budget(5, {"max_updates": 150_000}, ("fig7",), lengths=EVERY_LENGTH),
    "full": Budget(50, {"max_updates": 5_000_000}, ("paper",), lengths=EVERY_LENGTH),
}

SHORTER = {"paper": {"max_updates": 30_000}, "ablation": {"max_updates": 30_000}}
"""As many updates as `steady` has for its slowest task."""

TASKS: dict[str, Budget] = {
    "minutes": Budget(
        1,
        {},
        lengths=(50,),
        tasks=("temporal-order", "addition", "memorization-5bit"),
        ablations=("sgd-c",),
        of=SHORTER,
    ),
    "hours": Budget(
        5,
        {},
        ("paper", "steady"),
        MEMORIZATION,
        ablations=("sgd-c", "sgd-r"),
        permutation_seeds=8,
        of=SHORTER,
        fewer={"paper": 1, "ablation": 3},
    ),
    "full": Budget(50, {"max_updates": 5_000_000}, ("paper", "steady"), MEMORIZATION),
}

FINE: dict[str, Any] = {
    "init": "hold",
    "lr_schedule": "1/length^1.5",
    "threshold": 0.01,
    "success": 0.0002,
    "after_success": "stop",
    "max_updates": 60_000,
}
"""What the longest lengths need beside `steady`. A change of W_rec acts once in every step, so the steps must be fine; and once
the loss is near 0 and Adam used to small gradients, the rare large one must not come through. A test draws from
all lengths, and what is not held for long enough is wrong at the longest alone: 1 % there are some 0.02 % of all."""
REACH: dict[str, Any] = {**FINE, "success": 0.01}
"""As far as the paper's own success reaches: 1 % wrong over all lengths."""
EXACT: dict[str, Any] = {**FINE, "lr_schedule": "1/length", "alpha": 0.1}
"""What sums and products need: Ω keeps them from the exact numbers, and a rate that falls further comes to rest before them.
The longest err only some four times as often as all: 0.1 to 0.25 % will do."""
ORDER = ("temporal-order",)

LONGEST: dict[str, Sequence[Budget]] = {
    "minutes": [Budget(1, FINE, lengths=(500,), tasks=ORDER)],
    "hours": [
        Budget(3, FINE, lengths=(1000, 2000), tasks=ORDER),
        Budget(3, REACH, lengths=(5000,), tasks=ORDER),
        Budget(3, FINE, lengths=(1000,), tasks=("temporal-order-3bit", "random-permutation")),
        Budget(3, {**EXACT, "success": 0.001}, lengths=(1000,), tasks=("addition",)),
        Budget(3, {**EXACT, "success": 0.0025}, lengths=(500,), tasks=("multiplication",)),
        Budget(3, {}, lengths=(1000,), tasks=("memorization-5bit", "memorization-20bit")),
    ],
}

TABLE1: dict[str, DataBudget] = {
    "minutes": DataBudget(1, {"steady": {"piano-midi": 40, "nottingham": 30, "musedata": 18}}, ("steady",)),
    "hours": DataBudget(1, {"paper": {"piano-midi": 50, "nottingham": 25, "musedata": 15}}),
    "full": DataBudget(3, {"paper": {"piano-midi": 500, "nottingham": 500, "musedata": 500}}),
}

TABLE2: dict[str, DataBudget] = {
    "minutes": DataBudget(1, {"steady": {"ptb": 1}}, ("steady",)),
    "hours": DataBudget(1, {"paper": {"ptb": 1}}),
    "full": DataBudget(3, {}),
}

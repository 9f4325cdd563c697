"""The grids that have a name, and how large each budget makes them.

fig7       temporal order, a model for each length, SGD, SGD-C and SGD-CR          (Pascanu et al. 2013, Fig. 7)
tasks      every task as the paper does it, SGD-CR: one model for 50 to 200 steps (memorization: one for each of four
           lengths), the settings `paper` and `steady`, tested at 250, 300 and 400 steps
ablation   `steady` on every task without Ω (sgd-c), without clipping (sgd-r), and without both (sgd)
longest    how long a sequence `steady` can learn: 50 to L steps, tested at L and 2 L (memorization: L alone)
table1     music: Piano-midi.de, Nottingham, MuseData by SGD, SGD-C and SGD-CR     (Table 1)
table2     Penn Treebank characters, the next and the fifth ahead, likewise        (Table 2)
claims     section 4 by the paper's own tanh network, with Ω and without: `proceedings`, `tanh`, `paper` (claims.py)
recall     Ω for gated cells: the first token recalled after a delay, by RNN, GRU and LSTM, with Ω, without, and from initial
           gates that begin open; temporal order and addition by GRU and LSTM               (no part of the paper)
tuning     eight trials of each method that the paper discusses and each of its own (comparison.py)
comparison the best of them, side by side under the same seconds of one core
smoke      a few seconds, to see that all is well

demo       two to three minutes on two cores: the effect, at lengths 10, 20 and 50
minutes    about ten: the effect at all lengths; of the tables `steady` alone and few epochs
hours      a night: enough seeds to believe it; of the tables one seed of both settings, `paper` with few epochs
full       weeks, the paper's protocol: 50 seeds, up to 5·10⁶ updates; of the tables three seeds of all
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steadygrad.checks import one_of, whole
from steadygrad.experiments.config import TASKS as ALL_TASKS
from steadygrad.sweep import claims, comparison
from steadygrad.sweep.grid import Grid

PAPERS_TASKS = tuple(name for name in ALL_TASKS if name != "recall")  # recall is not the paper's
RANGE, BEYOND = (50, 200), (250, 300, 400)
"""The lengths of the paper's single models, and those at which they are tested."""
Settings = Mapping[str, Any]
Seeds = int | Sequence[int] | None


@dataclass(frozen=True)
class Budget:
    """The size of a grid."""

    seeds: int  # 1 … seeds
    settings: Settings = field(default_factory=dict)  # fields of `Config` in place of the preset's
    presets: Sequence[str] = ("steady",)
    lengths: Sequence[int] = ()  # of Fig. 7, of memorization (a model for each), the longest of each model of `LONGEST`
    tasks: Sequence[str] = PAPERS_TASKS
    ablations: Sequence[str] = ("sgd", "sgd-c", "sgd-r")  # beside SGD-CR under `steady`
    permutation_seeds: int = 0  # of random permutation, which the paper solved in 1 trial of 8, if more than `seeds`
    of: Mapping[str, Settings] = field(default_factory=dict)  # settings of 'paper' alone, or of the 'ablation'
    fewer: Mapping[str, int] = field(default_factory=dict)  # seeds of either: what solves nothing runs longest
    epochs: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # of data sets, by preset and problem


BOTH = ("paper", "steady")
EVERY_LENGTH, MEMORIZATION = (10, 20, 50, 100, 150, 200), (50, 100, 150, 200)
FIG7: dict[str, Budget] = {
    "demo": Budget(3, {"max_updates": 16_000}, ("fig7",), lengths=(10, 20, 50)),
    "minutes": Budget(3, {"max_updates": 40_000}, ("fig7",), lengths=EVERY_LENGTH),
    "hours": Budget(5, {"max_updates": 150_000}, ("fig7",), lengths=EVERY_LENGTH),
    "full": Budget(50, {"max_updates": 5_000_000}, ("paper",), lengths=EVERY_LENGTH),
}
# As many updates as `steady` has for its slowest task.
SHORTER: dict[str, Settings] = {"paper": {"max_updates": 30_000}, "ablation": {"max_updates": 30_000}}
FEW_TASKS, FEWER = ("temporal-order", "addition", "memorization-5bit"), {"paper": 1, "ablation": 3}
WITHOUT_ONE = ("sgd-c", "sgd-r")
TASKS: dict[str, Budget] = {
    "minutes": Budget(1, lengths=(50,), tasks=FEW_TASKS, ablations=("sgd-c",), of=SHORTER),
    "hours": Budget(5, {}, BOTH, MEMORIZATION, ablations=WITHOUT_ONE, permutation_seeds=8, of=SHORTER, fewer=FEWER),
    "full": Budget(50, {"max_updates": 5_000_000}, BOTH, MEMORIZATION),
}

FINE: Settings = {
    "init": "hold",
    "lr_schedule": "1/length^1.5",
    "threshold": 0.01,
    "success": 0.0002,
    "after_success": "stop",
    "max_updates": 60_000,
}
"""What the longest lengths need beside `steady`. A change of W_rec acts once in every step, so the steps must be fine; and once
the loss is near 0 and Adam used to small gradients, a rare large one must be clipped. A test draws from all lengths, and what
is not held for long enough is wrong at the longest alone: 1 % there are some 0.02 % of all."""
REACH: Settings = {**FINE, "success": 0.01}  # as far as the paper's own success reaches: 1 % wrong over all lengths
EXACT: Settings = {**FINE, "lr_schedule": "1/length", "alpha": 0.1}
"""What sums and products need: Ω keeps them from the exact numbers, and a rate that falls further stops before them.
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
MUSIC = ("piano-midi", "nottingham", "musedata")
TABLE1: dict[str, Budget] = {
    "minutes": Budget(1, epochs={"steady": dict(zip(MUSIC, (40, 30, 18), strict=True))}),
    "hours": Budget(1, presets=BOTH, epochs={"paper": dict(zip(MUSIC, (50, 25, 15), strict=True))}),
    "full": Budget(3, presets=BOTH, epochs={"paper": dict.fromkeys(MUSIC, 500)}),
}
TABLE2: dict[str, Budget] = {
    "minutes": Budget(1, epochs={"steady": {"ptb": 1}}),
    "hours": Budget(1, presets=BOTH, epochs={"paper": {"ptb": 1}}),
    "full": Budget(3, presets=BOTH),
}
NETWORKS = ("rnn", "gru", "lstm")
OF_RECALL: Settings = {
    "curriculum": None,
    "lr": 0.001,
    "alpha": 1.0,
    "average": 1,
    "after_success": "stop",
    "check_every": 250,
    "max_updates": 5000,
}
"""α = 1 was chosen on seed 101 of four (0.1, 1, 4, 10): the smallest that solves 50 and 200 steps with all three networks."""
CHOSEN = {
    ("recall", 1000, "rnn"): 0.1,
    ("recall", 1000, "gru"): 10.0,
    ("recall", 1000, "lstm"): 4.0,
    ("temporal-order", 200, "lstm"): 0.1,
    ("addition", 200, "gru"): 0.1,
}
"""Where another of the four was best on seed 101: solved soonest, else the least error."""
RECALL: dict[str, Budget] = {
    "minutes": Budget(1, OF_RECALL, lengths=(50,), tasks=()),
    "hours": Budget(5, OF_RECALL, lengths=(50, 200, 1000), tasks=("temporal-order", "addition"), fewer={"others": 3}),
}
SMOKE = {"minutes": Budget(2, {"max_updates": 1500, "check_every": 500, "after_success": "stop"}, lengths=(10,))}


def get(name: str, budget: str | None = None, *, seeds: Seeds = None, **overrides: Any) -> Grid:
    """The grid called `name`.

    Args:
        name: of `GRIDS`.
        budget: 'demo' (fig7), 'minutes', 'hours' or 'full'; by default 'minutes', of longest 'hours'.
        seeds: how many (1 … seeds) or which, in place of the budget's.
        **overrides: `presets` (fig7: `preset`), `tuned` (comparison: settings by method), or fields of `Config`.

    >>> len(get("fig7", "hours").cells)
    90
    >>> get("smok")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: grid must be one of 'fig7', 'tasks', ... 'smoke', not 'smok' (did you mean 'smoke'?)
    """
    make, budgets = GRIDS[one_of("grid", name, GRIDS)]
    usual = "hours" if name == "longest" else "minutes"
    size = budgets[one_of("budget of smoke" if name == "smoke" else "budget", budget or usual, budgets)]
    return make(name, size, seeds, overrides)


def _by_length(name: str, size: Budget, seeds: Seeds, overrides: dict[str, Any]) -> Grid:
    more: dict[str, Any] = {"presets": [overrides.pop("preset", size.presets[0])]}
    more |= {"test_lengths": (11,)} if name == "smoke" else {}
    lengths, usual = [(length, length) for length in size.lengths], {**size.settings, "after_success": "stop"}
    return Grid.product(name, lengths=lengths, seeds=_seeds(seeds, size.seeds), usual=usual, **more, **overrides)


def _by_task(name: str, size: Budget, seeds: Seeds, overrides: dict[str, Any]) -> Grid:
    ablation = name == "ablation"
    presets = ("steady",) if ablation else overrides.pop("presets", size.presets)
    grids = []
    for task, preset in itertools.product(size.tasks, presets):
        part = "ablation" if ablation else preset
        number = max(size.permutation_seeds, size.seeds) if task == "random-permutation" else size.seeds
        axes: dict[str, Any] = {"algorithms": size.ablations if ablation else ("sgd-cr",), "presets": [preset]}
        axes["seeds"] = _seeds(seeds, min(number, size.fewer.get(part, number)))
        if task.startswith("memorization"):  # a model for each length, and none for lengths beyond it
            axes["lengths"] = [(length, length) for length in size.lengths]
        else:
            axes |= {"lengths": [RANGE], "test_lengths": BEYOND}
        usual = {**size.settings, **size.of.get(part, {})}
        grids.append(Grid.product(name, problems=[task], usual=usual, **axes, **overrides))
    return _joined(name, grids)


def _longest(name: str, sizes: Sequence[Budget], seeds: Seeds, overrides: dict[str, Any]) -> Grid:
    grids = []
    for size in sizes:
        axes = {"algorithms": ["sgd-cr"], "presets": size.presets, "seeds": _seeds(seeds, size.seeds)}
        for task, length in itertools.product(size.tasks, size.lengths):
            low, tests = (length, (length,)) if task.startswith("memorization") else (RANGE[0], (length, 2 * length))
            own = {"problems": [task], "lengths": [(low, length)], "test_lengths": tests}
            grids.append(Grid.product(name, **axes, **own, usual=size.settings, **overrides))
    return _joined(name, grids)


def _of_data(name: str, size: Budget, seeds: Seeds, overrides: dict[str, Any]) -> Grid:
    presets = overrides.pop("presets", size.presets)
    problems, aheads = (MUSIC, None) if name == "table1" else (("ptb",), (1, 5))
    grids = []
    for preset, problem in itertools.product(presets, problems):
        epochs = size.epochs.get(preset, {}).get(problem)
        axes = {"problems": [problem], "presets": [preset], "seeds": _seeds(seeds, size.seeds)}
        usual = {} if epochs is None else {"epochs": epochs}
        grids.append(Grid.product(name, **axes, aheads=aheads, usual=usual, **overrides))
    return _joined(name, grids)


def _recall(name: str, size: Budget, seeds: Seeds, overrides: dict[str, Any]) -> Grid:
    all_seeds, few = _seeds(seeds, size.seeds), _seeds(seeds, min(size.seeds, size.fewer.get("others", size.seeds)))
    grids = []

    def add(network: str, length: int, seeds: Sequence[int], problem: str = "recall", **more: Any) -> None:
        own = {"problems": [problem], "lengths": [(length, length)], "seeds": seeds, "presets": ["steady"]}
        more = {"algorithms": ("sgd-c", "sgd-cr"), **more, **overrides}
        if "sgd-cr" not in more["algorithms"]:
            more.pop("alpha", None)
        grids.append(Grid.product(name, **own, usual={**size.settings, "network": network}, **more))

    for length, network in itertools.product(size.lengths, NETWORKS):
        plain: Settings = {"inits": ["uniform"], "nonlinearity": "tanh"} if network == "rnn" else {}
        add(network, length, all_seeds, **plain)
        chosen = CHOSEN.get(("recall", length, network))
        if chosen is not None and "alpha" not in overrides:
            add(network, length, all_seeds, **plain, algorithms=("sgd-cr",), alpha=chosen)
        if network == "rnn":
            continue
        if network == "lstm":
            add(network, length, few, inits=["remember"], algorithms=("sgd-c",))
        add(network, length, few, inits=["chrono"], longest=length, algorithms=("sgd-c",))
        add(network, length, few, inits=["chrono"], longest=length // 10)
    for task, network in itertools.product(size.tasks, NETWORKS[1:]):
        chosen = CHOSEN.get((task, RANGE[1], network))
        add(network, RANGE[1], few, task, **({} if chosen is None else {"alpha": chosen}))
    return _joined(name, grids)


# By name: what makes the grid, and its budgets.
GRIDS: dict[str, tuple[Callable[..., Grid], Mapping[str, Any]]] = {
    "fig7": (_by_length, FIG7),
    "tasks": (_by_task, TASKS),
    "ablation": (_by_task, TASKS),
    "longest": (_longest, LONGEST),
    "table1": (_of_data, TABLE1),
    "table2": (_of_data, TABLE2),
    "claims": (claims.claims, claims.BUDGETS),
    "recall": (_recall, RECALL),
    "tuning": (comparison.tuning, comparison.BUDGETS),
    "comparison": (comparison.comparison, comparison.BUDGETS),
    "smoke": (_by_length, SMOKE),
}


def _joined(name: str, grids: Sequence[Grid]) -> Grid:
    """All cells under one name, those of the first seed first."""
    cells = [cell for grid in grids for cell in grid.cells]
    return Grid(name, tuple(sorted(cells, key=lambda cell: cell.config.seed)))


def _seeds(asked: Seeds, usual: int) -> Sequence[int]:
    if isinstance(asked, Sequence):
        return asked
    return range(1, (usual if asked is None else whole("seeds", asked)) + 1)

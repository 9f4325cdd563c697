"""The grids that have a name, and how large each budget makes them.

fig7       temporal order, a model for each length, SGD, SGD-C and SGD-CR          (Pascanu et al. 2013, Fig. 7)
panels     the same from three initialisations, with the settings of the final edition        (its Fig. 7, three panels)
tasks      every task as the paper does it, SGD-CR: one model for 50 to 200 steps (memorization: one for each of four
           lengths), the settings `paper` and `steady`, tested at 250, 300 and 400 steps
ablation   `steady` on every task without Ω (sgd-c), without clipping (sgd-r), and without both (sgd)
longest    how long a sequence `steady` can learn: 50 to L steps, tested at L and 2 L (memorization: L alone)
table1     music: Piano-midi.de, Nottingham, MuseData by SGD, SGD-C and SGD-CR     (Table 1)
table2     Penn Treebank characters, the next and the fifth ahead, likewise        (Table 2)
claims     section 4 by the paper's own tanh network, with Ω and without, the most important part first
recall     Ω for gated cells: the first token recalled after a delay, by RNN, GRU and LSTM, with Ω, without, and from initial
           gates that begin open; temporal order and addition by GRU and LSTM               (no part of the paper)
tuning     eight trials of each method that the paper discusses and each of its own (comparison.py)
comparison the best of them, side by side under the same seconds of one core
smoke      a few seconds, to see that all is well

demo       two to three minutes on two cores: the effect, at lengths 10, 20 and 50
minutes    about ten: the effect at all lengths; of the tables `steady` alone and few epochs
hours      a night: enough seeds to believe it; of the tables one seed of both settings (music by `steady` three), `paper`
           with few epochs
full       weeks, the paper's protocol: 50 seeds, up to 5·10⁶ updates; of the tables three seeds of all
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from steadygrad.checks import one_of
from steadygrad.experiments.config import TASKS as ALL_TASKS
from steadygrad.sweep import comparison
from steadygrad.sweep.grid import Cell, Grid, Seeds, chosen_seeds, read_by

PAPERS_TASKS = tuple(name for name in ALL_TASKS if name != "recall")  # recall is not the paper's
ORDER = ("temporal-order",)
Settings = Mapping[str, Any]
BY_SEED = attrgetter("config.seed")


@dataclass(frozen=True)
class Part:
    """Cells of a grid: under every preset every problem, by every length, algorithm and seed."""

    problems: Sequence[str]
    seeds: int  # 1 … seeds
    settings: Settings = field(default_factory=dict)  # fields of `Config` in place of the preset's
    presets: Sequence[str] = ("steady",)
    algorithms: Sequence[str] = ("sgd-cr",)
    lengths: Sequence[tuple[int, int]] | None = None
    test_lengths: Sequence[int] = ()
    memorization: Sequence[tuple[int, int]] = ()  # its own lengths, if any: a model for each, and no tests beyond it
    aheads: Sequence[int] | None = None
    inits: Sequence[str] | None = None
    named: Settings = field(default_factory=dict)  # settings that ids name
    of: Mapping[Any, Settings] = field(default_factory=dict)  # more settings of a preset, or of (preset, problem)
    seeds_of: Mapping[str, int] = field(default_factory=dict)  # in place of `seeds`, of a preset or else a problem

    def cells(self, name: str, seeds: Seeds, overrides: Settings) -> list[Cell]:
        """Those of the first seed first."""
        found: list[Cell] = []
        for preset, problem in itertools.product(self.presets, self.problems):
            number = self.seeds_of.get(preset, self.seeds_of.get(problem, self.seeds))
            axes: dict[str, Any] = {"lengths": self.lengths, "test_lengths": self.test_lengths, "aheads": self.aheads}
            if self.memorization and problem.startswith("memorization"):
                axes = {"lengths": self.memorization}
            axes |= {"presets": [preset], "algorithms": self.algorithms, "inits": self.inits}
            usual = {**self.settings, **self.of.get(preset, {}), **self.of.get((preset, problem), {})}
            axes |= {"problems": [problem], "seeds": chosen_seeds(seeds, number), "usual": usual}
            found += Grid.product(name, **axes, **{**self.named, **overrides}).cells
        return sorted(found, key=BY_SEED)


def _each(*lengths: int) -> list[tuple[int, int]]:
    return [(length, length) for length in lengths]


def _up_to(longest: int) -> dict[str, Any]:
    return {"lengths": [(50, longest)], "test_lengths": (longest, 2 * longest)}


ALGORITHMS, BOTH = ("sgd", "sgd-c", "sgd-cr"), ("paper", "steady")
EVERY_LENGTH = _each(10, 20, 50, 100, 150, 200)
STOP: Settings = {"after_success": "stop"}
FIG7 = {
    "demo": [Part(ORDER, 3, {**STOP, "max_updates": 16_000}, ("fig7",), ALGORITHMS, _each(10, 20, 50))],
    "minutes": [Part(ORDER, 3, {**STOP, "max_updates": 40_000}, ("fig7",), ALGORITHMS, EVERY_LENGTH)],
    "hours": [Part(ORDER, 5, {**STOP, "max_updates": 150_000}, ("fig7",), ALGORITHMS, EVERY_LENGTH)],
    "full": [Part(ORDER, 50, {**STOP, "max_updates": 5_000_000}, ("paper",), ALGORITHMS, EVERY_LENGTH)],
}


def _panels(with_omega: int, without: int, seeds: int | None = None) -> list[Part]:
    """A run ends once at most 1 % are wrong, as Fig. 7 counts, or after so many updates, with Ω and without."""
    parts: list[Part] = []
    axes: dict[str, Any] = {"presets": ("proceedings",), "lengths": _each(10, 20, 50, 100, 200)}
    for init, number in {"basic_tanh": 5, "smart_tanh": 5, "sigmoid": 3}.items():
        own = {**STOP, "success": 0.01, "nonlinearity": "sigmoid" if init == "sigmoid" else "tanh"}
        for most, limit, algorithms in ((number, with_omega, ("sgd-cr",)), (3, without, ("sgd", "sgd-c"))):
            settings = {**own, "max_updates": limit}
            parts.append(Part(ORDER, seeds or most, settings, algorithms=algorithms, inits=[init], **axes))
    return parts


PANELS = {
    "minutes": _panels(10_000, 10_000, 1),
    "hours": _panels(500_000, 100_000),
    "full": _panels(5_000_000, 5_000_000, 5),
}
SMOKE = [Part(ORDER, 2, {**STOP, "max_updates": 1500, "check_every": 500}, ("steady",), ALGORITHMS, _each(10), (11,))]

MEMORIZATION = ("memorization-5bit", "memorization-20bit")
FEW_TASKS = ("temporal-order", "addition", "memorization-5bit")
SHORTER: Settings = {"max_updates": 30_000}  # as many as `steady` has for its slowest task
FULL: Settings = {"max_updates": 5_000_000}
PERMUTATION = {"random-permutation": 8}  # seeds: the paper solved it in 1 trial of 8
SINGLE: dict[str, Any] = {"lengths": [(50, 200)], "test_lengths": (250, 300, 400)}  # of the paper's single models
FEW_LENGTHS = {**SINGLE, "memorization": _each(50)}
LENGTHS = {**SINGLE, "memorization": _each(50, 100, 150, 200)}
FEWER: dict[str, Any] = {"of": {"paper": SHORTER}, "seeds_of": {"paper": 1, **PERMUTATION}}
TASKS = {
    "minutes": [Part(FEW_TASKS, 1, **FEW_LENGTHS, of={"paper": SHORTER})],
    "hours": [Part((task,), 5, presets=BOTH, **LENGTHS, **FEWER) for task in PAPERS_TASKS],
    "full": [Part((task,), 50, FULL, BOTH, **LENGTHS) for task in PAPERS_TASKS],
}
ABLATION = {
    "minutes": [Part(FEW_TASKS, 1, SHORTER, algorithms=("sgd-c",), **FEW_LENGTHS)],
    "hours": [Part(PAPERS_TASKS, 3, SHORTER, algorithms=("sgd-c", "sgd-r"), **LENGTHS)],
    "full": [Part(PAPERS_TASKS, 50, FULL, algorithms=("sgd", "sgd-c", "sgd-r"), **LENGTHS)],
}

REACH: Settings = {**STOP, "init": "hold", "lr_schedule": "1/length^1.5", "threshold": 0.01, "max_updates": 60_000}
FINE: Settings = {**REACH, "success": 0.0002}
"""What the longest lengths need beside `steady`. A change of W_rec acts once in every step, so the steps must be fine; and once
the loss is near 0 and Adam used to small gradients, a rare large one must be clipped. A test draws from all lengths, and what
is not held for long enough is wrong at the longest alone: 1 % there are some 0.02 % of all. `REACH` keeps the paper's own
success, 1 % wrong over all lengths."""
EXACT: Settings = {**FINE, "lr_schedule": "1/length", "alpha": 0.1}
"""What sums and products need: Ω keeps them from the exact numbers, and a rate that falls further stops before them.
The longest err only some four times as often as all: 0.1 to 0.25 % will do."""
LONGEST = {
    "minutes": [Part(ORDER, 1, FINE, **_up_to(500))],
    "hours": [
        Part(ORDER, 3, FINE, **_up_to(1000)),
        Part(ORDER, 3, FINE, **_up_to(2000)),
        Part(ORDER, 3, REACH, **_up_to(5000)),
        Part(("temporal-order-3bit", "random-permutation"), 3, FINE, **_up_to(1000)),
        Part(("addition",), 3, {**EXACT, "success": 0.001}, **_up_to(1000)),
        Part(("multiplication",), 3, {**EXACT, "success": 0.0025}, **_up_to(500)),
        Part(MEMORIZATION, 3, lengths=_each(1000), test_lengths=(1000,)),
    ],
}
MUSIC = ("piano-midi", "nottingham", "musedata")


def _epochs(preset: str, *epochs: int) -> dict[Any, Settings]:
    return {(preset, name): {"epochs": number} for name, number in zip(MUSIC, epochs, strict=True)}


TABLE1 = {
    "minutes": [Part(MUSIC, 1, algorithms=ALGORITHMS, of=_epochs("steady", 40, 30, 18))],
    "hours": [
        Part(MUSIC, 3, presets=BOTH, algorithms=ALGORITHMS, of=_epochs("paper", 50, 25, 15), seeds_of={"paper": 1})
    ],
    "full": [Part(MUSIC, 3, presets=BOTH, algorithms=ALGORITHMS, of=_epochs("paper", 500, 500, 500))],
}
TEXT: dict[str, Any] = {"problems": ("ptb",), "algorithms": ALGORITHMS, "aheads": (1, 5)}
TABLE2 = {
    "minutes": [Part(seeds=1, **TEXT, of={"steady": {"epochs": 1}})],
    "hours": [Part(seeds=1, presets=BOTH, **TEXT, of={"paper": {"epochs": 5}})],
    "full": [Part(seeds=3, presets=BOTH, **TEXT)],
}

OTHERS = ("addition", "multiplication", "temporal-order-3bit", "random-permutation", *MEMORIZATION)
FURTHER: dict[str, Any] = {"test_lengths": (250, 400, 500, 1000, 2000, 3000, 5000)}  # as the final edition tests
OF_CLAIMS: dict[str, Any] = {"lengths": [(50, 200)], **FURTHER, "memorization": _each(50, 200)}
SUMS = ("addition", "multiplication")


def _tanh(seeds: int, max_updates: int, algorithm: str) -> list[Part]:
    """The other tasks by the settings `tanh`, which learn sums and products up to the 500 steps that are claimed of them."""
    updates, usual = {"max_updates": max_updates}, {**OF_CLAIMS, "seeds_of": PERMUTATION if seeds > 3 else {}}
    lengths = {task: {"lengths": [(50, 500)]} for task in SUMS}
    return [Part((t,), seeds, updates, ("tanh",), (algorithm,), **{**usual, **lengths.get(t, {})}) for t in OTHERS]


HOURS = [
    Part(ORDER, 5, {"max_updates": 1_000_000}, ("proceedings", "tanh", "latch"), **OF_CLAIMS),
    Part(ORDER, 5, {"max_updates": 200_000}, ("tanh", "latch"), ("sgd-c", "sgd-r"), **OF_CLAIMS),
    Part(ORDER, 3, {"max_updates": 200_000}, ("proceedings",), ("sgd-c",), **OF_CLAIMS),
    *_tanh(5, 300_000, "sgd-cr"),
    *_tanh(3, 100_000, "sgd-c"),
    *(Part((task,), 3, {"max_updates": 300_000}, ("proceedings",), **OF_CLAIMS) for task in OTHERS),
    *(Part((task,), 3, {"max_updates": 1_000_000}, ("paper",), **OF_CLAIMS) for task in ("temporal-order", "addition")),
]
"""The claims, the most important first. What solves nothing costs most, so each part has its own limit of updates. The longest
lengths, up to 5,000, are those at which `latch` is tested."""
CLAIMS = {
    "minutes": [Part(ORDER, 1, {"max_updates": 60_000}, ("tanh",), ("sgd-c", "sgd-cr"), **OF_CLAIMS)],
    "hours": HOURS,
    "full": [replace(part, settings=FULL) for part in HOURS],
}

NETWORKS = ("rnn", "gru", "lstm")
OF_RECALL: dict[str, Any] = {**STOP, "curriculum": None, "lr": 0.001, "alpha": 1.0, "average": 1}
OF_RECALL |= {"check_every": 250, "max_updates": 5000}
"""α = 1 was chosen on seed 101 of four (0.1, 1, 4, 10): the smallest that solves 50 and 200 steps with all three networks."""
CHOSEN = {
    ("recall", 1000, "rnn"): 0.1,
    ("recall", 1000, "gru"): 10.0,
    ("recall", 1000, "lstm"): 4.0,
    ("temporal-order", 200, "lstm"): 0.1,
    ("addition", 200, "gru"): 0.1,
}
"""Where another of the four was best on seed 101: solved soonest, else the least error."""


def _recall(seeds: int, few: int, lengths: Sequence[int], tasks: Sequence[str] = ()) -> list[Part]:
    """A budget of `recall`; `few` are the seeds of what is beside Ω and nothing."""

    def part(network: str, length: int, seeds: int, problem: str = "recall", **more: Any) -> Part:
        settings = {**OF_RECALL, "network": network, **more.pop("settings", {})}
        more = {"algorithms": ("sgd-c", "sgd-cr"), **more}
        return Part((problem,), seeds, settings, lengths=_each(length), **more)

    parts: list[Part] = []
    for length, network in itertools.product(lengths, NETWORKS):
        plain = {"inits": ["uniform"], "settings": {"nonlinearity": "tanh"}} if network == "rnn" else {}
        parts.append(part(network, length, seeds, **plain))
        if chosen := CHOSEN.get(("recall", length, network)):
            parts.append(part(network, length, seeds, **plain, algorithms=("sgd-cr",), named={"alpha": chosen}))
        if network == "lstm":
            parts.append(part(network, length, few, inits=["remember"], algorithms=("sgd-c",)))
        if network != "rnn":
            told, tenth = {"longest": length}, {"longest": length // 10}
            parts.append(part(network, length, few, inits=["chrono"], named=told, algorithms=("sgd-c",)))
            parts.append(part(network, length, few, inits=["chrono"], named=tenth))
    for task, network in itertools.product(tasks, NETWORKS[1:]):
        chosen = CHOSEN.get((task, 200, network))
        parts.append(part(network, 200, few, task, named={"alpha": chosen} if chosen else {}))
    return parts


RECALL = {"minutes": _recall(1, 1, (50,)), "hours": _recall(5, 3, (50, 200, 1000), ("temporal-order", "addition"))}


def get(name: str, budget: str | None = None, *, seeds: Seeds = None, **overrides: Any) -> Grid:
    """The grid called `name`.

    Args:
        name: of `GRIDS`.
        budget: 'demo' (fig7), 'minutes', 'hours' or 'full'; by default 'minutes', of longest 'hours'.
        seeds: how many (1 … seeds) or which, in place of the budget's.
        **overrides: `presets`, `tuned` (comparison: settings by method), or fields of `Config`.

    >>> len(get("fig7", "hours").cells)
    90
    >>> get("smok")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: grid must be one of 'fig7', 'panels', ... 'smoke', not 'smok' (did you mean 'smoke'?)
    """
    make, budgets = GRIDS[one_of("grid", name, GRIDS)]
    usual = "hours" if name == "longest" else "minutes"
    size = budgets[one_of("budget of smoke" if name == "smoke" else "budget", budget or usual, budgets)]
    return make(name, size, seeds, overrides)


def _of_parts(name: str, parts: Sequence[Part], seeds: Seeds, overrides: dict[str, Any]) -> Grid:
    presets = overrides.pop("presets", None)
    asked = parts if presets is None else [replace(part, presets=presets) for part in parts]
    reading = [{field for each in part.algorithms for field in read_by(each, overrides)} for part in asked]
    unread = overrides.keys() - set.union(*reading)  # they stay where they are, to be refused
    cells = [
        cell
        for part, read in zip(asked, reading, strict=True)
        for cell in part.cells(name, seeds, {field: overrides[field] for field in overrides if field in read | unread})
    ]
    # two parts may be the same cells where an override takes the place of what tells them apart
    distinct = {(cell.id, cell.config.to_json()): cell for cell in cells}.values()
    return Grid(name, tuple(distinct if name == "claims" else sorted(distinct, key=BY_SEED)))


# By name: what makes the grid, and its budgets.
GRIDS: dict[str, tuple[Callable[..., Grid], Mapping[str, Any]]] = {
    "fig7": (_of_parts, FIG7),
    "panels": (_of_parts, PANELS),
    "tasks": (_of_parts, TASKS),
    "ablation": (_of_parts, ABLATION),
    "longest": (_of_parts, LONGEST),
    "table1": (_of_parts, TABLE1),
    "table2": (_of_parts, TABLE2),
    "claims": (_of_parts, CLAIMS),
    "recall": (_of_parts, RECALL),
    "tuning": (comparison.tuning, comparison.BUDGETS),
    "comparison": (comparison.comparison, comparison.BUDGETS),
    "smoke": (_of_parts, {"minutes": SMOKE}),
}

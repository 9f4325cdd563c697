"""The grids of the comparison: every method of section 3.1 of the paper beside SGD, SGD-C and SGD-CR (Pascanu et al. 2013).

    tuning       each method's two most important settings, eight candidates, on temporal order at 50 and seed 101 (teacher
                 forcing, which needs a target at every step, on memorization)
    comparison   each method with its best candidate: temporal order and addition at 50 and 200, memorization at 50

All begin from the settings `fig7`: the paper's tanh network, momentum, lengths that grow from 50 where the problem is longer.
What a method has of its own is in `METHODS`, and nothing else differs. A cell is limited by the seconds of one core. The best
candidate is the one that solved soonest, else the one that erred least.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Any

from steadygrad.experiments import preset
from steadygrad.sweep.grid import Cell, Grid, Seeds, chosen_seeds

Settings = Mapping[str, Any]
ORDER, ADDITION, MEMORIZATION = "temporal-order", "addition", "memorization-5bit"
EVERYWHERE: dict[str, tuple[int, ...]] = {ORDER: (50, 200), ADDITION: (50, 200), MEMORIZATION: (50,)}
BEGIN = 50  # where lengths begin to grow
LONG: dict[str, Settings] = {ADDITION: {"curriculum_loss": 0.005}}  # a mean squared error: a constant's is 0.04
SEED = 101  # settings are chosen on seeds from here on
OF_ONE_CORE: Settings = {"clock": "core", "threads": 1}  # other work on the machine takes nothing from a method


@dataclass(frozen=True)
class Method:
    """A way to train; `label` is its name in tables."""

    label: str
    algorithm: str
    axes: Mapping[str, Sequence[Any]]  # its two most important settings and what is tried; the first without tuning
    settings: Settings = field(default_factory=dict)  # what else it has of its own
    growing: Settings = field(default_factory=dict)  # likewise, where lengths grow
    problems: Mapping[str, Sequence[int]] = field(default_factory=lambda: EVERYWHERE)  # the first is tuned on
    parameters_of_rnn: bool = False  # as many units as make no more parameters than the plain network has

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """Every combination of the two settings."""
        return [dict(zip(self.axes, values, strict=True)) for values in itertools.product(*self.axes.values())]


RATES, TWO_RATES = (0.003, 0.001, 0.01, 0.03), (0.003, 0.01)
CLIPPED: Settings = {"threshold": 1.0}
RELU: Settings = {"nonlinearity": "relu"}
BY_RATE_AND_NORM = {"lr": RATES, "threshold": (1.0, 0.1)}
LSTM = Method("LSTM", "sgd-c", {"lr": (0.03, 0.003, 0.01, 0.1), "init": ("remember", "uniform")}, {"network": "lstm"})
METHODS: dict[str, Method] = {
    "sgd": Method("SGD", "sgd", {"lr": (0.003, 0.0003, 0.001, 0.01), "momentum": (0.9, 0.0)}),
    "sgd-c": Method("SGD-C", "sgd-c", BY_RATE_AND_NORM),
    "sgd-cr": Method("SGD-CR", "sgd-cr", {"lr": RATES, "alpha": (8.0, 2.0)}, CLIPPED),
    "l1": Method("L1 penalty", "sgd", {"l1": (1e-4, 1e-5, 1e-3, 1e-2), "lr": (0.003, 0.001)}),
    "l2": Method("L2 penalty", "sgd", {"l2": (1e-3, 1e-4, 1e-2, 1e-1), "lr": (0.003, 0.001)}),
    "per-entry": Method(
        "clipped per entry", "sgd-c", {"threshold": (0.1, 0.001, 0.01, 1.0), "lr": TWO_RATES}, {"per": "entry"}
    ),
    "clip-error": Method("errors clipped", "sgd", {"clip_error": (0.01, 0.0001, 0.001, 0.1), "lr": TWO_RATES}),
    "orthogonal": Method("orthogonal start", "sgd-c", BY_RATE_AND_NORM, {"init": "orthogonal"}),
    "identity": Method("identity start (IRNN)", "sgd-c", BY_RATE_AND_NORM, {**RELU, "init": "identity"}),
    "radius": Method("ρ-scaled start", "sgd-c", {"radius": (1.1, 0.9, 1.0, 1.3), "lr": TWO_RATES}, CLIPPED),
    "hold": Method("hold start", "sgd-c", BY_RATE_AND_NORM, {**RELU, "init": "hold"}),
    "teacher-forcing": Method(
        "teacher forcing",
        "sgd-c",
        {"lr": RATES, "teacher_forcing": (1.0, 0.9)},
        {**CLIPPED, "options": {"counted": "all"}},
        problems={MEMORIZATION: (50,)},
    ),
    "lstm": LSTM,
    "lstm-small": replace(LSTM, label="LSTM, as many parameters", parameters_of_rnn=True),
    "hessian-free": Method(
        "Hessian-free",
        "sgd",
        {"structural": (0.1, 0.0, 0.01, 1.0), "damping": (0.1, 1.0)},
        {"optimizer": "hessian-free", "batch": 200, "curvature_batch": 50, "check_every": 5},
        {"curriculum_patience": 5},
    ),
    "echo-state": Method(
        "echo state network",
        "sgd",
        {"leak": (0.9, 0.0, 0.7, 0.97), "radius": (0.95, 1.2)},
        {"network": "echo-state", "hidden": 500, "batch": 100, "check_every": 50, "dtype": "float64"},
    ),
    "truncated": Method("truncated BPTT", "sgd-c", {"truncate": (25, 10, 40, 50), "lr": TWO_RATES}, CLIPPED),
}


@dataclass(frozen=True)
class Size:
    """How large a budget makes the grids."""

    seeds: int
    seconds: float
    trial_seconds: float
    problems: Mapping[str, Sequence[int]]


BUDGETS = {"minutes": Size(1, 30.0, 4.0, {ORDER: (50,)}), "hours": Size(3, 300.0, 180.0, EVERYWHERE)}


def tuning(name: str, size: Size, seeds: Seeds, overrides: Settings) -> Grid:
    """Eight trials of every method."""
    limit = {**OF_ONE_CORE, "max_seconds": size.trial_seconds}
    cells = [
        _cell(f"{method}-trial{trial}", about, next(iter(about.problems)), BEGIN, seed, {**limit, **tried, **overrides})
        for seed, (method, about) in itertools.product(chosen_seeds(seeds, 1, SEED), METHODS.items())
        for trial, tried in enumerate(about.candidates, 1)
    ]
    return Grid(name, tuple(cells))


def comparison(name: str, size: Size, seeds: Seeds, overrides: dict[str, Any]) -> Grid:
    """Every method on every problem that it can learn, with the settings `tuned`, by method; else its first candidate."""
    tuned: Mapping[str, Settings] = overrides.pop("tuned", {})
    limit = {**OF_ONE_CORE, "max_seconds": size.seconds}
    cells = [
        _cell(method, about, problem, length, seed, {**limit, **tuned.get(method, about.candidates[0]), **overrides})
        for seed, (method, about) in itertools.product(chosen_seeds(seeds, size.seeds), METHODS.items())
        for problem, lengths in about.problems.items()
        for length in lengths
        if length in size.problems.get(problem, ())
    ]
    return Grid(name, tuple(cells))


def best(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The settings of each method's best trial in the records of `tuning`: solved soonest, else the least error.

    With several seeds, the candidate that more of them solved comes first; then the mean seconds, or the mean error.
    """
    results: dict[str, dict[int, list[Any]]] = {}
    for record in records:
        # a trial that failed is worth as much as one that answers nothing right
        method, _, trial = record["preset"].rpartition("-trial")
        results.setdefault(method, {}).setdefault(int(trial), []).append(record["result"] or {"error": 1.0})

    def rank(found: Sequence[Any]) -> tuple[int, float]:
        solved = [result["seconds"] for result in found if result.get("solved")]
        return -len(solved), mean(solved or [result["error"] for result in found])

    return {
        name: METHODS[name].candidates[min(trials, key=lambda trial: rank(trials[trial])) - 1]
        for name, trials in results.items()
        if name in METHODS
    }


def _cell(name: str, about: Method, problem: str, length: int, seed: int, settings: Settings) -> Cell:
    own: dict[str, Any] = {"max_updates": 5_000_000, **about.settings}
    if length > BEGIN and about.settings.get("network") != "echo-state":
        own |= {**LONG.get(problem, {}), **about.growing}
    if about.parameters_of_rnn:
        own["hidden"] = lstm_units(problem)
    config = preset(problem, about.algorithm, "fig7", length=(length, length), seed=seed, **{**own, **settings})
    return Cell(f"{problem}_{length}_{name}_seed{seed}", config, name)


def lstm_units(problem: str) -> int:
    """The most units with which an LSTM has no more parameters than the plain network of the problem.

    >>> lstm_units("temporal-order")  # 50 units: 3,054 parameters, of the LSTM 2,948
    23
    """
    from steadygrad import tasks

    task: Any = tasks.get(problem)
    H, I, O = task.hidden_size, task.input_size, task.output_size
    number = H * (H + I + 1) + O * (H + 1)
    return max(h for h in range(1, H) if 4 * h * (h + I + 2) + O * (h + 1) <= number)

"""The named settings, in one table.

paper    the supplement's, set by set. It gives none for the JSB chorales and the user's own data: those are Nottingham's
         and the Penn Treebank's. It does not say how many sequences make an update, or how long it trained: its rates go
         with single sequences, and patience ends a run.
steady   this library's own.
"""

from __future__ import annotations

from typing import Any

from ..checks import one_of
from ..training.examination import ALGORITHMS
from .config import NaturalConfig
from .rules import NAMES_OF_DATA, TEXTS

Settings = dict[str, Any]

PAPER_MUSIC: Settings = {
    "nonlinearity": "sigmoid",
    "init": "sigmoid",
    "steps": 200,
    "batch": 1,
    "cost": "mean",
    "threshold": 8.0,
    "lr": 1.0,
    "lr_schedule": "half-when-worse",
    "alpha": 0.5,
    "alpha_schedule": "1/t",
    "epochs": 200,
    "patience": 20,
}
PAPER_TEXT: Settings = {
    "nonlinearity": "sigmoid",
    "init": "sigmoid",
    "bias": False,
    "steps": 200,
    "batch": 1,
    "cost": "sum",
    "threshold": 45.0,
    "epochs": 50,
    "patience": 5,
}
PAPER_BY_DATA: dict[str, Settings] = {
    "piano-midi": {"hidden": 300},
    "nottingham": {"hidden": 300},
    "musedata": {"hidden": 400, "lr": 0.5, "alpha": 0.1},
    "jsb": {"hidden": 300},
    "music": {"hidden": 300},
    "ptb": {"hidden": 500},
    "text": {"hidden": 500},
}
# The paper's rate depends on what is done to the gradient, and on how far ahead is predicted. 'sgd-r' is not the paper's:
# it has the rate of 'sgd', as nothing holds its gradient back either.
PAPER_NEXT: dict[str, Settings] = {
    "sgd": {"lr": 0.001},
    "sgd-c": {"lr": 0.01},
    "sgd-r": {"lr": 0.001, "alpha": 0.01},
    "sgd-cr": {"lr": 0.05, "alpha": 0.01},
}
PAPER_AHEAD: dict[str, Settings] = {
    "sgd": {"lr": 0.001},
    "sgd-c": {"lr": 0.1},
    "sgd-r": {"lr": 0.001, "alpha": 0.05, "alpha_schedule": "1/t"},
    "sgd-cr": {"lr": 0.05, "alpha": 0.05, "alpha_schedule": "1/t"},
}

# A sigmoid's slope is 1/4 at most: it takes rates at which tanh becomes chaotic, and learns faster for it.
# The cost is summed, so that every step of every piece weighs the same, and not those of a short last chunk more.
STEADY_MUSIC: Settings = {
    "nonlinearity": "sigmoid",
    "init": "orthogonal",
    "batch": 4,
    "cost": "sum",
    "threshold": 200.0,
    "optimizer": "adam",
    "lr": 0.003,
    "lr_schedule": "cosine",
    "alpha": 0.5,
    "alpha_schedule": "1/t",
    "epochs": 50,
    "patience": 10,
}
# Rectified units learn a text in fewer epochs than sigmoid units, and these in fewer than tanh.
STEADY_TEXT: Settings = {
    "nonlinearity": "relu",
    "init": "input_driven",
    "steps": 50,  # four times as many updates as 200 steps give, at the same cost; the state is carried all the same
    "batch": 16,
    "cost": "mean",
    "threshold": 0.5,
    "optimizer": "adam",
    "momentum": 0.5,
    "lr": 0.0015,
    "lr_schedule": "cosine",
    "alpha": 0.05,
    "epochs": 15,
    "patience": 3,
}
STEADY_AHEAD: Settings = {"epochs": 4}  # there is less to learn of what lies further ahead
STEADY_BY_DATA: dict[str, Settings] = {
    "piano-midi": {},
    "nottingham": {},
    "musedata": {"batch": 8, "lr": 0.004, "epochs": 30},
    "jsb": {},
    "music": {},
    "ptb": {},
    "text": {},
}

PRESETS = ("paper", "steady")
OF_CLIPPING = ("threshold", "nonfinite")
OF_OMEGA = ("alpha", "alpha_schedule")


def preset(data: str, algorithm: str = "sgd-cr", name: str = "steady", **overrides: Any) -> NaturalConfig:
    """The settings called `name`, for a set of data and an algorithm.

    What the algorithm does not do is left out of them (the threshold of 'sgd', say).

    Args:
        data: a name of `steadygrad.natural.NAMES`; 'text' and 'music' need `path`.
        algorithm: 'sgd', 'sgd-c', 'sgd-r' or 'sgd-cr'.
        name: 'paper' or 'steady'.
        **overrides: fields of `NaturalConfig` that shall be otherwise.

    Returns:
        A `NaturalConfig`.

    Example:
        >>> config = preset("ptb", "sgd-c", "paper", ahead=5)
        >>> config.lr, config.threshold, config.cost, config.bias
        (0.1, 45.0, 'sum', False)
        >>> preset("ptb", name="papr")
        Traceback (most recent call last):
        ValueError: preset must be one of 'paper', 'steady', not 'papr' (did you mean 'paper'?)

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "Natural tasks".
    """
    one_of("data", data, NAMES_OF_DATA)
    one_of("algorithm", algorithm, ALGORITHMS)
    text = data in TEXTS
    if one_of("preset", name, PRESETS) == "paper":
        settings = {**(PAPER_TEXT if text else PAPER_MUSIC), **PAPER_BY_DATA[data]}
        if text:
            settings |= (PAPER_NEXT if overrides.get("ahead", 1) == 1 else PAPER_AHEAD)[algorithm]
    else:
        settings = {**(STEADY_TEXT if text else STEADY_MUSIC), **STEADY_BY_DATA[data]}
        if overrides.get("ahead", 1) > 1:
            settings |= STEADY_AHEAD
    unused: tuple[str, ...] = ()
    if algorithm not in ("sgd-c", "sgd-cr"):
        unused += OF_CLIPPING
    if algorithm not in ("sgd-r", "sgd-cr"):
        unused += OF_OMEGA
    settings = {field: value for field, value in settings.items() if field not in unused}
    return NaturalConfig(data, algorithm, **{**settings, **overrides})

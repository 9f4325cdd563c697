"""Recurrent networks whose gradients neither explode nor vanish, and tools that show what the gradients do.

The layer, Ω and clipping are here; the rooms are `sg.analysis`, `sg.dynamics`, `sg.tasks`, `sg.data`, `sg.baselines` and
`sg.experiments`. Each name is loaded when it is first used, so that what needs no torch, such as `steadygrad --help`, does not
wait for it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import analysis as analysis
    from . import baselines as baselines
    from . import data as data
    from . import diagnosis as diagnosis
    from . import dynamics as dynamics
    from . import experiments as experiments
    from . import init as init
    from . import lightning as lightning
    from . import tasks as tasks
    from .clip import Auto as Auto
    from .clip import ClipStats as ClipStats
    from .clip import NormClipper as NormClipper
    from .clip import Percentile as Percentile
    from .clip import Spike as Spike
    from .clip import clip_grad_norm_ as clip_grad_norm_
    from .clip import grad_norm as grad_norm
    from .clip import nonfinite_parameters as nonfinite_parameters
    from .diagnosis import Watch as Watch
    from .diagnosis import watch as watch
    from .flow import GradientFlow as GradientFlow
    from .layers.convert import convert as convert
    from .layers.convert import revert as revert
    from .layers.gru import GRU as GRU
    from .layers.learned_state import LearnedState as LearnedState
    from .layers.lstm import LSTM as LSTM
    from .layers.recurrent import Recurrent as Recurrent
    from .layers.rnn import RNN as RNN
    from .regularizer import omega as omega

__version__ = "0.1.0"


def names_of(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names are loaded when they are first used.

    `homes` has the module of each name, relative to the package; nothing where the name is itself a module.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(homes[name] or f".{name}", package)
        value = vars(sys.modules[package])[name] = getattr(module, name) if homes[name] else module
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *homes})


_ROOMS = (
    *("analysis", "baselines", "data", "diagnosis", "dynamics", "experiments", "init", "lightning", "schedules"),
    "tasks",
)
_CLIPPING = (
    "Auto",
    "ClipStats",
    "NormClipper",
    "Percentile",
    "Spike",
    "clip_grad_norm_",
    "grad_norm",
    "nonfinite_parameters",
)
__getattr__, __dir__ = names_of(
    __name__,
    {
        **dict.fromkeys(_ROOMS, ""),
        **dict.fromkeys(_CLIPPING, ".clip"),
        **dict.fromkeys(("Watch", "watch"), ".diagnosis"),
        "GradientFlow": ".flow",
        "omega": ".regularizer",
        "GRU": ".layers.gru",
        "LSTM": ".layers.lstm",
        "RNN": ".layers.rnn",
        "LearnedState": ".layers.learned_state",
        "Recurrent": ".layers.recurrent",
        **dict.fromkeys(("convert", "revert"), ".layers.convert"),
    },
)

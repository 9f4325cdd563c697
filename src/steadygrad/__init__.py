"""Recurrent networks whose gradients neither explode nor vanish, and tools that show what the gradients do.

The layer, Ω and clipping are here; the rooms `sg.analysis`, `sg.dynamics`, `sg.tasks`, `sg.data` and `sg.training` are
loaded when they are first used.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from . import init as init
from .clip import Auto as Auto
from .clip import ClipStats as ClipStats
from .clip import NormClipper as NormClipper
from .clip import Percentile as Percentile
from .clip import clip_grad_norm_ as clip_grad_norm_
from .clip import grad_norm as grad_norm
from .clip import nonfinite_parameters as nonfinite_parameters
from .flow import GradientFlow as GradientFlow
from .regularizer import omega as omega
from .rnn.layer import RNN as RNN
from .rnn.state import LearnedState as LearnedState

if TYPE_CHECKING:
    from . import analysis as analysis
    from . import data as data
    from . import dynamics as dynamics
    from . import tasks as tasks
    from . import training as training

__version__ = "0.1.0"
_ROOMS = ("analysis", "data", "dynamics", "tasks", "training")


def __getattr__(name: str) -> ModuleType:
    if name in _ROOMS:
        return importlib.import_module(f"steadygrad.{name}")
    raise AttributeError(f"module 'steadygrad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})

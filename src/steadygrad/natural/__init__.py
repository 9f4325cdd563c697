"""Models of music and of text: settings, training, figures of merit, and what was trained.

`preset` gives the settings by name, `run` trains and gives the verdict, `evaluate` reads a part of the data with the best
weights, `load` hands out the model (Pascanu et al. 2013, section 4.2: polyphonic music and Penn Treebank characters).
"""

from .config import NaturalConfig as NaturalConfig
from .corpus import UNITS as UNITS
from .evaluation import evaluate as evaluate
from .network import Network as Network
from .presets import preset as preset
from .result import NaturalResult as NaturalResult
from .rules import NAMES_OF_DATA as NAMES
from .run import run as run
from .saved import Trained as Trained
from .saved import holds_run as holds_run
from .saved import load as load
from .saved import read_config as read_config

__all__ = [
    "NAMES",
    "UNITS",
    "NaturalConfig",
    "NaturalResult",
    "Network",
    "Trained",
    "evaluate",
    "holds_run",
    "load",
    "preset",
    "read_config",
    "run",
]

"""One harness for every experiment: a problem, a network and a method become a config; `run` trains it and gives the result.

    >>> from steadygrad import experiments
    >>> config = experiments.preset("temporal-order", "sgd-cr", "steady", length=(50, 200))
    >>> config.optimizer, config.nonlinearity
    ('adam', 'relu')

`run(config, directory)` trains, `evaluate(directory)` tests, `load(directory)` gives the trained network. What needs torch is
loaded when it is first used: the command line needs the declarations of the settings without it.
"""

from typing import TYPE_CHECKING

from .. import names_of
from ..storage import FolderError as FolderError
from .config import Config as Config
from .config import ConfigError as ConfigError
from .files import CheckpointError as CheckpointError
from .files import Result as Result
from .files import read_config as read_config
from .presets import preset as preset

if TYPE_CHECKING:
    from ..data.datasets import DataSet as DataSet
    from .evaluation import Trained as Trained
    from .evaluation import evaluate as evaluate
    from .evaluation import load as load
    from .loop import run as run
    from .network import Network as Network

__getattr__, __dir__ = names_of(
    __name__,
    {
        "DataSet": "..data.datasets",
        **dict.fromkeys(("Trained", "evaluate", "load"), ".evaluation"),
        "run": ".loop",
        "Network": ".network",
    },
)

"""Training a network on a task: settings, the loop, success, checkpoints, records.

`preset` gives the settings by name, `run` trains and gives the verdict, `evaluate` tests what was trained.
"""

from .checkpoint import CheckpointError as CheckpointError
from .config import ConfigError as ConfigError
from .config import RunConfig as RunConfig
from .evaluation import evaluate as evaluate
from .files import load as load
from .files import read_config as read_config
from .folder import FolderError as FolderError
from .network import Network as Network
from .presets import preset as preset
from .result import Result as Result
from .run import run as run

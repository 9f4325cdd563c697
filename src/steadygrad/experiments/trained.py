"""A trained network, and what a run keeps so that it can be used without its data.

    DIR/data.json   of a data set: width, symbols (the characters; null for music), unit, parts, sha256 of all the data

The checksum tells whether the user's own file is still the one the run was begun with, wherever it lies now.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from . import files
from .config import DRAWN, Config
from .files import FolderError
from .files import read_config as read_config
from .network import Network
from .result import SPLITS


@dataclass(frozen=True)
class Trained:
    """A trained network.

    Attributes:
        config: the settings it was trained with.
        model: the network, with the best weights of the run; `.rnn` and `.readout` are its layers.
        symbols: the characters its inputs and outputs stand for, if it is a model of text.
    """

    config: Config
    model: Network
    symbols: list[str] | None = None


def load(directory: str | Path) -> Trained:
    """The network of a run with its best weights, without its data.

    Args:
        directory: the run's folder.

    Returns:
        A `Trained`: `config`, `model` and `symbols`.
    """
    config = files.read_config(directory)
    symbols: list[str] | None = None
    if config.form == DRAWN:
        model = Network(config)
    else:
        about = _about(Path(directory))
        symbols, width = about["symbols"], about["width"]
        inputs, outputs = width if isinstance(width, list) else (width, width)
        cost = "classes" if symbols is not None else "keys"
        model = Network(config, SimpleNamespace(input_size=inputs, output_size=outputs, cost=about.get("cost", cost)))
    files.read_weights(model, directory)
    return Trained(config, model, symbols)


def keep_data(directory: Path, problem: Any) -> None:
    """Write down what the run is trained on, or see that it is still the same."""
    if (directory / files.DATA).exists():
        verify_data(directory, problem)
        return
    inputs, outputs = problem.input_size, problem.output_size
    about = {
        "width": inputs if inputs == outputs else [inputs, outputs],
        "symbols": problem.symbols,
        "cost": problem.cost,
        "unit": problem.unit,
        "parts": {split: problem.predictions(split) for split in SPLITS},
        "sha256": problem.checksum(),
    }
    files.write_json(directory / files.DATA, about)


def verify_data(directory: Path, problem: Any) -> None:
    """Refuse data that are not those of the run in `directory`."""
    if _about(directory)["sha256"] != problem.checksum():
        where = problem.config.path or problem.config.problem
        raise FolderError(
            f"{where} has changed since the run in {directory} was begun: put it back, or begin another run"
        )


def _about(directory: Path) -> dict[str, Any]:
    path = directory / files.DATA
    try:
        about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        _ = about["width"], about["symbols"], about["sha256"]
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is not there: the run has not begun to train yet") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} does not tell what the run was trained on ({type(error).__name__})") from error
    return about

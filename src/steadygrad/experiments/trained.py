"""A trained network without its data.

DIR/data.json   of a data set: width, symbols (the characters; null for music), unit, parts, sha256 of all the data; the
                checksum tells whether the user's own file is still the one the run was begun with, wherever it is now
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .. import storage
from ..storage import FolderError
from . import files
from .config import DRAWN, Config
from .network import Network
from .saved import SPLITS


@dataclass(frozen=True)
class Trained:
    """A network with the best weights of a run (`model.rnn`, `model.readout`), and the characters of a model of text."""

    config: Config
    model: Network
    symbols: list[str] | None = None


def load(directory: str | Path) -> Trained:
    """The network of the run in `directory` with its best weights, without its data."""
    config = files.read_config(directory)
    symbols: list[str] | None = None
    sizes: Any = None
    if config.form != DRAWN:
        about = _about(Path(directory))
        symbols, width = about["symbols"], about["width"]
        inputs, outputs = width if isinstance(width, list) else (width, width)
        cost = about.get("cost", "keys" if symbols is None else "classes")
        sizes = SimpleNamespace(input_size=inputs, output_size=outputs, cost=cost)
    model = Network(config, sizes)
    files.read_weights(model, directory)
    return Trained(config, model, symbols)


def keep_data(directory: Path, problem: Any) -> None:
    """Write down what the run is trained on, or see that it is still the same."""
    if (directory / files.DATA).exists():
        verify_data(directory, problem)
        return
    inputs, outputs = problem.input_size, problem.output_size
    about = {"width": inputs if inputs == outputs else [inputs, outputs], "symbols": problem.symbols}
    about |= {"cost": problem.cost, "unit": problem.unit}
    about |= {"parts": {split: problem.predictions(split) for split in SPLITS}, "sha256": problem.checksum()}
    storage.write_json(directory / files.DATA, about)


def verify_data(directory: Path, problem: Any) -> None:
    """Refuse data that are not those of the run in `directory`."""
    if _about(directory)["sha256"] != problem.checksum():
        where = f"{problem.config.path or problem.config.problem} has changed since the run in {directory} was begun"
        raise FolderError(f"{where}: put it back, or begin another run")


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

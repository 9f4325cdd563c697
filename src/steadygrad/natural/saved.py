"""What a run on music or text keeps so that its model can be used without the data.

    DIR/data.json   width, symbols (the characters; null for music), parts, sha256 of all the data

The checksum tells whether the user's own file is still the one the run was begun with.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..training import files
from ..training.folder import FolderError
from .config import NaturalConfig
from .corpus import SPLITS, Corpus
from .network import Network


@dataclass(frozen=True)
class Trained:
    """A trained model.

    Attributes:
        config: the settings it was trained with.
        model: the network, with the weights that were best on validation; `.rnn` and `.readout` are its layers.
        symbols: the characters its inputs and outputs stand for, or None for music, whose 88 are a piano's keys.
    """

    config: NaturalConfig
    model: Network
    symbols: list[str] | None


def load(directory: str | Path) -> Trained:
    """The model of a run, without its data.

    Args:
        directory: the run's folder.

    Returns:
        A `Trained`.
    """
    config = read_config(directory)
    about = _about(Path(directory))
    model = Network(config, about["width"])
    files.read_weights(model, directory)
    return Trained(config, model, about["symbols"])


def read_config(directory: str | Path) -> NaturalConfig:
    """The settings of the run on music or text in `directory`."""
    return files.read_settings(directory, NaturalConfig)


def holds_run(directory: str | Path) -> bool:
    """Whether the run in `directory` is one on music or text: its settings name data, not a task."""
    try:
        values = json.loads((Path(directory) / files.CONFIG).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(values, dict) and "data" in values and "task" not in values


def keep_data(directory: Path, corpus: Corpus) -> None:
    """Write down what the run is trained on, or see that it is still the same."""
    if (directory / files.DATA).exists():
        verify_data(directory, corpus)
        return
    about = {
        "width": corpus.width,
        "symbols": corpus.symbols,
        "parts": {split: corpus.predictions(split) for split in SPLITS},
        "sha256": corpus.checksum(),
    }
    text = json.dumps(about, indent=1)
    files.write(directory / files.DATA, text.encode() + b"\n")


def verify_data(directory: Path, corpus: Corpus) -> None:
    """Refuse data that are not those of the run in `directory`."""
    if _about(directory)["sha256"] != corpus.checksum():
        where = corpus.config.path or corpus.config.data
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

"""The state of a run on disk: one safetensors file whose header holds the rest as JSON. Nothing is pickled.

    DIR/checkpoints/000012000.safetensors        the last two are kept
      tensors    weights, best weights, optimizer state, generator state
      header     config, counters, schedules, curriculum, clipper …; a sha256 over all of that and the tensors

A file is moved into place whole. One that is truncated, altered, or of another config is refused by name, and the one
before it is used.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from . import files
from .config import Config, ConfigError

KEPT = 2
FORMAT = "steadygrad run, 2"
_log = logging.getLogger("steadygrad")


@dataclass(frozen=True)
class Checkpoint:
    """What was found on disk: named tensors, and plain values."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]


class CheckpointError(ValueError):
    """A checkpoint can't be used; the message names the file and why."""


def save(directory: Path, config: Config, updates: int, tensors: dict[str, Tensor], values: dict[str, Any]) -> Path:
    """Write the state after `updates` updates, and remove all but the last two.

    Args:
        directory: the run's folder.
        config: its settings, without which the state means nothing.
        updates: how many were made.
        tensors, values: the state; values as JSON can hold them.

    Returns:
        The file.
    """
    folder = directory / files.CHECKPOINTS
    folder.mkdir(exist_ok=True)
    header = {"format": FORMAT, "config": config.to_json(), "values": json.dumps(values, allow_nan=False)}
    header["sha256"] = files.checksum(tensors, header)
    path = folder / f"{updates:09d}.safetensors"
    files.write(path, files.safetensors().torch.save({name: t.contiguous() for name, t in tensors.items()}, header))
    for old in _all(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    return path


def latest(directory: Path, config: Config) -> Checkpoint | None:
    """The newest state of the run in `directory` that is whole and its own, or None if none was ever written.

    One that is refused is named in a warning.
    """
    refused: list[str] = []
    for path in _all(directory / files.CHECKPOINTS):
        try:
            tensors, values = read(path, config)
        except CheckpointError as error:
            refused.append(str(error))
        else:
            for sentence in refused:
                _log.warning("%s; the one before it is used", sentence)
            return Checkpoint(tensors, values)
    if refused:
        where = directory / files.CHECKPOINTS
        raise CheckpointError(f"{'; '.join(refused)}; no other is left (to begin anew, remove {where})")
    return None


def read(path: Path, config: Config) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and values of one checkpoint, verified."""
    library = files.safetensors()
    try:
        with library.safe_open(path, "pt") as file:
            header: dict[str, str] = file.metadata() or {}
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (library.SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is refused, it is truncated or altered ({error})") from error
    if header.get("format") != FORMAT:
        raise CheckpointError(f"{path} is refused, it is no checkpoint of this version ({FORMAT})")
    if header.pop("sha256", "") != files.checksum(tensors, header):
        raise CheckpointError(f"{path} is refused, it is altered: its checksum does not fit")
    try:
        other = Config.from_json(header["config"])
    except ConfigError as error:
        raise CheckpointError(f"{path} is refused, its config is not this version's ({error})") from error
    differences = config.differences(other)
    if differences:
        raise CheckpointError(f"{path} is refused, it is of another run: here {', '.join(differences)}")
    return tensors, json.loads(header["values"])


def _all(folder: Path) -> list[Path]:
    """The checkpoints in `folder`, newest first."""
    return sorted(folder.glob("[0-9]*.safetensors"), reverse=True)

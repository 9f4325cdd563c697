"""What a run leaves on disk, and how it gets there whole.

    DIR/config.json           the settings
    DIR/data.json             what a run on music or text was trained on: its symbols, and a checksum
    DIR/metrics.jsonl         one line for each check
    DIR/flow.jsonl            snapshots of the error's norm against lag, and of W_rec's eigenvalues
    DIR/weights.safetensors   the best weights so far
    DIR/checkpoints/          the last two states (checkpoint.py)
    DIR/result.json           the verdict, once there is one

A file is written beside its place and moved there: a reader sees the old one or the new one, whatever happens between.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch

from .config import RunConfig
from .settings import ConfigError, Settings

if TYPE_CHECKING:
    from .network import Network

Config = TypeVar("Config", bound=Settings)

CONFIG, DATA, METRICS, FLOW = "config.json", "data.json", "metrics.jsonl", "flow.jsonl"
WEIGHTS, RESULT, CHECKPOINTS = "weights.safetensors", "result.json", "checkpoints"


class MissingExtra(ImportError):
    """A package that an optional part of the library needs is not installed."""


def safetensors():
    """The package of that name, which reads and writes tensors without running anything they hold."""
    try:
        import safetensors
        import safetensors.torch
    except ImportError:
        raise MissingExtra("training needs safetensors: pip install 'steadygrad[train]'") from None
    return safetensors


def write(path: Path, data: bytes) -> None:
    """Put `data` at `path`, whole or not at all."""
    beside = path.with_name(f".{path.name}.tmp")
    try:
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise OSError(error.errno, f"cannot write {path}: {error.strerror or error}") from error
    _settle(path.parent)


def _settle(folder: Path) -> None:
    """Make a rename last, where the system lets folders be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_config(directory: str | Path) -> RunConfig:
    """The settings of the run on a task in `directory`."""
    return read_settings(directory, RunConfig)


def read_settings(directory: str | Path, kind: type[Config]) -> Config:
    """The settings of the run in `directory`, which is of this kind."""
    path = Path(directory) / CONFIG
    try:
        return kind.from_json(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{directory} must be the folder of a run, and holds no {CONFIG}") from None
    except ConfigError as error:
        raise ConfigError([f"{path}: {fault}" for fault in error.faults]) from error


def checksum(tensors: dict[str, torch.Tensor], header: dict[str, str]) -> str:
    """The sha256 of tensors by name and of the header that goes with them."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def write_weights(path: Path, weights: dict[str, torch.Tensor], about: dict[str, str]) -> None:
    """Put weights into a file that says whose they are, with a sha256 over them and what is said."""
    from .. import __version__

    about = {**about, "steadygrad": __version__}
    about["sha256"] = checksum(weights, about)
    write(path, safetensors().torch.save({name: each.contiguous() for name, each in weights.items()}, about))


def read_weights(network: torch.nn.Module, directory: str | Path) -> None:
    """Give a network the best weights of the run in `directory`.

    They are compared with the sha256 in the file; runs of version 0.1.0 have none there, and are read without.
    """
    path = Path(directory) / WEIGHTS
    library = safetensors()
    try:
        with library.safe_open(path, "pt") as file:
            about: dict[str, str] = file.metadata() or {}
            weights: dict[str, torch.Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        said = about.pop("sha256", None)
        if said is not None and said != checksum(weights, about):
            raise ValueError(f"{path} is altered: its checksum does not fit its weights")
        network.load_state_dict(weights)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is not there: the run has not come to its first check yet") from None
    except (library.SafetensorError, RuntimeError, OSError) as error:
        raise ValueError(f"{path} does not hold the weights of this run: {str(error).splitlines()[0]}") from error


def load(directory: str | Path) -> Network:
    """The network of a run, with its best weights.

    Args:
        directory: the run's folder.

    Returns:
        A `Network`, ready to be evaluated or trained on.
    """
    from .network import Network

    network = Network(read_config(directory))
    read_weights(network, directory)
    return network

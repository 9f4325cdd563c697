"""What a run leaves on disk, and how it gets there whole.

    DIR/config.json           the settings
    DIR/data.json             what a run on a data set was trained on: its symbols, and a checksum
    DIR/metrics.jsonl         one line for each check
    DIR/flow.jsonl            snapshots of the error's norm against lag, and of W_rec's eigenvalues
    DIR/weights.safetensors   the best weights so far
    DIR/checkpoints/          the last two states (saved.py)
    DIR/result.json           the result, once there is one

A file is written beside its place and moved there: a reader sees the old one or the new one, whatever happens between. A run
takes an empty folder, or continues in its own, and never touches another's.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from .config import Config, ConfigError

CONFIG, DATA, METRICS, FLOW = "config.json", "data.json", "metrics.jsonl", "flow.jsonl"
WEIGHTS, RESULT, CHECKPOINTS = "weights.safetensors", "result.json", "checkpoints"
OWN = (CONFIG, DATA, METRICS, FLOW, WEIGHTS, RESULT, CHECKPOINTS)


class FolderError(ValueError):
    """The folder can't be used for this run; the message says why and what to do."""


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
        raise cannot_write(path, error) from error
    try:  # make the rename last, where the system lets folders be opened
        handle = os.open(path.parent, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cannot_write(path: Path, error: OSError) -> OSError:
    """The same error with the file's name in it."""
    return OSError(error.errno, f"cannot write {path}: {error.strerror or error}")


def checksum(tensors: dict[str, torch.Tensor], header: dict[str, str]) -> str:
    """The sha256 of tensors by name and of the header that goes with them."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def write_tensors(path: Path, tensors: dict[str, torch.Tensor], header: dict[str, str]) -> None:
    """Write a safetensors file with a header, and a sha256 over both in it."""
    header = {**header, "sha256": checksum(tensors, header)}
    write(path, safetensors().torch.save({name: each.contiguous() for name, each in tensors.items()}, header))


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str], bool | None]:
    """The tensors and the header of `write_tensors`, and whether the sha256 fits them (None: there is none)."""
    with safetensors().safe_open(path, "pt") as file:
        header: dict[str, str] = file.metadata() or {}
        tensors: dict[str, torch.Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    said = header.pop("sha256", None)
    return tensors, header, None if said is None else said == checksum(tensors, header)


def read_weights(network: torch.nn.Module, directory: str | Path) -> None:
    """Give a network the best weights of the run in `directory`.

    They are compared with the sha256 in the file; runs of version 0.1.0 have none there, and are read without.
    """
    path = Path(directory) / WEIGHTS
    try:
        weights, _, whole = read_tensors(path)
        if whole is False:
            raise ValueError(f"{path} is altered: its checksum does not fit its weights")
        network.load_state_dict(weights)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is not there: the run has not been tested yet") from None
    except (safetensors().SafetensorError, RuntimeError, OSError) as error:
        raise ValueError(f"{path} does not hold the weights of this run: {str(error).splitlines()[0]}") from error


def read_config(directory: str | Path) -> Config:
    """The settings of the run in `directory`."""
    path = Path(directory) / CONFIG
    try:
        return Config.from_json(_text(path))
    except ConfigError as error:
        raise ConfigError([f"{path}: {fault}" for fault in error.faults]) from error
    except UnicodeError as error:
        raise ConfigError([str(error)]) from error


def _text(path: Path) -> str:
    """The text of a file in a run's folder."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{path.parent} must be the folder of a run, and holds no {path.name}") from None
    except UnicodeDecodeError as error:
        raise UnicodeError(f"{path} must be UTF-8 text, and is not ({error.reason} at byte {error.start:,})") from error


def read_json(path: Path) -> Any:
    """What a JSON file holds; None where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{path} must be JSON, and is not ({error})") from error


def write_json(path: Path, value: Any) -> None:
    """Put `value` into a JSON file, whole or not at all."""
    write(path, (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON lines of a run's file; one that is being written may end in half a line, which is left out."""
    text = _text(path)
    found: list[dict[str, Any]] = []
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if isinstance(value, dict):
            found.append(value)
        elif number < len(lines) or text.endswith("\n"):
            raise ValueError(f"{path}, line {number}, must be a JSON object, and is not")
    return found


def claim(directory: Path, config: Config, resume: bool) -> None:
    """Make the folder this run's own: create it if needed, and write DIR/config.json.

    Raises:
        FolderError: another run is there, or this one and not `resume`.
    """
    there = [name for name in OWN if (directory / name).exists()]
    if CONFIG in there:
        try:
            differences = config.differences(read_config(directory))
        except ConfigError as error:
            raise FolderError(f"{directory} holds a run of another kind: give another folder ({error})") from error
        if differences:
            others = f"{directory} holds another run ({', '.join(differences)} here)"
            raise FolderError(f"{others}: give another folder, or go on with that run: steadygrad resume {directory}")
        if not resume:
            raise FolderError(f"{directory} holds this run already: go on with it (steadygrad resume {directory})")
        return
    if there:
        raise FolderError(f"{directory} holds {there[0]} of a run without its {CONFIG}: give another folder")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise FolderError(f"{directory} must be a folder, and a file is in its place") from None
    write(directory / CONFIG, config.to_json().encode())


@contextmanager
def locked(path: Path, busy: str, seconds: float = 0.0) -> Iterator[None]:
    """Keep a second process out while this lasts: after `seconds` of waiting it gets a FolderError, `busy`.

    A process that dies leaves no lock behind.
    """
    from filelock import FileLock, Timeout

    try:
        held = FileLock(path, timeout=seconds).acquire()
    except Timeout:
        raise FolderError(busy) from None
    with held:
        yield

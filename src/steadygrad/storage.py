"""Files on disk: written whole or not at all, read with the file's name in every complaint, locked against a second process.

A file is written beside its place and moved there: a reader sees the old one or the new one, whatever happens between. Tensors
are safetensors files with a header and a sha256 over both; nothing is pickled. A state is tensors and plain values by name.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


State = dict[str, Any]
"""The state of something that goes on later, by name: tensors, and plain values as JSON can hold them."""


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


def write_state(path: Path, state: State, header: dict[str, str]) -> None:
    """Write a state of tensors and of values that JSON has; both are in the checksum."""
    tensors = {name: value for name, value in state.items() if hasattr(value, "detach")}
    values = {name: value for name, value in state.items() if name not in tensors}
    write_tensors(path, tensors, {**header, "values": json.dumps(values, allow_nan=False)})


def read_state(path: Path) -> tuple[State, dict[str, str], bool | None]:
    """The state and the header of `write_state`, and whether the checksum fits; what else it is has no values."""
    tensors, header, whole = read_tensors(path)
    return {**tensors, **json.loads(header.pop("values", "{}"))}, header, whole


def of_optimizer(optimizer: torch.optim.Optimizer) -> State:
    """What an optimizer keeps for each parameter: tensors as 'optimizer.0.exp_avg', plain values under 'optimizer'."""
    kept = optimizer.state_dict()["state"]
    found = {f"{index}.{key}": value for index, entries in kept.items() for key, value in entries.items()}
    plain = {name: value for name, value in found.items() if not hasattr(value, "detach")}
    return {**{f"optimizer.{name}": found[name] for name in found if name not in plain}, "optimizer": plain}


def load_optimizer(optimizer: torch.optim.Optimizer, state: State) -> None:
    """Give an optimizer what `of_optimizer` found; its settings stay."""
    entries: dict[int, dict[str, Any]] = {}
    for name, value in {**starting_with("optimizer.", state), **state["optimizer"]}.items():
        index, key = name.split(".", 1)
        entries.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})


def starting_with(start: str, state: State) -> State:
    """What of a state has a name that begins so, without that beginning."""
    return {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}


def read_text(path: Path) -> str:
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


def finite(value: Any) -> Any:
    """`value` as JSON can hold it: None where a number is not finite.

    >>> finite([1.0, float("nan")])
    [1.0, None]
    """
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_lines(path: Path, fields: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The JSON lines of a run's file, which must have these fields; half a line at the end, being written, is left out."""
    text = read_text(path)
    found: list[dict[str, Any]] = []
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if isinstance(value, dict):
            if missing := [name for name in fields if name not in value]:
                raise ValueError(f"{path}, line {number}, must have {', '.join(missing)}, and has not")
            found.append(value)
        elif number < len(lines) or text.endswith("\n"):
            raise ValueError(f"{path}, line {number}, must be a JSON object, and is not")
    return found


class Lines:
    """A file of JSON lines that grows. What stands after its first `size` bytes is cut off, for it will be written again."""

    def __init__(self, path: Path, size: int = 0) -> None:
        # unbuffered: a line that a full disk did not take must not be tried again when the file is closed
        self._path, self._file = path, open(path, "ab", buffering=0)  # noqa: SIM115
        if os.path.getsize(path) > size:
            self._file.truncate(size)

    def append(self, line: dict[str, Any]) -> None:
        """Add a line; numbers that are not finite are null in it."""
        values = {key: finite(value) for key, value in line.items()}
        left = json.dumps(values, allow_nan=False).encode() + b"\n"
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise cannot_write(self._path, error) from error

    def settle(self) -> int:
        """Make sure that all lines are on the disk, and return the size of the file."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise cannot_write(self._path, error) from error
        return os.path.getsize(self._path)

    def close(self) -> None:
        self._file.close()


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

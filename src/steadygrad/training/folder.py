"""Whose folder it is: a run takes an empty one, or goes on in its own, and never touches another's."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import files
from .settings import ConfigError, Settings

OWN = (files.CONFIG, files.DATA, files.METRICS, files.FLOW, files.WEIGHTS, files.RESULT, files.CHECKPOINTS)


class FolderError(ValueError):
    """The folder can't be used for this run; the message says why and what to do."""


def claim(directory: Path, config: Settings, resume: bool) -> None:
    """Make the folder this run's own.

    Args:
        directory: made if it is not there.
        config: the settings; written to DIR/config.json.
        resume: whether a run of the very same settings may be there already.

    Raises:
        FolderError: another run is there.
    """
    there = [name for name in OWN if (directory / name).exists()]
    if files.CONFIG in there:
        try:
            differences = config.differences(files.read_settings(directory, type(config)))
        except ConfigError as error:
            raise FolderError(f"{directory} holds a run of another kind: give another folder ({error})") from error
        if differences:
            raise FolderError(
                f"{directory} holds another run ({', '.join(differences)} here): give another folder, "
                f"or go on with that run: steadygrad resume {directory}"
            )
        if not resume:
            raise FolderError(f"{directory} holds this run already: go on with it (steadygrad resume {directory})")
        return
    if there:
        raise FolderError(f"{directory} holds {there[0]} of a run without its {files.CONFIG}: give another folder")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise FolderError(f"{directory} must be a folder, and a file is in its place") from None
    files.write(directory / files.CONFIG, config.to_json().encode())


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep a second process from writing to the same run. A process that dies leaves no lock behind."""
    try:
        import fcntl
    except ImportError:  # Windows: no such lock
        yield
        return
    with open(directory / ".lock", "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise FolderError(f"{directory} is in use: another process is training there") from None
            # a file system without locks: then there is none
        yield

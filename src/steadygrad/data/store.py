"""Where data lives: `$STEADYGRAD_DATA`, or else the user's cache folder; and what of it is there.

A file is read once, its bytes are checked against the known sha256, and those same bytes are parsed: a truncated or
altered file is never used. A folder that can only be read is enough for all that needs no download.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..checks import one_of
from ..table import columns
from .download import download as _download
from .sources import SOURCES, DataError, Source


class Row(NamedTuple):
    """One known file, as a table shows it."""

    name: str
    file: str
    state: str
    size: int
    path: Path


def home() -> Path:
    """The data folder: `$STEADYGRAD_DATA` if it is set, else steadygrad's own place in the user's cache.

    Returns:
        The folder; it need not exist yet.
    """
    chosen = os.environ.get("STEADYGRAD_DATA")
    if chosen:
        return Path(chosen).expanduser()
    try:
        from platformdirs import user_cache_path
    except ImportError:
        raise ImportError(
            "finding the cache folder needs platformdirs: pip install 'steadygrad[data]', or set STEADYGRAD_DATA"
        ) from None
    return user_cache_path("steadygrad", appauthor=False)


def locate(name: str) -> tuple[Path, ...]:
    """Where the files of a data set are, or belong.

    Args:
        name: `"piano-midi"`, `"nottingham"`, `"musedata"`, `"jsb"` or `"ptb"`.

    Returns:
        One path a file, in the order of `SOURCES[name]`; nothing is said about whether it is there (see `listing`).

    Example:
        >>> [path.name for path in locate("ptb")]
        ['ptb.train.txt', 'ptb.valid.txt', 'ptb.test.txt']
    """
    return tuple(home() / source.path for source in SOURCES[one_of("name", name, SOURCES)])


def fetch(name: str, progress: bool = True) -> tuple[Path, ...]:
    """Make sure that the files of a data set are there and whole; download those that are missing.

    A file that is there but differs from the known one is left alone and reported, since it may be the user's.

    Args:
        name: a data set, as in `locate`.
        progress: draw a bar on stderr while downloading, if stderr is a terminal.

    Returns:
        The paths of the verified files.

    Raises:
        DataError: a file is altered, or could not be downloaded; the message holds address, place and checksum.
    """
    paths = locate(name)
    for source, path in zip(SOURCES[name], paths, strict=True):
        if _verified(name, source, path) is None:
            _download(source, path, progress)
    return paths


def contents(name: str, download: bool = True) -> tuple[bytes, ...]:
    """The verified bytes of a data set's files.

    Args:
        name: a data set, as in `locate`.
        download: fetch what is missing; otherwise a missing file is an error.

    Returns:
        One bytes object a file, in the order of `SOURCES[name]`.
    """
    if download:
        fetch(name)
    files = []
    for source, path in zip(SOURCES[name], locate(name), strict=True):
        data = _verified(name, source, path)
        if data is None:
            raise DataError(
                f"{path} is not there: run steadygrad.data.fetch({name!r}), or put the file there by hand "
                f"({source.urls[0]}, {source.size:,} bytes, sha256 {source.sha256})"
            )
        files.append(data)
    return tuple(files)


def listing() -> list[Row]:
    """What is there of all known data: one row a file.

    Returns:
        Rows `(name, file, state, size, path)`; `state` is `"there"` (checksum verified), `"missing"`, `"altered"` or
        `"unreadable"`, and `size` the length in bytes that the file should have.

    Example:
        >>> {row.name: row.size for row in listing() if row.name == "jsb"}
        {'jsb': 96095}
    """
    rows = []
    for name, sources in SOURCES.items():
        for source, path in zip(sources, locate(name), strict=True):
            rows.append(Row(name, source.path, _state(source, path), source.size, path))
    return rows


def table(rows: Sequence[Row]) -> str:
    """The files in columns: set, file, state, bytes, place.

    >>> from pathlib import Path
    >>> print(table([Row("jsb", "music/JSB_Chorales.mat", "missing", 96_095, Path("/data/music/JSB_Chorales.mat"))]))
    set  file                    state     bytes  place
    jsb  music/JSB_Chorales.mat  missing  96,095  /data/music/JSB_Chorales.mat
    """
    lines = [("set", "file", "state", "bytes", "place")]
    lines += [(row.name, row.file, row.state, f"{row.size:,}", str(row.path)) for row in rows]
    return columns(lines, left={0, 1, 2, 4})


def summary(rows: Sequence[Row]) -> str:
    """What is missing, how large it is, and what to type.

    >>> from pathlib import Path
    >>> summary([Row("jsb", "music/JSB_Chorales.mat", "missing", 96_095, Path("/data/music/JSB_Chorales.mat"))])
    '1 of 1 files is missing (0.1 MB): steadygrad data fetch jsb'
    """
    missing = [row for row in rows if row.state == "missing"]
    faulty = [str(row.path) for row in rows if row.state in ("altered", "unreadable")]
    parts: list[str] = []
    if missing:
        names = " ".join(dict.fromkeys(row.name for row in missing))
        size = f"{sum(row.size for row in missing) / 1e6:.1f} MB"
        verb = "is" if len(missing) == 1 else "are"
        parts.append(f"{len(missing)} of {len(rows)} files {verb} missing ({size}): steadygrad data fetch {names}")
    parts += [f"not used, being altered or unreadable: {', '.join(faulty)}"] if faulty else []
    return "; ".join(parts) or f"all {len(rows)} files are there and verified"


def _state(source: Source, path: Path) -> str:
    try:
        data = _read(path)
    except DataError:
        return "unreadable"
    if data is None:
        return "missing"
    return "there" if hashlib.sha256(data).hexdigest() == source.sha256 else "altered"


def _read(path: Path) -> bytes | None:
    """The bytes at `path`, or None if nothing is there."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as fault:
        raise DataError(f"cannot read {path}: {fault.strerror or fault}") from fault


def _verified(name: str, source: Source, path: Path) -> bytes | None:
    """The bytes at `path`, None if nothing is there, and an error if they are not those of `source`."""
    data = _read(path)
    if data is None:
        return None
    found = hashlib.sha256(data).hexdigest()
    if found != source.sha256:
        raise DataError(
            f"{path} is truncated or altered and is not used: it has {len(data):,} bytes and sha256 {found}, expected "
            f"{source.size:,} bytes and {source.sha256}; delete it and run steadygrad.data.fetch({name!r})"
        )
    return data

"""One file from the network to the disk: whole and verified, or not at all.

    mirror → temporary file beside the target → size and sha256 → rename

The rename is atomic, so a reader sees the verified file or none, whatever interrupts the download. Written by hand: pooch knows
no second mirror, reads a body of any length before it verifies it, and follows redirects from https to http.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import secrets
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator
from http.client import HTTPMessage
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from .sources import DataError, Source

TIMEOUT = 30.0
"""Seconds without a byte from a mirror after which the next one is tried."""

_BLOCK = 1 << 16


class _MirrorFault(Exception):
    """This mirror did not give the file; another may."""


def download(source: Source, target: Path, progress: bool = True) -> None:
    """Fetch `source` from the first mirror that gives it whole, and put it at `target`.

    Only https addresses are asked or followed (plain http to this machine's own 127.0.0.1 or ::1 is let through).
    A body of the wrong size or checksum counts as a failed mirror. No temporary file stays behind.

    Args:
        source: the file and its mirrors.
        target: where it belongs; missing folders are made.
        progress: draw a bar on stderr, if stderr is a terminal and `rich` is installed.

    Raises:
        DataError: no mirror gave the file, or the disk did not take it.
    """
    faults: list[str] = []
    for url in source.urls:
        try:
            _from_mirror(source, url, target, progress)
            return
        except _MirrorFault as fault:
            faults.append(f"{url}: {fault}")
    raise DataError(
        f"cannot download {source.path} ({'; '.join(faults)}); if you have it, put it at {target} "
        f"({source.size:,} bytes, sha256 {source.sha256})"
    )


def _from_mirror(source: Source, url: str, target: Path, progress: bool) -> None:
    # Not tempfile: its files are readable by their owner alone, and a rename would keep that.
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        checksum = hashlib.sha256()
        with (
            contextlib.closing(_body(url, source.size)) as body,
            open(part, "xb") as file,
            _bar(source, progress) as advance,
        ):
            for block in body:
                file.write(block)
                checksum.update(block)
                advance(len(block))
            file.flush()
            os.fsync(file.fileno())
            received = file.tell()
        if received != source.size:
            raise _MirrorFault(f"the body ends after {received:,} of {source.size:,} bytes")
        if checksum.hexdigest() != source.sha256:
            raise _MirrorFault(f"the body has sha256 {checksum.hexdigest()}, not {source.sha256}")
        os.replace(part, target)
    except OSError as fault:  # the network's own faults come as _MirrorFault, so this is the disk
        in_the_way = isinstance(fault, FileExistsError)
        reason = "a file is where its folder should be" if in_the_way else fault.strerror or fault
        raise DataError(
            f"cannot write {target}: {reason}; {source.size:,} bytes are needed there, or set "
            "STEADYGRAD_DATA to another folder"
        ) from fault
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def _body(url: str, size: int) -> Generator[bytes, None, None]:
    """Blocks of the answer to `url`, never more than `size` bytes in all."""
    if not _allowed(url):
        raise _MirrorFault("only https addresses are fetched")
    received = 0
    try:
        with _opener().open(url, timeout=TIMEOUT) as response:
            while block := response.read(_BLOCK):
                received += len(block)
                if received > size:
                    raise _MirrorFault(f"the body is longer than {size:,} bytes")
                yield block
    except urllib.error.HTTPError as fault:
        fault.close()
        raise _MirrorFault(f"HTTP {fault.code} {fault.reason}") from fault
    except urllib.error.URLError as fault:
        raise _MirrorFault(str(fault.reason)) from fault
    except (OSError, http.client.HTTPException, ValueError) as fault:
        raise _MirrorFault(str(fault) or type(fault).__name__) from fault


def _allowed(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1"))


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow a redirect only where the address itself might have been asked, and never from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if not _allowed(newurl) or (req.type == "https" and urlsplit(newurl).scheme != "https"):
            fp.close()
            raise _MirrorFault(f"redirects to {newurl}, and only https addresses are fetched")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    # urllib's default opener also reads file:, ftp: and data: addresses.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    return opener


@contextlib.contextmanager
def _bar(source: Source, progress: bool) -> Iterator[Callable[[int], None]]:
    """What to call with the number of bytes of each block; it draws on a terminal only."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
    except ImportError:
        pass
    else:
        if progress and sys.stderr.isatty():
            console = Console(stderr=True)
            with Progress(TextColumn("{task.description}"), BarColumn(), DownloadColumn(), console=console) as bar:
                task = bar.add_task(source.path, total=source.size)
                yield lambda received: bar.advance(task, received)
            return
    yield lambda received: None

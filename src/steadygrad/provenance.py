"""Where a number comes from: the commit of the code, the machine, the day, the commands."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

from . import ranges

SEEDS = re.compile(r"(steadygrad sweep .*--seeds )(\S+)(.*)")


def commit(folder: Path | None = None) -> str | None:
    """The short commit of the code in `folder` (by default this package's), with "+" where something was changed since.

    None without Git, or where Git tracks nothing in the folder: a package installed inside somebody else's repository must
    not borrow its commit.
    """
    folder = Path(__file__).resolve().parents[0] if folder is None else folder
    if not _git(folder, "ls-files", "--", "."):
        return None
    short = _git(folder, "rev-parse", "--short", "HEAD")
    return f"{short}+" if short and _git(folder, "status", "--porcelain", "--", ".") else short


@cache
def machine() -> dict[str, Any]:
    """The machine's processor and how many threads it has."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {"cpu": next(names, platform.processor() or platform.machine()), "threads": os.cpu_count()}


def today() -> str:
    """The date in UTC, as in "2026-11-15"."""
    return datetime.now(timezone.utc).date().isoformat()


def merged(commands: Iterable[str]) -> list[str]:
    """Each command once; sweeps that differ in their seeds alone are one command.

    >>> merged(["steadygrad sweep smoke --seeds 1 --lr 2", "steadygrad sweep smoke --seeds 2:3,9 --lr 2"])
    ['steadygrad sweep smoke --seeds 1:3,9 --lr 2']
    """
    seeds: dict[tuple[str, str], set[int]] = {}
    for command in commands:
        begin, listed, end = found.groups() if (found := SEEDS.match(command)) else (command, "", "")
        seeds.setdefault((begin, end), set()).update(ranges.seeds(listed))
    return sorted(f"{begin}{ranges.written(mine)}{end}" for (begin, end), mine in seeds.items())


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None

"""Where a number comes from: the commit of the code, the machine, the day."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any


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


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None

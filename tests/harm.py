"""What may befall a run: it is killed, or the disk is full."""

from __future__ import annotations

import errno
import io
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steadygrad import storage
from steadygrad.experiments import files

# a server that has imported everything forks a child for each run: a child begins within milliseconds
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["steadygrad.experiments.loop", "steadygrad.data.datasets", "torch._dynamo"])
OFTEN = {"progress": "none", "resume": True, "checkpoint_seconds": 0.0}


def kill_at_random_moments(run: Callable[..., Any], config: Any, directory: Path) -> None:
    """Begin the run, or go on with it, three times, and kill it soon after it is at work."""
    chance = random.Random(time.time_ns())
    kills = 0
    for _ in range(3):
        before = (directory / files.METRICS).stat().st_size if kills else 0
        process = CHILDREN.Process(target=run, args=(config, directory), kwargs=OFTEN)
        process.start()
        # it is at work once it has written more lines than there were
        while process.is_alive() and not _longer(directory / files.METRICS, before):
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.2))
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
    assert kills > 0


def _longer(path: Path, than: int) -> bool:
    return path.exists() and path.stat().st_size > than


def fill_disk(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no room for a 'checkpoint', or ten bytes for the 'metrics'."""

    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class Full(io.FileIO):
        """A file on a disk that has room for ten bytes more."""

        def write(self, data: Any) -> int:
            return super().write(data[:10]) if data.startswith(b"{") else full() or 0

    if failing == "checkpoint":
        monkeypatch.setattr(storage.os, "replace", full)
    else:

        def opened(path: Any, mode: str = "r", **options: Any) -> Any:
            return Full(path, mode) if mode == "ab" else open(path, mode, **options)

        monkeypatch.setattr(storage, "open", opened, raising=False)

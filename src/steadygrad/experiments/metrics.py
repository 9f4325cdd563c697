"""What a run writes down as it goes: a line of metrics for each check, and snapshots of its gradients.

    metrics.jsonl   updates, loss, gradient_norm, gradient_norm_max, clip_rate, skipped, omega, active, spectral_radius,
                    horizon, lr, alpha, updates_per_second, seconds
        drawn       test_loss, error, errors, tested, beyond (the error at twice the longest length, once it is solved),
                    low, high
        data        epoch, tokens, train, valid, tokens_per_second
    flow.jsonl      updates, steps, stride, norms, eigenvalues             (snapshot.py)

Numbers that are not finite are null. Snapshots are thinned as the run gets long, to a few hundred lines: the next is due
once the updates have grown by 1.5 %.
"""

from __future__ import annotations

import json
import math
import os
from io import FileIO
from pathlib import Path
from typing import Any

from . import files
from .snapshot import Snapshot

THINNING = 1.015


class Record:
    """The two files of lines in a run's folder.

    Args:
        directory: the folder.
        sizes: their sizes in bytes at the checkpoint that the run goes on from: what was written after it is cut off,
            for it will be written again. None begins them anew.
    """

    def __init__(self, directory: Path, sizes: dict[str, int] | None = None) -> None:
        sizes = sizes or {}
        self._paths = {name: directory / name for name in (files.METRICS, files.FLOW)}
        self._files: dict[str, FileIO] = {}
        for name, path in self._paths.items():
            # unbuffered: a line that a full disk did not take must not be tried again when the file is closed
            file = open(path, "ab", buffering=0)  # noqa: SIM115
            if os.path.getsize(path) > sizes.get(name, 0):
                file.truncate(sizes.get(name, 0))
            self._files[name] = file
        self.next_snapshot = 0

    def metrics(self, line: dict[str, Any]) -> None:
        """Add a line to metrics.jsonl."""
        self._append(files.METRICS, line)

    def snapshot(self, updates: int, seen: Snapshot) -> None:
        """Add a line to flow.jsonl, if one is due."""
        if updates < self.next_snapshot:
            return
        line = {
            "updates": updates,
            "steps": seen.steps,
            "stride": seen.stride,
            "norms": seen.norms,
            "eigenvalues": seen.eigenvalues,
        }
        self._append(files.FLOW, line)
        self.next_snapshot = math.ceil(updates * THINNING)

    def settle(self) -> dict[str, int]:
        """Make sure that all lines are on the disk, and return the sizes of the files."""
        sizes: dict[str, int] = {}
        for name, file in self._files.items():
            try:
                os.fsync(file.fileno())
            except OSError as error:
                raise _cannot(self._paths[name], error) from error
            sizes[name] = os.path.getsize(self._paths[name])
        return sizes

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _append(self, name: str, line: dict[str, Any]) -> None:
        text = json.dumps({key: finite(value) for key, value in line.items()}, allow_nan=False)
        left = text.encode() + b"\n"
        try:
            while left:
                left = left[self._files[name].write(left) :]
        except OSError as error:
            raise _cannot(self._paths[name], error) from error


def finite(value: Any) -> Any:
    """`value` as JSON can hold it: None where a number is not finite.

    >>> finite([1.0, float("nan")])
    [1.0, None]
    """
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cannot(path: Path, error: OSError) -> OSError:
    return OSError(error.errno, f"cannot write {path}: {error.strerror or error}")

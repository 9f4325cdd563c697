"""What a run writes down as it goes: a line of metrics for each check, and snapshots of its gradients.

    metrics.jsonl   updates, loss, gradient_norm, gradient_norm_max, clip_rate, skipped, omega, active, spectral_radius,
                    horizon, lr, alpha, updates_per_second, seconds
        drawn       test_loss, error, errors, tested, beyond (the error at twice the longest length, once it is solved),
                    low, high
        data        epoch, tokens, train, valid, tokens_per_second
    flow.jsonl      updates, steps, stride, norms, eigenvalues

Numbers that are not finite are null. Snapshots are thinned as the run gets long, to a few hundred lines: the next is due
once the updates have grown by 1.5 %.

A snapshot (snapshots.py) is measured on one batch of its own at the longest length of now, so that snapshots can be compared
and training is not touched: no gradient is kept, and the sequences come from a stream of their own.
"""

from __future__ import annotations

import json
import math
import os
from io import FileIO
from pathlib import Path
from typing import Any

import torch

from .. import storage
from ..snapshots import Snapshot, finite, snapshot
from . import files
from .network import Network

THINNING = 1.015


class Record:
    """The two files of lines in a run's folder.

    `sizes` are their sizes in bytes at the checkpoint that the run goes on from: what was written after it is cut off, for it
    will be written again. None begins them anew.
    """

    def __init__(self, directory: Path, sizes: dict[str, int] | None = None) -> None:
        self._paths = {name: directory / name for name in (files.METRICS, files.FLOW)}
        self._files: dict[str, FileIO] = {}
        for name, path in self._paths.items():
            # unbuffered: a line that a full disk did not take must not be tried again when the file is closed
            file = open(path, "ab", buffering=0)  # noqa: SIM115
            kept = (sizes or {}).get(name, 0)
            if os.path.getsize(path) > kept:
                file.truncate(kept)
            self._files[name] = file
        self.next_snapshot = 0

    def append(self, name: str, line: dict[str, Any]) -> None:
        """Add a line to metrics.jsonl or flow.jsonl."""
        values = {key: finite(value) for key, value in line.items()}
        left = json.dumps(values, allow_nan=False).encode() + b"\n"
        try:
            while left:
                left = left[self._files[name].write(left) :]
        except OSError as error:
            raise storage.cannot_write(self._paths[name], error) from error

    def snapshot(self, updates: int, seen: Snapshot) -> None:
        """Add a line to flow.jsonl, if one is due."""
        if updates < self.next_snapshot:
            return
        shown = {name: getattr(seen, name) for name in ("steps", "stride", "norms", "eigenvalues")}
        self.append(files.FLOW, {"updates": updates, **shown})
        self.next_snapshot = math.ceil(updates * THINNING)

    def settle(self) -> dict[str, int]:
        """Make sure that all lines are on the disk, and return the sizes of the files."""
        sizes: dict[str, int] = {}
        for name, file in self._files.items():
            try:
                os.fsync(file.fileno())
            except OSError as error:
                raise storage.cannot_write(self._paths[name], error) from error
            sizes[name] = os.path.getsize(self._paths[name])
        return sizes

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


def look(network: Network, length: int, generator: torch.Generator) -> Snapshot:
    """Measure the gradients of a network on one batch of sequences of `length`."""
    batch = network.problem.sample(network.config.batch, length, generator)
    parameters = [parameter for _, parameter in network.trained()]

    def errors() -> None:
        torch.autograd.grad(network.problem.loss(network.taught(batch), batch), parameters)

    def of_last() -> None:
        y = network.taught(batch)
        (error,) = torch.autograd.grad(network.problem.loss(y, batch), y, retain_graph=True)
        error[:-1] = 0
        torch.autograd.grad(y, parameters, error)

    counted = batch.steps.stop - batch.steps.start
    return snapshot(network.rnn, errors, None if counted == 1 else of_last)

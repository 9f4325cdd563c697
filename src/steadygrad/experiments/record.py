"""What a run writes down as it goes: a line of metrics for each check, and snapshots of its gradients.

    metrics.jsonl   updates, loss, gradient_norm, gradient_norm_max, clip_rate, skipped, omega, active, spectral_radius,
                    horizon, lr, alpha, updates_per_second, seconds
        drawn       test_loss, error, errors, tested, beyond (the error at twice the longest length, once it is solved),
                    low, high
        data        epoch, tokens, train, valid, tokens_per_second
    flow.jsonl      updates, steps, stride, norms, eigenvalues

Numbers that are not finite are null. Snapshots are thinned as the run gets long, to a few hundred lines: the next is due
once the updates have grown by 1.5 %.

A snapshot shows what the gradients do at one moment: Ω, the horizon, the error's norm against lag, and W_rec's spectrum.

    relative_l = ‖error of step T − l‖ / ‖error of step T‖,   l = 0, stride, 2·stride, …     at most 200 values
                 of an error that arises at the last step alone
    ρ = max |λ_i(W_rec)|

Measured on one batch of its own at the longest length of now, so that snapshots can be compared and training is
not touched: no gradient is kept, and the sequences come from a stream of their own.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import torch

from ..eigen import eigenvalues
from ..flow import CellFlow
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
            raise files.cannot_write(self._paths[name], error) from error

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
                raise files.cannot_write(self._paths[name], error) from error
            sizes[name] = os.path.getsize(self._paths[name])
        return sizes

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


def finite(value: Any) -> Any:
    """`value` as JSON can hold it: None where a number is not finite.

    >>> finite([1.0, float("nan")])
    [1.0, None]
    """
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


LAGS = 200
DIGITS = 4


@dataclass(frozen=True)
class Snapshot:
    """One look at the gradients, on sequences of `steps` steps; norms are `stride` lags apart.

    `norms` are relative to the last step, None where not finite; `omega`, `active` and `horizon` as in
    `steadygrad.GradientFlow`; `eigenvalues` (pairs of real and imaginary part) are of W_rec, none for gated layers.
    """

    steps: int
    stride: int
    norms: list[float | None]
    omega: float
    active: float
    horizon: int
    spectral_radius: float
    eigenvalues: list[tuple[float, float]]


def look(network: Network, length: int, generator: torch.Generator) -> Snapshot:
    """Measure the gradients of a network on one batch of sequences of `length`."""
    batch = network.problem.sample(network.config.batch, length, generator)
    parameters = [parameter for _, parameter in network.trained()]

    def errors() -> None:
        torch.autograd.grad(network.problem.loss(network.answers(batch), batch), parameters)

    def of_last() -> None:
        y = network.answers(batch)
        (error,) = torch.autograd.grad(network.problem.loss(y, batch), y, retain_graph=True)
        error[:-1] = 0
        torch.autograd.grad(y, parameters, error)

    counted = batch.steps.stop - batch.steps.start
    return snapshot(network.rnn, errors, None if counted == 1 else of_last)


def snapshot(rnn: Any, errors: Callable[[], Any], of_last: Callable[[], Any] | None = None) -> Snapshot:
    """What `errors`, a backward pass through `rnn`, shows of its gradients.

    Where errors arise at many steps, norms are those of `of_last`, a pass with an error at the last step alone: they show
    what becomes of one error on its way back, which new errors at every step would cover.
    """
    flow = measured(rnn, errors)
    steps = flow.measured.shape[1]
    stride = math.ceil(steps / LAGS)
    norms = (flow if of_last is None else measured(rnn, of_last)).norms.flip(0)
    relative = [float(f"{each:.{DIGITS}g}") for each in (norms / norms[0])[::stride].tolist()]
    W, λ = rnn.weight_hh_l0.detach(), list[complex]()
    if W.shape[0] == W.shape[1]:  # a gated layer's gates are stacked: they have no one spectrum
        λ = eigenvalues(W).tolist() if torch.isfinite(W).all() else [complex(math.nan, math.nan)]
    radius = max(map(abs, λ), default=math.nan)
    pairs = [(round(each.real, DIGITS), round(each.imag, DIGITS)) for each in λ]
    return Snapshot(steps, stride, finite(relative), flow.omega, flow.active, flow.horizon, radius, pairs)


def measured(rnn: Any, errors: Callable[[], Any]) -> CellFlow:
    """The flow of a backward pass that is made for this alone."""
    rnn.record = True
    try:
        errors()
    finally:
        rnn.record = False
    return rnn.flow[0]

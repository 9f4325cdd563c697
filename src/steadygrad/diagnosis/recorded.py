"""Looks made of what a training run wrote down: one for each snapshot, which has the error of one layer and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from .look import CellLook, Clipping, Fault, Look

Lines = Iterable[dict[str, Any]]


class RecordedCell(NamedTuple):
    """What is known of the layer: its kind ('tanh', 'GRU'), the sequences side by side, its units and its leak."""

    kind: str
    batch: int
    hidden: int
    leak: float


def recorded(metrics: Lines, snapshots: Lines, cell: RecordedCell, threshold: float | None) -> list[Look]:
    """The looks, oldest first.

    Args:
        metrics, snapshots: the lines of metrics.jsonl and flow.jsonl.
        cell: the layer.
        threshold: the norm at which gradients were clipped; None where they were not, or it was not fixed.
    """
    by_updates = {line["updates"]: line for line in snapshots}
    looks: list[Look] = []
    updates = clipped = skipped = 0
    for line in metrics:
        clipped += round(line["clip_rate"] * (line["updates"] - updates))
        skipped += line["skipped"]
        updates, clipping = line["updates"], None
        if threshold is not None and updates:
            clipping = Clipping(threshold, updates, clipped, skipped, 0, (), ())
        if updates in by_updates:
            cells = (_look(by_updates[updates], line, cell),)
            looks.append(Look(updates, cells, {}, _number(line["gradient_norm"]), clipping=clipping))
    return looks


def _look(snapshot: dict[str, Any], line: dict[str, Any], cell: RecordedCell) -> CellLook:
    steps, stride = snapshot["steps"], snapshot["stride"]
    by_lag = [_number(norm) for norm in snapshot["norms"] for _ in range(stride)][:steps]
    finite = [norm for norm in by_lag if math.isfinite(norm)]
    norms, largest = by_lag[::-1], max(finite, default=0.0)
    fault = next((Fault("error", steps - 1 - lag) for lag, norm in enumerate(by_lag) if not math.isfinite(norm)), None)
    return CellLook(
        *("rnn", "l0", 0, cell.kind, steps, cell.batch, cell.hidden, norms),
        ratios=[early / late if late > 0 else math.nan for early, late in pairwise(norms)],
        horizon=max((lag for lag, norm in enumerate(by_lag) if norm > 0.01), default=0),
        growth=max(largest, 1.0),
        omega=_number(line["omega"]),
        active=_number(line["active"]),
        room=steps - 1,
        leak=cell.leak,
        reached=sum(norm >= 0.01 * largest for norm in finite) / steps,
        fault=fault,
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value

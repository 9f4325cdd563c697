"""The history of a run in TensorBoard: what its checks found as scalars, and the map of the error's norm as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..storage import MissingExtra
from .history import heat_map

SCALARS = (
    *("loss", "train", "valid", "test_loss", "error", "gradient_norm", "gradient_norm_max", "clip_rate", "omega"),
    *("active", "spectral_radius", "horizon", "high", "lr", "alpha", "updates_per_second", "tokens_per_second"),
)
COLUMNS = 400
WIDEN = 1.1
"""A picture is written whenever the run has grown by this factor since the last."""


class Board:
    """Writes to a folder that TensorBoard reads; `unit` is the field of a line that is the horizontal axis."""

    def __init__(self, folder: Path, unit: str) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtra("--tensorboard needs tensorboard: pip install 'steadygrad[tensorboard]'") from None
        self._open, self._folder, self._unit = SummaryWriter, folder, unit
        self._columns: list[Sequence[float | None]] = []
        self._due = 0

    @contextmanager
    def opened(self, done: int) -> Iterator[None]:
        """While this lasts `add` can be called. `done`: how far the run had come before."""
        # what a killed run wrote after its last checkpoint is written again: TensorBoard is told to drop it
        with self._open(self._folder, purge_step=done + 1 if done else None) as self._writer:
            yield

    def add(self, line: dict[str, Any], norms: Sequence[float | None] | None) -> None:
        """Write the numbers of a line of metrics, and the error's norm against lag, if it was measured."""
        at = line[self._unit]
        for name in SCALARS:
            value = line.get(name)
            if value is not None and math.isfinite(value):
                self._writer.add_scalar(name, value, at)
        if norms is None:
            return
        self._columns.append(norms)
        if len(self._columns) > COLUMNS:
            self._columns = self._columns[::2]
        if at >= self._due:
            picture = heat_map(self._columns)
            self._writer.add_image(f"gradient flow (lag × {self._unit})", picture, at, dataformats="HWC")
            self._due = math.ceil(at * WIDEN)

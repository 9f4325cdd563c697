"""Scalars and the gradient's flow for TensorBoard."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..analysis.history import heat_map
from ..snapshots import Snapshot
from ..storage import MissingExtra
from .config import Config
from .display import Display

SCALARS = (
    *("loss", "train", "valid", "test_loss", "error", "gradient_norm", "gradient_norm_max", "clip_rate", "omega"),
    *("active", "spectral_radius", "horizon", "high", "lr", "alpha", "updates_per_second", "tokens_per_second"),
)
COLUMNS = 400
WIDEN = 1.1
"""A picture is written whenever the run has grown by this factor since the last."""


class Board(Display):
    """Writes what the checks found to a folder that TensorBoard reads; `unit` of the lines is the horizontal axis."""

    def __init__(self, folder: Path, unit: str = "updates") -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: F401
        except ImportError:
            raise MissingExtra("--tensorboard needs tensorboard: pip install 'steadygrad[tensorboard]'") from None
        self._folder, self._unit = folder, unit
        self._columns: list[list[float | None]] = []
        self._due = 0

    @contextmanager
    def shown(self, config: Config, limit: int, max_seconds: float | None, done: int) -> Iterator[None]:
        from torch.utils.tensorboard import SummaryWriter

        # what a killed run wrote after its last checkpoint is written again: TensorBoard is told to drop it
        self._writer = SummaryWriter(self._folder, purge_step=done + 1 if done else None)
        try:
            yield
        finally:
            self._writer.close()

    def check(self, line: dict[str, Any], seen: Snapshot | None) -> None:
        at = line[self._unit]
        for name in SCALARS:
            value = line.get(name)
            if value is not None and math.isfinite(value):
                self._writer.add_scalar(name, value, at)
        if seen is None:
            return
        self._columns.append(seen.norms)
        if len(self._columns) > COLUMNS:
            self._columns = self._columns[::2]
        if at >= self._due:
            picture = heat_map(self._columns)
            self._writer.add_image(f"gradient flow (lag × {self._unit})", picture, at, dataformats="HWC")
            self._due = math.ceil(at * WIDEN)

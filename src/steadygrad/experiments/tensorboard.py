"""Scalars and the gradient's flow for TensorBoard.

The picture has a column for each snapshot and a row for each lag, the last step at the top. Its colour is the error's
norm relative to the last step, on a logarithmic scale from 10⁻⁶ (dark) to 10² (bright); lags that a snapshot did not
have are black.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .config import Config
from .display import Display
from .files import MissingExtra
from .record import Snapshot

SCALARS = (
    *("loss", "train", "valid", "test_loss", "error", "gradient_norm", "gradient_norm_max", "clip_rate", "omega"),
    *("active", "spectral_radius", "horizon", "high", "lr", "alpha", "updates_per_second", "tokens_per_second"),
)
DARKEST, BRIGHTEST = -6.0, 2.0
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


def heat_map(columns: list[list[float | None]]) -> np.ndarray:
    """The picture of relative norms, [lags, snapshots, 3] uint8.

    >>> heat_map([[1.0, 0.1], [1.0, 0.0, 0.0]])[2, 0].tolist()
    [0, 0, 0]
    """
    lags = max(map(len, columns))
    heat = np.full((lags, len(columns)), np.nan)
    for index, column in enumerate(columns):
        logs = [math.nan if norm is None else math.log10(norm) if norm > 0 else -math.inf for norm in column]
        heat[: len(column), index] = logs
    share = np.clip((heat - DARKEST) / (BRIGHTEST - DARKEST), 0, 1)
    # dark violet over red to bright yellow: brightness grows all the way, as it must to be read without colour
    stops = np.array([[0.1, 0.0, 0.2], [0.5, 0.1, 0.45], [0.9, 0.3, 0.25], [1.0, 0.95, 0.6]])
    positions = np.linspace(0, 1, len(stops))
    there = ~np.isnan(heat)
    picture = np.stack([np.interp(np.where(there, share, 0), positions, stops[:, channel]) for channel in range(3)], -1)
    return (255 * np.where(there[..., None], picture, 0)).astype(np.uint8)

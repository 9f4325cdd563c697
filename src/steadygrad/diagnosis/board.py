"""Looks in TensorBoard: scalars by name, and for every layer a picture of its errors over steps and updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .look import Look
from .records import scalars

if TYPE_CHECKING:
    from .watcher import Watch

DARKEST = -6.0
STOPS = np.array([[247, 246, 250], [218, 216, 235], [158, 154, 200], [117, 92, 172], [63, 0, 125]]) / 255
"""Pale where the error has died out, dark where it is largest; as on the page."""
NOT_FINITE = np.array([215, 48, 31]) / 255


def write_board(watch: Watch, writer: Any) -> None:
    """Writes what this writer has not got yet: scalars of every new look, pictures once."""
    if not callable(getattr(writer, "add_scalar", None)) or not callable(getattr(writer, "add_image", None)):
        raise TypeError(
            f"writer must have add_scalar and add_image, as SummaryWriter has, not be a {type(writer).__name__}"
        )
    looks = watch.looks
    last = watch.written.get(writer, -1)
    new = [look for look in looks if look.update > last]
    for look in new:
        for name, value in scalars(look).items():
            writer.add_scalar(f"gradients/{name.replace(' ', '_')}", value, look.update)
    if new:
        for name in dict.fromkeys(cell.name for look in looks for cell in look.cells):
            writer.add_image(
                f"gradients/{name.replace(' ', '_')}/error", picture(looks, name), new[-1].update, dataformats="HWC"
            )
        watch.written[writer] = new[-1].update


def picture(looks: Sequence[Look], name: str) -> np.ndarray:
    """[looks, steps, 3] uint8: each row's errors from first to last step, relative to its largest, over six decades."""
    rows = [next((list(cell.norms) for cell in look.cells if cell.name == name), None) for look in looks]
    width = max(len(row) for row in rows if row is not None)
    image = np.full((len(rows), width, 3), 0.91)
    for index, row in enumerate(rows):
        if row is None:
            continue
        norms = np.array(row)
        finite = np.isfinite(norms)
        largest = norms[finite].max() if finite.any() else 1.0
        relative = np.where(finite & (norms > 0), norms / largest if largest > 0 else 1.0, 10.0 ** (2 * DARKEST))
        share = np.clip(1 - np.log10(relative) / DARKEST, 0, 1)
        colours = np.stack([np.interp(share, np.linspace(0, 1, len(STOPS)), STOPS[:, part]) for part in range(3)], -1)
        image[index, : len(row)] = np.where(finite[:, None], colours, NOT_FINITE)
    return np.round(255 * image).astype(np.uint8)

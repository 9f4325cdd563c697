"""Pictures on disk and in a page: PNG and SVG of the same figure, the same bytes every time."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from steadygrad.paper import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def svg(figure: Figure) -> bytes:
    """A figure as SVG, the same bytes for the same figure."""
    buffer = io.BytesIO()
    with style.look():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def save(figure: Figure, path: Path) -> list[Path]:
    """Writes a figure as PNG (200 dpi) and SVG beside each other.

    Args:
        figure: a matplotlib figure.
        path: where, without a suffix.

    Returns:
        both paths.
    """
    png, vector = path.with_name(path.name + ".png"), path.with_name(path.name + ".svg")
    with style.look():
        figure.savefig(png, dpi=200)
    vector.write_bytes(svg(figure))
    return [png, vector]

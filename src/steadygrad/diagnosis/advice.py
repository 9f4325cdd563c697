"""Phrases that several findings share: how to give a layer Ω, and how to move a gate's bias."""

from __future__ import annotations

import math

from .look import CellLook


def give_alpha(alpha: float | None) -> str:
    """How this layer gets Ω, or more of it. `alpha` is None for torch's layers."""
    if alpha is not None and alpha > 0:
        return f"raise its alpha from {alpha:g} to {2 * alpha:g}"
    if alpha is not None:
        return "give it alpha=1 (layer.alpha = 1.0)"
    return "give it Ω (sg.convert(model, alpha=1.0))"


def raise_bias(cell: CellLook, gate: str, to: float) -> str:
    """Which rows of which bias to set, and to what."""
    index = {"r": 0, "z": 1, "i": 0, "f": 1, "o": 3}[gate]
    called = {"z": "update", "f": "forget", "i": "input", "o": "output", "r": "reset"}[gate]
    rows = f"bias_hh_{cell.cell}[{index * cell.units}:{(index + 1) * cell.units}]"
    how = f"{rows}, or sg.init.remember_(layer, {to:.2g})" if gate in ("f", "z") else rows
    return f"raise the {called} gate's bias to {to:.2g} ({how})"


def memory_bias(steps: int) -> float:
    """log(steps): with this bias a gate keeps its memory for about that many steps, e^(−steps / (1 + steps))."""
    return math.log(max(steps, 3))


def times(factor: float) -> str:
    """A factor as people write it."""
    return f"{factor:.2g}" if factor < 100 else f"{factor:.3g}"


def share(number: float) -> str:
    """A share in per cent; very small ones as powers of ten."""
    if math.isnan(number):
        return "an undefined share"
    return f"{100 * number:.0f} %" if number >= 0.01 or number == 0 else f"{number:.0e} of it"

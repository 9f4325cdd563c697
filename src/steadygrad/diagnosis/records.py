"""Looks as JSON lines and as the scalars that loggers take."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from .. import storage
from .look import Look


def write_jsonl(looks: Sequence[Look], path: Path) -> Path:
    """One look a line. A reader never sees half a file."""
    text = "".join(json.dumps(look.to_json(), allow_nan=False, ensure_ascii=False) + "\n" for look in looks)
    storage.write(path, text.encode())
    return path


def read_jsonl(path: str | Path) -> list[Look]:
    """The looks that `watch.to_jsonl` wrote."""
    looks: list[Look] = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        try:
            looks.append(Look.from_json(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"path must hold lines that watch.to_jsonl wrote, but line {number} is not one: {error}"
            ) from error
    return looks


def scalars(look: Look) -> dict[str, float]:
    """The finite numbers of a look by name: 'encoder.rnn l0/horizon', 'gradient_norm', …"""
    found: dict[str, float] = {"gradient_norm": look.norm}
    if look.norm_used is not None:
        found["gradient_norm_used"] = look.norm_used
    if look.clipping is not None:
        found["clip_threshold"] = look.clipping.threshold
        found["clip_rate"] = look.clipping.clipped / max(look.clipping.steps, 1)
        found["skipped"] = look.clipping.skipped
    for cell in look.cells:
        for name in ("horizon", "growth", "omega", "reached", "saturated", "dead", "input_drive"):
            found[f"{cell.name}/{name}"] = getattr(cell, name)
        for gate, values in cell.gates.items():
            found[f"{cell.name}/gate_{gate}"] = values.mean
    for name, norm in look.gradients.items():
        if norm is not None:
            found[f"gradient_norm/{name}"] = norm
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}

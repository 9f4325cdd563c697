"""`print(watch)`: a table of the last look, and the findings."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..eigen import spectral_radius
from ..table import columns
from .findings import Finding
from .look import CellLook, Look

WIDTH = 110
BARS = "▁▂▃▄▅▆▇█"
COLUMNS = 24
DECADES = 6
"""The lowest bar is an error of 1e-6 of the largest, or less."""


def text_of(
    looks: Sequence[Look],
    findings: Sequence[Finding],
    weights: Mapping[str, Tensor],
    notes: Sequence[str],
    updates: int,
) -> str:
    """The whole text."""
    if not looks:
        lines = [
            f"Nothing was looked at yet ({updates:,} updates counted): train with loss.backward() while it watches."
        ]
        return "\n".join([*lines, *(f"Note: {note}" for note in notes)])
    last = looks[-1]
    lines = [f"{len(looks):,} looks in {updates:,} updates; the last at update {last.update:,}", ""]
    lines += _table(last, weights)
    lines += ["", *_gradient(last), ""]
    if findings:
        lines.append(f"{len(findings)} finding{'s' if len(findings) > 1 else ''}, the most important first:")
        for number, finding in enumerate(findings, 1):
            lines += textwrap.wrap(str(finding), WIDTH, initial_indent=f"{number:2d}. ", subsequent_indent="    ")
    else:
        lines.append("Nothing is wrong with its gradients.")
    for note in notes:
        lines += textwrap.wrap(f"Note: {note}", WIDTH, subsequent_indent="    ")
    return "\n".join(lines)


def matrix_numbers(weight: Tensor) -> tuple[float, float]:
    """ρ and σ_max of a recurrent matrix; of a gated cell's, of its largest gate. NaN where it is not finite."""
    rows, units = weight.shape
    if not bool(weight.isfinite().all()):
        return math.nan, math.nan
    parts = weight.double().cpu().reshape(rows // units, units, units)
    return max(map(spectral_radius, parts)), torch.linalg.matrix_norm(parts, 2).max().item()


def bars(norms: Sequence[float]) -> str:
    """The norms of all steps as bars on a logarithmic scale, first step left; '!' where one is not finite."""
    count = min(COLUMNS, len(norms))
    edges = [round(index * len(norms) / count) for index in range(count + 1)]
    pieces = [norms[low:high] for low, high in itertools.pairwise(edges)]
    parts = [max(piece, key=lambda norm: math.inf if math.isnan(norm) else norm) for piece in pieces]
    largest = max((norm for norm in parts if math.isfinite(norm)), default=0.0)
    return "".join(_bar(norm, largest) for norm in parts)


def _bar(norm: float, largest: float) -> str:
    if not math.isfinite(norm):
        return "!"
    if norm <= 0 or largest <= 0:
        return "·"
    share = 1 + math.log10(norm / largest) / DECADES
    return BARS[min(len(BARS) - 1, max(0, round(share * (len(BARS) - 1))))]


def _table(look: Look, weights: Mapping[str, Tensor]) -> list[str]:
    heads = ["layer", "cell", "steps", "horizon", "growth", "ρ", "σ_max", "gates", "error, first to last step"]
    rows = [_row(cell, weights) for cell in look.cells]
    return columns([heads, *rows], left={0, 1, 7, 8}).splitlines()


def _row(cell: CellLook, weights: Mapping[str, Tensor]) -> list[str]:
    weight = weights.get(f"{cell.layer} {cell.cell}".strip())
    rho, sigma = ("", "") if weight is None else (f"{number:.2f}" for number in matrix_numbers(weight))
    gates = " ".join(f"{name} {gate.mean:.2f}" for name, gate in cell.gates.items())
    growth = f"{cell.growth:.3g}" if math.isfinite(cell.growth) else "∞"
    horizon = f"{cell.horizon} of {cell.room}" if cell.room else "–"
    return [cell.name, cell.kind, str(cell.steps), horizon, growth, rho, sigma, gates, bars(cell.norms)]


def _gradient(look: Look) -> list[str]:
    if not look.gradients:
        return ["No parameter had a gradient at that look."]
    text = f"gradient norm {look.norm:.3g}"
    if look.norm_used is not None:
        text += f", {look.norm_used:.3g} when the optimizer had stepped"
    if look.clipping is not None:
        clip = look.clipping
        text += f"; clipped {clip.clipped:,} of {clip.steps:,}"
        text += f", skipped {clip.skipped:,}" if clip.skipped else ""
        text += f", threshold {clip.threshold:.3g}"
    norms = {name: norm for name, norm in look.gradients.items() if norm is not None and math.isfinite(norm)}
    if norms:
        largest, smallest = max(norms, key=norms.__getitem__), min(norms, key=norms.__getitem__)
        text += f"\nlargest {norms[largest]:.2g} ({largest}), smallest {norms[smallest]:.2g} ({smallest})"
    return text.split("\n")

"""One self-contained HTML page: the error over layers, steps and updates, the findings, the norms with the clip threshold.

page.html is the frame, page.css its looks, page.js what moves. The data stands in the page as JSON; nothing is fetched.
"""

from __future__ import annotations

import html
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from torch import Tensor

import steadygrad

from .findings import Finding
from .look import CellLook, Look
from .table import matrix_numbers

COLUMNS = 200
"""At most so many steps of a layer are drawn; of longer ones the largest error of each stretch."""
LOOKS = 200
"""At most so many updates are in the page; of more, evenly chosen ones and the last."""
ZERO = -999
"""In place of log10(0), as page.js has it."""


def page_of(
    looks: Sequence[Look],
    findings: Sequence[Finding] = (),
    *,
    weights: Mapping[str, Tensor] | None = None,
    notes: Sequence[str] = (),
    updates: int | None = None,
    title: str = "What the gradients do",
) -> str:
    """The page as text.

    Args:
        looks: what was seen, oldest first; from a `Watch`, from `read_jsonl`, or made from the records of a run.
        findings: what stands on top, the most important first.
        weights: the recurrent matrix by name of its cell, for ρ and σ_max.
        notes: what could not be seen.
        updates: how many updates were counted.
        title: the page's title.
    """
    here = Path(__file__).parent
    shown = _chosen(looks)
    used, threshold = any(look.norm_used is not None for look in looks), any(look.clipping for look in looks)
    parts = {
        "title": html.escape(title),
        "style": (here / "page.css").read_text(encoding="utf-8"),
        "script": (here / "page.js").read_text(encoding="utf-8"),
        "summary": html.escape(_summary(looks, updates)),
        "findings": _findings(findings, bool(looks)),
        "notes": "".join(f'<p class="quiet">{html.escape(note)}</p>' for note in notes),
        "hidden": "" if looks else "hidden",
        "used_key": '<span style="color:#e08214">━</span> as the optimizer took it ' if used else "",
        "threshold_key": '<span style="color:#c2281d">╍</span> clip threshold' if threshold else "",
        "version": html.escape(steadygrad.__version__),
        # '<' never stands in the data: a parameter's name can't end the script
        "data": json.dumps(_data(shown, weights or {}), allow_nan=False).replace("<", "\\u003c"),
    }
    return Template((here / "page.html").read_text(encoding="utf-8")).substitute(parts)


def _summary(looks: Sequence[Look], updates: int | None) -> str:
    if not looks:
        return "Nothing was looked at yet."
    cells = len({cell.name for look in looks for cell in look.cells})
    counted = f" in {updates:,} updates" if updates is not None else ""
    first, last = looks[0].update, looks[-1].update
    plural = "" if cells == 1 else "s"
    return f"{len(looks):,} looks{counted}, from update {first:,} to {last:,}, at {cells} recurrent layer{plural}."


def _findings(findings: Sequence[Finding], any_look: bool) -> str:
    if not findings:
        return '<p class="well">Nothing is wrong with its gradients.</p>' if any_look else ""
    items = "".join(
        f'<li><span class="kind">{html.escape(each.kind)}</span><b>{html.escape(each.said)}</b> {html.escape(each.advice)}</li>'
        for each in findings
    )
    return f'<ol class="findings">{items}</ol>'


def _chosen(looks: Sequence[Look]) -> list[Look]:
    if len(looks) <= LOOKS:
        return list(looks)
    return [looks[round(index * (len(looks) - 1) / (LOOKS - 1))] for index in range(LOOKS)]


def _data(looks: Sequence[Look], weights: Mapping[str, Tensor]) -> dict[str, Any]:
    names: dict[str, CellLook] = {}
    for look in looks:
        for cell in look.cells:
            names.setdefault(cell.name, cell)
    cells: list[dict[str, Any]] = []
    for name, first in names.items():
        weight = weights.get(f"{first.layer} {first.cell}".strip())
        rho, sigma = (None, None) if weight is None else (_short(number) for number in matrix_numbers(weight))
        found = [next((cell for cell in look.cells if cell.name == name), None) for look in looks]
        cells.append(
            {
                "name": name,
                "kind": first.kind,
                "rho": rho,
                "sigma": sigma,
                "looks": [None if cell is None else _cell(cell) for cell in found],
            }
        )
    return {
        "updates": [look.update for look in looks],
        "cells": cells,
        "norms": [_finite(look.norm) for look in looks],
        "used": [None if look.norm_used is None else _finite(look.norm_used) for look in looks],
        "thresholds": [None if look.clipping is None else _finite(look.clipping.threshold) for look in looks],
        "gradients": [
            {name: None if norm is None else _finite(norm) or _short(norm) for name, norm in look.gradients.items()}
            for look in looks
        ],
    }


def _cell(cell: CellLook) -> dict[str, Any]:
    return {
        "steps": cell.steps,
        "norms": thinned(cell.norms),
        "horizon": cell.horizon,
        "room": cell.room,
        "growth": _finite(cell.growth),
        "gates": {name: _finite(gate.mean) for name, gate in cell.gates.items()},
        "saturated": None if math.isnan(cell.saturated) else f"{100 * cell.saturated:.0f} %",
        "fault": None if cell.fault is None else str(cell.fault),
    }


def thinned(norms: Sequence[float]) -> list[float | None]:
    """log10 of at most `COLUMNS` norms, each the largest of its stretch; None where one is not finite, `ZERO` for 0.

    >>> thinned([1.0, 100.0, 0.0, float("nan")])
    [0.0, 2.0, -999, None]
    """
    count = min(COLUMNS, len(norms))
    edges = [round(index * len(norms) / count) for index in range(count + 1)]
    found: list[float | None] = []
    for low, high in itertools.pairwise(edges):
        stretch = norms[low:high]
        if not all(map(math.isfinite, stretch)):
            found.append(None)
        else:
            largest = max(stretch)
            found.append(round(math.log10(largest), 2) if largest > 0 else ZERO)
    return found


def _finite(number: float) -> float | None:
    """With four digits; None where it is not finite."""
    return float(f"{number:.4g}") if math.isfinite(number) else None


def _short(number: float) -> str:
    return f"{number:.3g}"

"""What is wrong, as sentences with their number and what to change; the most important first.

Each rule looks at one number. It gives a `Finding` whether that number is good or bad, so that what was asked can be counted,
and so that a number can be followed while the advice is tried.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from .look import CellLook, Look

RECENT = 5
"""A cell is judged by the median over so many of its last looks: one odd batch accuses nobody."""


@dataclass(frozen=True)
class Finding:
    """One question and its answer.

    Attributes:
        kind: 'forgets', 'explodes', … (`KINDS`).
        where: the cell or parameter, 'encoder.rnn l0'; empty where it is about the whole gradient.
        number: what was measured.
        limit: from where on it counts as ill.
        ill_above: whether larger or smaller numbers than the limit are ill.
        said: the sentence with the number.
        advice: what to change.
    """

    kind: str
    where: str
    number: float
    limit: float
    ill_above: bool
    said: str
    advice: str

    @property
    def is_ill(self) -> bool:
        """Whether the number is past its limit."""
        return self.number > self.limit if self.ill_above else self.number < self.limit

    def __str__(self) -> str:
        return f"{self.said} {self.advice}"


@dataclass(frozen=True)
class Seen:
    """What the rules may look at."""

    looks: Sequence[Look]
    weights: Mapping[str, Tensor]
    """The recurrent matrix of each cell at the last look, by its name without the call."""
    alphas: Mapping[str, float | None]
    """By layer: its alpha; None where it has none, as torch's layers have."""

    def recent(self) -> dict[str, list[CellLook]]:
        """By name, the last looks at each cell, oldest first."""
        found: dict[str, list[CellLook]] = {}
        for look in reversed(self.looks):
            for cell in look.cells:
                kept = found.setdefault(cell.name, [])
                if len(kept) < RECENT:
                    kept.insert(0, cell)
        return dict(sorted(found.items()))

    def median(self, cells: Sequence[CellLook], number: Callable[[CellLook], float]) -> float:
        """The median of a number over looks, without those where it is not defined; NaN where it never is."""
        found = [value for value in map(number, cells) if not math.isnan(value)]
        return statistics.median(found) if found else math.nan


Rule = Callable[[Seen], Iterator[Finding]]

KINDS = {
    "not-finite": "a value is infinite or not a number",
    "skipped": "updates are skipped because the gradient is not finite",
    "explodes": "the error grows on its way back",
    "state-grows": "the state keeps growing over the steps",
    "forgets": "the error dies out long before the first step",
    "late-loss": "most steps get no error, because the loss speaks to the last ones alone",
    "forget-gate-closed": "an LSTM throws its memory away at every step",
    "update-gate-low": "a GRU overwrites its state at every step",
    "input-gate-closed": "an LSTM lets nothing in",
    "output-gate-closed": "an LSTM lets nothing out",
    "update-gate-high": "a GRU lets nothing in",
    "saturated": "units sit at the ends of their range",
    "input-too-large": "the input drowns the state",
    "dead-units": "relu units that are always 0",
    "contracting": "the recurrent matrix is too small for any error to get through",
    "matrix-too-large": "the spectral radius is far above what keeps errors steady",
    "layers-differ": "the errors of neighbouring layers differ by orders of magnitude",
    "clips-always": "clipping engages on nearly every update",
    "spikes": "a few gradients are far larger than the others, and nothing clips them",
    "no-gradient": "parameters that no error reaches",
}
"""Every kind of finding, the most important first."""


def examine(
    looks: Sequence[Look], weights: Mapping[str, Tensor] | None = None, alphas: Mapping[str, float | None] | None = None
) -> list[Finding]:
    """All questions and their answers, by importance; those with a bad answer are `is_ill`."""
    from . import of_errors, of_states, of_updates

    seen = Seen(looks, weights or {}, alphas or {})
    found = [finding for room in (of_errors, of_states, of_updates) for rule in room.RULES for finding in rule(seen)]
    order = list(KINDS)
    return sorted(found, key=lambda finding: (order.index(finding.kind), -_excess(finding)))


def findings_of(
    looks: Sequence[Look], weights: Mapping[str, Tensor] | None = None, alphas: Mapping[str, float | None] | None = None
) -> list[Finding]:
    """What is wrong according to these looks, the most important first."""
    return [finding for finding in examine(looks, weights, alphas) if finding.is_ill]


def _excess(finding: Finding) -> float:
    """How far past its limit a number is, as a factor."""
    number, limit = abs(finding.number) + 1e-300, abs(finding.limit) + 1e-300
    return number / limit if finding.ill_above else limit / number

"""Findings about gates, units and inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from .advice import raise_bias, share, times
from .findings import Finding, Rule, Seen
from .look import CellLook

SATURATING = ("tanh", "sigmoid", "GRU", "LSTM")


class _GateRule(NamedTuple):
    kind: str
    cell: str
    gate: str
    over_time: bool
    """Whether what counts is the sum over all steps: a gate of 1/T per step has let everything in after T of them."""
    limit: float
    said: str
    target: float


GATE_RULES = (
    _GateRule(
        "forget-gate-closed", "LSTM", "f", False, 0.2, "throws its memory away: the forget gate is {:.2g} on average", 1
    ),
    _GateRule("input-gate-closed", "LSTM", "i", True, 0.5, "lets nothing in: the input gate is {:.1e} on average", 0),
    _GateRule(
        "output-gate-closed", "LSTM", "o", False, 0.02, "lets nothing out: the output gate is {:.1e} on average", 0
    ),
    _GateRule(
        "update-gate-low",
        "GRU",
        "z",
        False,
        0.1,
        "overwrites its state: the update gate keeps {:.2g} of it per step",
        1,
    ),
)


def gates(seen: Seen) -> Iterator[Finding]:
    """Gates that are shut."""
    for name, cells in seen.recent().items():
        last = cells[-1]
        for rule in GATE_RULES:
            if last.kind != rule.cell or rule.gate not in last.gates:
                continue
            mean = seen.median(cells, lambda cell, gate=rule.gate: cell.gates[gate].mean)
            if math.isnan(mean):
                continue
            number = mean * last.steps if rule.over_time else mean
            advice = raise_bias(last, rule.gate, rule.target)
            advice = f"{advice[0].upper()}{advice[1:]}."
            yield Finding(rule.kind, name, number, rule.limit, False, f"{name} {rule.said.format(mean)}.", advice)


def update_gate_high(seen: Seen) -> Iterator[Finding]:
    """A GRU that takes in less than a tenth of its state's size over a whole sequence."""
    for name, cells in seen.recent().items():
        last = cells[-1]
        if last.kind != "GRU" or "z" not in last.gates:
            continue
        taken = last.steps * (1 - seen.median(cells, lambda cell: cell.gates["z"].mean))
        if math.isnan(taken):
            continue
        said = f"{name} lets nothing in: its update gate keeps the old state, and over {last.steps} steps "
        said += f"{max(taken, 0):.1e} of it is renewed."
        rows = f"bias_hh_{last.cell}[{last.units}:{2 * last.units}]"
        advice = f"Lower the update gate's bias ({rows}) to {math.log(max(last.steps, 3)):.2g} or less."
        yield Finding("update-gate-high", name, taken, 0.1, False, said, advice)


def saturated(seen: Seen) -> Iterator[Finding]:
    """Activations at the ends of their range, where slopes are 0."""
    for name, cells in seen.recent().items():
        last = cells[-1]
        number = seen.median(cells, lambda cell: cell.saturated)
        if math.isnan(number):
            continue
        of = {"LSTM": "of its cells' tanh(c)", "GRU": "of its candidates n"}.get(last.kind, "of its units")
        said = (
            f"{name} is saturated: {share(number)} {of} are within 0.01 of their bounds, where no error gets through."
        )
        advice = f"Make weight_ih_{last.cell} and weight_hh_{last.cell} smaller (by half), or the layer's input."
        yield Finding("saturated", name, number, 0.5, True, said, advice)


def input_too_large(seen: Seen) -> Iterator[Finding]:
    """The input's part of the activation, against the few units in which a sigmoid or tanh bends."""
    for name, cells in seen.recent().items():
        last = cells[-1]
        drive = seen.median(cells, lambda cell: cell.input_drive)
        if math.isnan(drive) or last.kind not in SATURATING:
            continue
        said = f"{name}: the input's part of the activation, W_ih x + b, is {times(drive)} (root mean square); "
        said += "beyond 5 it decides alone, and the state says nothing."
        advice = f"Divide the layer's input by {times(drive)} (standardise the data), or put a LayerNorm before it."
        yield Finding("input-too-large", name, drive, 5.0, True, said, advice)


def dead_units(seen: Seen) -> Iterator[Finding]:
    """relu units that are 0 at every step of every sequence."""
    for name, cells in seen.recent().items():
        last = cells[-1]
        number = seen.median(cells, lambda cell: cell.dead)
        if math.isnan(number):
            continue
        said = (
            f"{name}: {round(number * last.units)} of {last.units} relu units are 0 at every step: they learn nothing."
        )
        advice = f"Raise bias_ih_{last.cell} to 0 or a little above (0.1), and lower the learning rate."
        yield Finding("dead-units", name, number, 0.25, True, said, advice)


def state_grows(seen: Seen) -> Iterator[Finding]:
    """States without a bound that grow from step to step."""
    for name, cells in seen.recent().items():
        last = cells[-1]
        if last.kind in ("tanh", "sigmoid", "GRU") or math.isnan(last.state_growth) or last.fault is not None:
            continue
        number = seen.median(cells, lambda cell: cell.state_growth)
        said = f"{name}: the state keeps growing, {times(number)}-fold from the first to the last quarter of "
        said += f"{last.steps} steps, up to {last.largest_state:.3g}."
        per_step = max(number, 1.0) ** (1 / max(1.0, 0.75 * last.steps))
        advice = _to_shrink(last, per_step)
        yield Finding("state-grows", name, number, 10.0, True, said, advice)


def _to_shrink(cell: CellLook, per_step: float) -> str:
    if cell.kind == "LSTM":
        return f"Lower the forget gate's bias (bias_hh_{cell.cell}[{cell.units}:{2 * cell.units}])."
    return f"Multiply weight_hh_{cell.cell} by {1 / per_step:.2f}, or use a bounded nonlinearity (tanh)."


RULES: tuple[Rule, ...] = (gates, update_gate_high, saturated, input_too_large, dead_units, state_grows)

"""What was seen at one looked-at update: plain numbers, kept as they are and written as JSON.

    CellLook   one layer, direction and call: the error of every step, gates, states
    Look       one update: all cells, the norms of the parameters' gradients, what clipping did

JSON has no infinity and no NaN: they are written as 'inf', '-inf' and 'nan', which any JSON reader survives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple


class Fault(NamedTuple):
    """Where a value of a cell was first not finite."""

    what: str
    """'parameter weight_hh_l0', 'input', 'gate z', 'cell', 'state' or 'error'."""
    step: int | None
    """The step, from 0, in the order of the input; None for a parameter."""

    def __str__(self) -> str:
        return self.what if self.step is None else f"{self.what} of step {self.step}"


class Gate(NamedTuple):
    """One gate of a gated cell, over all steps, sequences and units."""

    mean: float
    closed: float
    """The share of its values below 0.05."""
    open: float
    """The share above 0.95."""


@dataclass(frozen=True)
class CellLook:
    """What one cell (a layer and direction of a module, at one call of it) did in one forward and backward pass."""

    layer: str
    """The module's name in the model; empty where the model is the layer itself."""
    cell: str
    """As in the parameters' names: 'l0', 'l0_reverse', 'l1', …"""
    call: int
    """0 for the first call of the module in this update, 1 for the second, …"""
    kind: str
    """'tanh', 'relu', 'sigmoid', 'identity', 'GRU', 'LSTM', or the class's name for a cell of the user's."""
    steps: int
    batch: int
    units: int
    norms: Sequence[float]
    """[T]: mean norm of the error of each step, over the sequences that have it."""
    ratios: Sequence[float]
    """[T − 1]: how much of its norm the error keeps from step k + 1 to k; NaN where there is none."""
    horizon: int
    """How many steps back more than 1 % of the error of the last step's own loss is left."""
    growth: float
    """How many times larger that error became on its way, at most; 1 where it never grew."""
    omega: float
    active: float
    room: int = 0
    """How many steps lie between the last step that has an error and the first step: what the horizon is to be held against."""
    reverse: bool = False
    leak: float = 0.0
    reached: float = 0.0
    """The share of steps whose error is at least 1 % of the largest."""
    spoken_to: float = math.nan
    """The share of steps that the loss reaches directly (through the output), not through later steps."""
    saturated: float = math.nan
    """The share of activations within 0.01 of the nonlinearity's bounds (LSTM: of tanh c; GRU: of n)."""
    dead: float = math.nan
    """relu alone: the share of units that are 0 at every step of every sequence."""
    state_growth: float = math.nan
    """How many times larger the state (LSTM: c) is in the last quarter of the steps than in the first."""
    input_drive: float = math.nan
    """Root mean square of W_ih x + b_ih."""
    largest_state: float = math.nan
    gates: Mapping[str, Gate] = field(default_factory=dict[str, Gate])
    fault: Fault | None = None
    approximate: str = ""
    """Why the numbers are not exactly those of the pass; empty where they are."""

    @property
    def name(self) -> str:
        """'encoder.rnn l0'; the second call of a module has '#2' behind it."""
        return f"{self.layer} {self.cell}".strip() + (f" #{self.call + 1}" if self.call else "")


class Clipping(NamedTuple):
    """What a NormClipper had done until then."""

    threshold: float
    steps: int
    clipped: int
    skipped: int
    shrunk: int
    last_skipped: tuple[str, ...]
    history: tuple[tuple[float, float], ...]
    """(before, after) of the updates since the last look."""


@dataclass(frozen=True)
class Look:
    """One looked-at update."""

    update: int
    cells: tuple[CellLook, ...]
    gradients: Mapping[str, float | None]
    """The norm of each trained parameter's gradient after the backward pass; None where it has none."""
    norm: float = math.nan
    """Of all gradients together, before clipping; NaN where no parameter had one."""
    norm_used: float | None = None
    """The same when the optimizer had made its step, so after clipping; None where no optimizer was given."""
    clipping: Clipping | None = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and finite numbers."""
        return _written(
            asdict(self)
            | {
                "clipping": None if self.clipping is None else self.clipping._asdict(),
                "cells": [
                    asdict(cell)
                    | {
                        "fault": None if cell.fault is None else cell.fault._asdict(),
                        "gates": {name: gate._asdict() for name, gate in cell.gates.items()},
                    }
                    for cell in self.cells
                ],
            }
        )

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> Look:
        """The look that `to_json` wrote."""
        line = _read(line)
        clipping = line["clipping"]
        if clipping is not None:
            history = tuple((before, after) for before, after in clipping["history"])
            clipping = Clipping(**clipping | {"last_skipped": tuple(clipping["last_skipped"]), "history": history})
        cells = tuple(
            CellLook(
                **cell
                | {
                    "fault": None if cell["fault"] is None else Fault(**cell["fault"]),
                    "gates": {name: Gate(**gate) for name, gate in cell["gates"].items()},
                }
            )
            for cell in line["cells"]
        )
        return cls(**line | {"clipping": clipping, "cells": cells, "notes": tuple(line["notes"])})


_WORDS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_TEXTS = {"layer", "cell", "kind", "what", "approximate", "notes", "last_skipped"}


def _written(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {key: _written(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(each) for each in value]
    return value


def _read(value: Any, key: str = "") -> Any:
    if isinstance(value, str) and key not in _TEXTS:  # a layer may be called 'nan'
        return _WORDS[value]
    if isinstance(value, dict):
        return {name: _read(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_read(each, key) for each in value]
    return value

"""Layers of gated cells in which every two options meet in every combination, and the values each of them is given."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from steadygrad.recurrence.options import Given, Options


@dataclass(frozen=True)
class Case:
    """One layer and direction, its input and its loss."""

    mode: str
    steps: int
    batch: int
    inputs: int
    hidden: int
    tokens: bool
    lengths: bool
    reverse: bool
    state: bool
    """Whether h0 and c0 are given."""
    bias: bool
    loss: str
    """'every' step, 'last' step (h and c), 'both', or 'memory': the last c alone (GRU: the last h)."""
    convention: str
    clip_error: float | None
    alpha: float

    def __str__(self) -> str:
        marks = {"tokens": self.tokens, "lengths": self.lengths, "reverse": self.reverse, "state": self.state}
        marks |= {"no-bias": not self.bias, "clipped": self.clip_error is not None}
        name = f"{self.mode}-T{self.steps}-B{self.batch}-I{self.inputs}-H{self.hidden}-{self.loss}"
        return "-".join([name, f"{self.convention}-a{self.alpha:g}", *(mark for mark, there in marks.items() if there)])

    @property
    def options(self) -> Options:
        return Options(
            mode=self.mode,
            reverse=self.reverse,
            alpha=self.alpha,
            convention=self.convention,
            clip_error=self.clip_error,
        )


CHOICES: dict[str, Sequence[Any]] = {
    "mode": ("GRU", "LSTM"),
    "steps": (1, 2, 7, 30),
    "batch": (1, 3, 20, 40),
    "inputs": (1, 5, 18),
    "hidden": (1, 5, 16, 50, 67, 150),
    "tokens": (False, True),
    "lengths": (False, True),
    "reverse": (False, True),
    "state": (False, True),
    "bias": (True, False),
    "loss": ("every", "last", "both", "memory"),
    "convention": ("paper", "proceedings", "program"),
    "clip_error": (None, 0.05),
    "alpha": (0.0, 0.7),
}
assert list(CHOICES) == [field.name for field in fields(Case)]


def covering(size: int, seed: int) -> list[Case]:
    """Random cases, `size` of them at least, until any two options have met in every combination of theirs."""
    draw = random.Random(seed)
    names = list(itertools.combinations(CHOICES, 2))
    missing = {(a, b, x, y) for a, b in names for x in CHOICES[a] for y in CHOICES[b]}
    cases: list[Case] = []
    while missing or len(cases) < size:
        row = {name: draw.choice(options) for name, options in CHOICES.items()}
        if missing:
            a, b, x, y = draw.choice(sorted(missing, key=repr))
            row |= {a: x, b: y}
        missing -= {(a, b, row[a], row[b]) for a, b in names}
        cases.append(Case(**row))
    return list(dict.fromkeys(cases))


CASES = covering(size=240, seed=2013)
# For float32, where an error that lies at the clipping threshold may be rounded to either side of it.
SINGLE = [case for case in CASES if case.clip_error is None][::3]


@dataclass(frozen=True)
class Loss:
    """The gradients of the loss with respect to what the layer returns; None is zeros."""

    output: Tensor | None  # [T, B, H]
    last: Tensor | None  # [1, B, H]
    last_c: Tensor | None  # [1, B, H], the LSTM's


def values(case: Case, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> tuple[Given, Loss]:
    """What the case is given: the same numbers in every dtype. The loss is a linear form times `scale`."""
    draw = torch.Generator().manual_seed(zlib.crc32(str(case).encode()))
    T, B, I, H = case.steps, case.batch, case.inputs, case.hidden
    G, is_lstm = (4, True) if case.mode == "LSTM" else (3, False)

    def normal(*shape: int, times: float = 1.0) -> Tensor:
        return (times * torch.randn(*shape, dtype=torch.float64, generator=draw)).to(dtype)

    lengths = torch.randint(1, T + 1, (B,), generator=draw) if case.lengths else None
    if lengths is not None:
        lengths[B // 2] = T
    given = Given(
        inputs=torch.randint(I, (T, B), generator=draw) if case.tokens else normal(T, B, I),
        h0=normal(B, H, times=0.5) if case.state else None,
        weight_ih=normal(G * H, I, times=I**-0.5),
        weight_hh=normal(G * H, H, times=H**-0.5),
        bias_ih=normal(G * H, times=0.3) if case.bias else None,
        bias_hh=normal(G * H, times=0.3) if case.bias else None,
        lengths=lengths,
        c0=normal(B, H) if case.state and is_lstm else None,
    )
    every, last, memory = (
        case.loss in ("every", "both"),
        case.loss in ("last", "both"),
        case.loss != "every" and is_lstm,
    )
    return given, Loss(
        output=normal(T, B, H, times=scale) if every else None,
        last=normal(1, B, H, times=scale) if last or (case.loss == "memory" and not is_lstm) else None,
        last_c=normal(1, B, H, times=scale) if memory else None,
    )

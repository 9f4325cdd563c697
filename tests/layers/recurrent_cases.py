"""A list of layers in which every three options meet in every combination, and what each of them computes."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import steadygrad as sg


@dataclass(frozen=True)
class Case:
    """One layer, its input and its loss."""

    cell: str
    steps: int
    batch: int
    inputs: int
    hidden: int
    layers: int
    bidirectional: bool
    nonlinearity: str
    leak: float
    packed: bool
    omega: str
    clip_error: float | None
    tokens: bool
    bias: bool
    alpha: float
    h0: bool
    loss: str
    """'every': of the output of each step; 'last': of the last states; 'both'."""

    def __str__(self) -> str:
        marks = {"packed": self.packed, "tokens": self.tokens, "no-bias": not self.bias, "h0": self.h0}
        marks |= {"bi": self.bidirectional, "leaky": self.leak > 0, "clipped": self.clip_error is not None}
        name = f"{self.cell}-T{self.steps}-B{self.batch}-I{self.inputs}-H{self.hidden}-L{self.layers}"
        name += f"-{self.nonlinearity}-{self.loss}-{self.omega}-a{self.alpha:g}"
        return "-".join([name, *(mark for mark, there in marks.items() if there)])


CHOICES: dict[str, Sequence[Any]] = {
    "cell": ("RNN",),
    "steps": (1, 2, 7, 50),
    "batch": (1, 3, 20),
    "inputs": (1, 5, 18),
    "hidden": (1, 5, 50, 67),
    "layers": (1, 2),
    "bidirectional": (False, True),
    "nonlinearity": ("tanh", "relu", "sigmoid", "identity"),
    "leak": (0.0, 0.3),
    "packed": (False, True),
    "omega": ("paper", "proceedings", "program"),
    "clip_error": (None, 0.05),
    "tokens": (False, True),
    "bias": (True, False),
    "alpha": (0.0, 0.7),
    "h0": (False, True),
    "loss": ("every", "last", "both"),
}
GATED: dict[str, Sequence[Any]] = {**CHOICES, "cell": ("GRU", "LSTM"), "nonlinearity": ("tanh",), "leak": (0.0,)}
assert list(CHOICES) == [field.name for field in fields(Case)]


def covering(choices: Mapping[str, Sequence[Any]], strength: int, size: int, seed: int) -> list[tuple[Any, ...]]:
    """Rows of choices, one per name, in which any `strength` names meet in every combination of theirs.

    Greedy, so not the shortest such list; filled up with random rows to `size`.
    """
    draw = random.Random(seed)
    groups = list(itertools.combinations(range(len(choices)), strength))
    values = list(choices.values())
    missing = [set(itertools.product(*(values[i] for i in group))) for group in groups]
    rows: list[tuple[Any, ...]] = []
    while any(missing):
        # Each candidate starts from a combination that is still missing, so the list always grows towards its end.
        group = max(range(len(groups)), key=lambda g: len(missing[g]))
        candidates: list[list[Any]] = []
        for _ in range(12):
            row = [draw.choice(options) for options in values]
            wanted = draw.choice(sorted(missing[group], key=repr))
            for i, value in zip(groups[group], wanted, strict=True):
                row[i] = value
            candidates.append(row)
        best = max(
            candidates, key=lambda row: sum(tuple(row[i] for i in g) in m for g, m in zip(groups, missing, strict=True))
        )
        for g, m in zip(groups, missing, strict=True):
            m.discard(tuple(best[i] for i in g))
        rows.append(tuple(best))
    while len(set(rows)) < size:
        rows.append(tuple(draw.choice(options) for options in values))
    return list(dict.fromkeys(rows))


CASES = [Case(*row) for row in covering(CHOICES, strength=3, size=150, seed=2013)]
CASES += [Case(*row) for row in covering(GATED, strength=3, size=120, seed=2014)]
# For float32, where an error that lies at the clipping threshold may be rounded to either side of it.
SINGLE = [case for case in CASES if case.clip_error is None][::4]


def build(case: Case, backend: str, dtype: torch.dtype) -> sg.RNN | sg.GRU | sg.LSTM:
    """The layer, with weights that depend on the case alone."""
    options: dict[str, Any] = {
        "bias": case.bias,
        "bidirectional": case.bidirectional,
        "alpha": case.alpha,
        "omega": case.omega,
        "clip_error": case.clip_error,
        "backend": backend,
        "dtype": dtype,
    }
    if case.cell == "RNN":
        options |= {"nonlinearity": case.nonlinearity, "leak": case.leak}
    rnn = {"RNN": sg.RNN, "GRU": sg.GRU, "LSTM": sg.LSTM}[case.cell](case.inputs, case.hidden, case.layers, **options)
    weights = torch.Generator().manual_seed(zlib.crc32(str(case).encode()))
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.copy_(
                (2 * torch.rand(parameter.shape, dtype=torch.float64, generator=weights) - 1) / case.hidden**0.5
            )
    return rnn


def computed(case: Case, backend: str, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> dict[str, Tensor]:
    """Outputs, every gradient, and what the backward pass measured; the loss is a fixed linear form times `scale`."""
    rnn = build(case, backend, dtype)
    draw = torch.Generator().manual_seed(case.steps)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=draw).to(dtype)

    cells = case.layers * (1 + case.bidirectional)
    width = case.hidden * (1 + case.bidirectional)
    if case.tokens:
        sequence = torch.randint(case.inputs, (case.steps, case.batch), generator=draw)
    else:
        sequence = normal(case.steps, case.batch, case.inputs).requires_grad_()
    parts = 2 if case.cell == "LSTM" else 1
    first = [normal(cells, case.batch, case.hidden).requires_grad_() for _ in range(parts)] if case.h0 else []
    entries: tuple[int, ...] = (case.steps, case.batch)
    layer_input: Tensor | PackedSequence = sequence
    if case.packed:
        lengths = torch.randint(1, case.steps + 1, (case.batch,), generator=draw)
        lengths[case.batch // 2] = case.steps
        layer_input = pack_padded_sequence(sequence, lengths, enforce_sorted=False)
        entries = (int(lengths.sum()),)
    output, last = rnn(layer_input, tuple(first) if len(first) > 1 else first[0] if first else None)
    last = torch.cat(last, -1) if isinstance(last, tuple) else last
    output = output.data if isinstance(output, PackedSequence) else output
    of_output, of_last = normal(*entries, width), normal(cells, case.batch, parts * case.hidden)
    loss = torch.zeros((), dtype=dtype)
    if case.loss in ("every", "both"):
        loss = loss + (output * of_output).sum()
    if case.loss in ("last", "both"):
        loss = loss + (last * of_last).sum()
    (loss * scale).backward()

    found = {"output": output, "last": last}
    found |= {name: parameter.grad for name, parameter in rnn.named_parameters() if parameter.grad is not None}
    found |= {
        name: leaf.grad
        for name, leaf in {"input": sequence, **dict(zip(("h0", "c0"), first, strict=False))}.items()
        if leaf.grad is not None
    }
    found |= {f"measured {cell.name}": cell.measured for cell in rnn.flow}
    return {name: value.detach().double() for name, value in found.items()}


def distance(found: Tensor, expected: Tensor) -> float:
    """‖found − expected‖ / ‖expected‖; 0 where both are zero, NaN where either is not a number."""
    apart = (found - expected).norm()
    return 0.0 if apart == 0 else float(apart / expected.norm())

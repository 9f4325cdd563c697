"""From a re-run cell to the numbers of a `CellLook`: errors, gates, states, and where a value was first not finite."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..flow import KEPT, CellFlow
from ..recurrence import nonlinearity
from ..recurrence.cells import project
from .cellrun import CellRun
from .look import CellLook, Fault, Gate

CLOSED, OPEN = 0.05, 0.95
NEAR = 0.01
"""An activation nearer than this to the nonlinearity's bound counts as saturated."""
GATES = {"GRU": ("r", "z", "n"), "LSTM": ("i", "f", "g", "o")}
CANDIDATES = ("n", "g")
"""Not gates: values in (−1, 1)."""
SAMPLED = 32
"""At so many steps the input's part of the activation is computed: a mean needs no more."""


@torch.no_grad()
def cell_look(layer: str, call: int, run: CellRun) -> CellLook:
    """All numbers of one cell."""
    mode = run.options.mode
    steps, batch, units = run.saved.output.shape
    running = _running(run)
    gates = _gates(run)
    state = run.saved.memory if mode == "LSTM" and run.saved.memory is not None else run.saved.output
    return CellLook(
        layer=layer,
        cell=run.name,
        call=call,
        kind=run.options.nonlinearity if mode == "RNN" else mode,
        steps=steps,
        batch=batch,
        units=units,
        **of_flow(run.flow, run.lasting_flow),
        spoken_to=run.spoken_to.double().mean().item(),
        saturated=_saturated(run, gates, running),
        dead=_dead(run, running),
        state_growth=_state_growth(state, run),
        input_drive=_input_drive(run),
        largest_state=_kept(state, running).abs().max().item(),
        gates={
            name: Gate(*(each.item() for each in _shares(_kept(values, running))))
            for name, values in gates.items()
            if name not in CANDIDATES
        },
        fault=_fault(run, gates, running),
        approximate=run.approximate,
    )


def of_flow(total: CellFlow, lasting: CellFlow | None = None) -> dict[str, Any]:
    """What a `CellLook` takes from a flow: the norms from the total error; horizon and growth from the lasting one."""
    norms, ratios = total.norms, total.ratios
    largest = norms.nan_to_num(0.0, posinf=0.0).max().item() if len(norms) else 0.0
    finite = _finite(total.measured)
    # worked out here and not by the flow's own properties, each of which would begin with the ratios again
    way = ratios if lasting is None else lasting.ratios
    way = way if total.options.reverse else way.flip(0)
    seen = torch.nonzero(~way.isnan()).flatten()
    way = way[int(seen[0]) :] if len(seen) else way[:0]
    left = way.nan_to_num(0.0).log().cumsum(0).exp()
    return {
        "norms": norms.tolist(),
        "ratios": ratios.tolist(),
        "horizon": int((left > KEPT).long().cumprod(0).sum()) if finite else 0,
        "growth": max([1.0, *left.tolist()]) if finite else math.inf,
        "room": len(way),
        "omega": total.omega,
        "active": total.active if finite else 0.0,
        "reverse": total.options.reverse,
        "leak": total.options.leak,
        "reached": (norms >= KEPT * largest).double().mean().item() if largest > 0 else 0.0,
    }


def _gates(run: CellRun) -> dict[str, Tensor]:
    if run.options.mode not in GATES or run.saved.activation is None:
        return {}
    names = GATES[run.options.mode]
    return dict(zip(names, run.saved.activation.chunk(len(names), -1), strict=True))


def _running(run: CellRun) -> Tensor | None:
    """[T, B]: the steps before each sequence's end; None where all are."""
    if run.saved.lengths is None:
        return None
    return torch.arange(len(run.saved.output), device=run.saved.lengths.device).unsqueeze(1) < run.saved.lengths


def _kept(values: Tensor, running: Tensor | None) -> Tensor:
    """[N, H]: the values of running steps."""
    return values.flatten(0, 1) if running is None else values[running]


def _shares(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    # Counted, not averaged: a mean of booleans would first be a copy of them in floating point.
    count = values.numel()
    return values.mean(dtype=torch.float32), (values < CLOSED).sum() / count, (values > OPEN).sum() / count


def _saturated(run: CellRun, gates: dict[str, Tensor], running: Tensor | None) -> float:
    options = run.options
    if options.mode == "LSTM":
        values, low, high = (
            run.saved.memory,
            -math.atanh(1 - NEAR),
            math.atanh(1 - NEAR),
        )  # tanh c is saturated where c is beyond
    elif options.mode == "GRU":
        values, low, high = gates.get("n"), NEAR - 1, 1 - NEAR
    else:
        low, high = (bound - math.copysign(NEAR, bound - 0.5) for bound in nonlinearity.get(options.nonlinearity).range)
        values = run.saved.output if run.saved.activation is None else run.saved.activation
        if options.nonlinearity in ("relu", "identity"):
            return math.nan
    if values is None:
        return math.nan
    kept = _kept(values, running)
    return (((kept < low) | (kept > high)).sum() / kept.numel()).item()


def _dead(run: CellRun, running: Tensor | None) -> float:
    if run.options.mode != "RNN" or run.options.nonlinearity != "relu":
        return math.nan
    values = run.saved.output if run.saved.activation is None else run.saved.activation
    return _kept(values, running).eq(0).all(0).double().mean().item()


def _state_growth(state: Tensor, run: CellRun) -> float:
    """Root mean squares of the first and last quarter, in the order of computing, of the sequences that last to the end."""
    steps = len(state)
    if steps < 8:
        return math.nan
    if run.saved.lengths is not None:
        whole = run.saved.lengths == steps
        state = state[:, whole]
    if run.options.reverse:
        state = state.flip(0)
    first, last = (_rms(part) for part in (state[: steps // 4], state[-(steps // 4) :]))
    return last / first if first > 0 else (math.inf if last > 0 else 1.0)


def _input_drive(run: CellRun) -> float:
    stride = max(1, len(run.saved.inputs) // SAMPLED)
    return _rms(project(run.saved.inputs[::stride], run.saved.weight_ih, run.bias_ih))


def _rms(values: Tensor) -> float:
    return values.double().square().mean().sqrt().item() if values.numel() else math.nan


def _fault(run: CellRun, gates: dict[str, Tensor], running: Tensor | None) -> Fault | None:
    for name, values in (
        ("weight_ih", run.saved.weight_ih),
        ("weight_hh", run.saved.weight_hh),
        ("bias_ih", run.bias_ih),
    ):
        if values is not None and not _finite(values):
            return Fault(f"parameter {name}_{run.name}", None)
    seen = [("input", run.saved.inputs), *((f"gate {name}", values) for name, values in gates.items())]
    if run.options.mode == "LSTM" and run.saved.memory is not None:
        seen.append(("cell", run.saved.memory))
    seen.append(("state", run.saved.output))
    found: list[tuple[int, int, str]] = []
    for rank, (what, values) in enumerate(seen):
        if values.is_floating_point() and not _finite(values):
            faulty = ~values.isfinite().flatten(2).all(2)
            steps = torch.nonzero((faulty if running is None else faulty & running).any(1)).flatten().tolist()
            if steps:
                found.append((-steps[-1] if run.options.reverse else steps[0], rank, what))
    if found:
        step, _, what = min(found)
        return Fault(what, abs(step))
    if _finite(run.measured):
        return None
    steps = torch.nonzero(~run.measured[0].isfinite().all(1)).flatten().tolist()
    steps = steps or torch.nonzero(~run.measured[1].isfinite().all(1)).flatten().tolist()
    return Fault("error", steps[0] if run.options.reverse else steps[-1])  # errors go the other way


def _finite(values: Tensor) -> bool:
    return bool(torch.isfinite(values.sum())) or bool(values.isfinite().all())  # the sum alone is quicker

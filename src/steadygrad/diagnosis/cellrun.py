"""One layer and direction of a re-run call, calls that follow each other as one, and how long a single error lasts.

The total error δ_k of a step is the sum over the losses of all later steps. Where every step has a loss of its own, what comes
from afar is hidden under what has just come in, so the total does not tell how far back an error reaches. The lasting error is
that of the last step's loss alone, which nothing is added to on its way back:

    horizon   how many steps back more than 1 % of it is left      growth   how many times larger it became at most
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..flow import CellFlow
from ..recurrence import nonlinearity
from ..recurrence.options import Options, Saved
from ..recurrence.stepwise import square
from .sweep import sweep

Parts = tuple[Tensor | None, ...]


@dataclass(frozen=True)
class CellRun:
    """One layer and direction, re-run. Time is the first axis."""

    name: str
    options: Options
    saved: Saved
    bias_ih: Tensor | None
    received: Tensor | None
    """[T, B]: where the output received an error, from the loss or the layer above; None: nowhere."""
    grad_last: Parts
    """[1, B, H] each: what the last state received."""
    measured: Tensor
    """[2, T, B] float64, on the CPU: squared norms of the errors, and of what each step sends back."""
    to_first: tuple[Tensor, ...]
    """The error of the initial state, each part [B, H]."""
    lasting: Tensor
    """As `measured`, of the lasting error."""
    lasting_to_first: tuple[Tensor, ...]
    approximate: str = ""

    @property
    def flow(self) -> CellFlow:
        """The total error."""
        return CellFlow(self.name, self.measured, self.options, self._lengths)

    @property
    def lasting_flow(self) -> CellFlow:
        """The error of the last step's loss alone."""
        return CellFlow(self.name, self.lasting, self.options, self._lengths)

    @property
    def _lengths(self) -> Tensor | None:
        return None if self.saved.lengths is None else self.saved.lengths.cpu()

    @property
    def spoken_to(self) -> Tensor:
        """[T]: which steps receive an error from outside of the recurrence."""
        steps = len(self.saved.output)
        found = torch.zeros(steps, dtype=torch.bool)
        if self.received is not None:
            found = self.received.any(1).cpu()
        if any(part is not None and bool(part.ne(0).any()) for part in self.grad_last):
            found[0 if self.options.reverse else steps - 1] = True
        return found


def run_back(
    name: str,
    options: Options,
    saved: Saved,
    bias_ih: Tensor | None,
    grad: Tensor | None,
    grad_last: Parts,
    inputs: bool,
    approximate: str,
) -> tuple[CellRun, Tensor | None]:
    """The cell with its errors, total and lasting, and what it says to its inputs, where that is wanted."""
    received = None if grad is None else grad.ne(0).any(-1)
    only = _last_loss(options, saved, grad, received, grad_last)
    grads = [grad] if only is None else [grad, only]
    swept = sweep(saved, options, grads, [grad_last] * len(grads), inputs)
    first = [tuple(part[index] for part in swept.first) for index in range(len(grads))]
    measured = (swept.measured[0], first[0], swept.measured[-1], first[-1])
    return CellRun(name, options, saved, bias_ih, received, grad_last, *measured, approximate), swept.inputs


def _last_loss(
    options: Options, saved: Saved, grad: Tensor | None, received: Tensor | None, grad_last: Parts
) -> Tensor | None:
    """`grad` without all but each sequence's last step that has one; None where there is no other."""
    if grad is None or received is None:
        return None
    steps = len(grad)
    position = torch.arange(steps, device=grad.device)
    if options.reverse:
        position = position.flip(0)
    last = torch.where(received, position.unsqueeze(1), -1).amax(0)
    end = torch.full_like(last, steps - 1)
    if saved.lengths is not None and not options.reverse:
        end = saved.lengths - 1
    for part in grad_last:
        if part is not None:
            last = torch.where(part[0].ne(0).any(-1), end, last)
    chosen = position.unsqueeze(1) == last
    return torch.where(chosen.unsqueeze(-1), grad, 0.0) if bool((received & ~chosen).any()) else None


def joined(runs: list[CellRun]) -> CellRun:
    """One cell over several calls, each of which goes on from the last state of the one before: as if it were one call."""
    if len(runs) == 1:
        return runs[0]
    # Backwards: the last call's error goes on through the calls before it, which add nothing of their own to it.
    last = runs[-1]
    found = [(last.lasting, last.lasting_to_first)]
    for run in reversed(runs[:-1]):
        carried = tuple(part.unsqueeze(0) for part in found[0][1])
        swept = sweep(run.saved, run.options, [None], [carried], False)
        found.insert(0, (swept.measured[0], tuple(part[0] for part in swept.first)))
    saved = [run.saved for run in runs]
    whole = saved[0]._replace(
        inputs=torch.cat([each.inputs for each in saved]),
        output=torch.cat([each.output for each in saved]),
        activation=_cat([each.activation for each in saved]),
        memory=_cat([each.memory for each in saved]),
    )
    return replace(
        runs[0],
        saved=whole,
        received=torch.cat([_received(run) for run in runs]),
        grad_last=last.grad_last,
        measured=_with_boundaries(runs, [run.measured for run in runs], [run.to_first for run in runs]),
        lasting=_with_boundaries(runs, [each for each, _ in found], [first for _, first in found]),
        approximate=next((run.approximate for run in runs if run.approximate), ""),
    )


def _with_boundaries(runs: list[CellRun], measured: list[Tensor], firsts: list[tuple[Tensor, ...]]) -> Tensor:
    """All steps, with what the first step of each call sends to the last of the call before."""
    numbers = [each.clone() for each in measured]
    for before, run, own, sent in zip(runs[:-1], runs[1:], numbers[1:], firsts[1:], strict=True):
        if not run.options.state_is_after:  # the state is x, before the nonlinearity: σ'(x) stands between it and h
            slope = nonlinearity.get(run.options.nonlinearity).slope(before.saved.output[-1])
            sent = tuple(part * slope for part in sent)
        own[1, 0] = square(sent)
    return torch.cat(numbers, 1)


def _received(run: CellRun) -> Tensor:
    if run.received is not None:
        return run.received
    return torch.zeros(run.saved.output.shape[:2], dtype=torch.bool, device=run.saved.output.device)


def _cat(parts: list[Tensor | None]) -> Tensor | None:
    return None if parts[0] is None else torch.cat([part for part in parts if part is not None])

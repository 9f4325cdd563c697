"""Any cell: state' = cell(input, state), the state a tensor [B, …] or several of them.

    s = all parts of the state, flattened, one after the other            [B, n]
    J = ∂s'/∂s                                                           [B, n, n], by torch.func, one sequence at a time
    e · ∂⁺s'/∂θ and e · J                                                by autograd through one step

A copy of the cell in float64 on the CPU, in evaluation mode, is called; the cell itself is not. Sequences of a batch must
not mix: the Jacobian of one would not hold its way through the others.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .layer import Components, Layer

State = tuple[Tensor, ...]


class OwnCellLayer(Layer):
    """A cell of the user's.

    Args:
        cell: the module; it is copied.
        like: its initial state: what it is made of (a tensor, a tuple or a list), and the shapes of the parts.
    """

    states = ("s",)
    state_is = "n"

    def __init__(self, cell: nn.Module, like: Any) -> None:
        self.name = f"a cell of type {type(cell).__name__}"
        # A tensor made in inference mode can't be differentiated, wherever it is used.
        with torch.inference_mode(False):
            try:
                self.cell = copy.deepcopy(cell).to("cpu").double().eval()
            except Exception as fault:
                raise TypeError(
                    f"rnn must have a cell that can be copied, but {type(cell).__name__}: {fault}"
                ) from fault
        for parameter in self.cell.parameters():
            if not parameter.isfinite().all():
                raise ValueError(f"rnn must have finite parameters, but those of {type(cell).__name__} are not")
        self.made_of: type = Tensor if isinstance(like, Tensor) else type(like)
        parts = parts_of(like)
        self.shapes = [tuple(part.shape[1:]) for part in parts]
        self.sizes = [part[0].numel() for part in parts]

    @property
    def size(self) -> int:
        return sum(self.sizes)

    @property
    def hidden(self) -> int:
        return self.sizes[0]

    def drive(self, u: Tensor) -> Tensor:
        return u

    def join(self, state: Any) -> Tensor:
        """The parts as one vector, [B, n]."""
        return torch.cat([part.flatten(1) for part in parts_of(state)], 1)

    def split(self, s: Tensor) -> Any:
        """The state as the cell takes it; copied, so that a cell that works in place does not change s."""
        pieces = s.split(self.sizes, 1)
        parts = tuple(piece.clone().reshape(-1, *shape) for piece, shape in zip(pieces, self.shapes, strict=True))
        return parts[0] if self.made_of is Tensor else list(parts) if self.made_of is list else parts

    def next(self, s: Tensor, drive: Tensor) -> Tensor:
        return self.join(self._checked(self.cell(drive.clone(), self.split(s)), len(s)))

    def _checked(self, after: Any, batch: int) -> Any:
        name = type(self.cell).__name__
        parts = (after,) if isinstance(after, Tensor) else after
        if not isinstance(parts, (tuple, list)) or not all(isinstance(part, Tensor) for part in parts):
            raise TypeError(f"rnn's cell {name} must return a tensor or a tuple of tensors, not {type(after).__name__}")
        came, given = [list(part.shape) for part in parts], [[batch, *shape] for shape in self.shapes]
        if came != given:
            raise ValueError(f"rnn's cell {name} must return a state of the shapes it was given, {given}, not {came}")
        return after

    def check(self, s: Tensor, drive: Tensor) -> None:
        """Refuses a cell that is random or mixes the sequences of a batch."""
        # Sequences that begin alike would hide that they mix.
        s = s + 0.1 * torch.sin(torch.arange(s.numel(), dtype=s.dtype)).view_as(s)
        alone = torch.cat([self.next(s[b : b + 1], drive[b : b + 1]) for b in range(min(len(s), 2))])
        together = self.next(s, drive)[: len(alone)]
        if not torch.allclose(alone, together, rtol=1e-9, atol=1e-12, equal_nan=True):
            raise ValueError(
                f"rnn's cell {type(self.cell).__name__} must give a sequence the same state alone and in a batch, and it "
                "does not: noise, or a mixing of sequences, has no Jacobian"
            )

    def jacobian_at(self, s: Tensor, drive: Tensor) -> Tensor:
        def step(s_b: Tensor, d_b: Tensor) -> Tensor:
            return self.next(s_b.unsqueeze(0), d_b.unsqueeze(0)).squeeze(0)

        with torch.inference_mode(False), torch.enable_grad():
            s, drive = s.clone(), drive.clone()
            try:
                return torch.func.vmap(torch.func.jacrev(step))(s, drive).detach()
            except (RuntimeError, NotImplementedError):
                # An operation torch.func does not know (a custom autograd function, .item()): plain autograd does.
                return torch.stack([_jacobian_by_rows(step, *row) for row in zip(s, drive, strict=True)])

    def parameters(self) -> Components:
        return {name: parameter.detach() for name, parameter in self.cell.named_parameters()}

    def pull_back(self, e: Tensor, s: Tensor, drive: Tensor, u: Tensor) -> tuple[Components, Tensor]:
        with torch.inference_mode(False), torch.enable_grad():
            # Copies that ask for gradients, also of parameters that are frozen.
            parameters = {name: value.clone().requires_grad_() for name, value in self.parameters().items()}
            before = s.clone().requires_grad_()
            after = self.join(torch.func.functional_call(self.cell, parameters, (drive.clone(), self.split(before))))
            ends = [*parameters.values(), before]
            if not after.requires_grad:
                found: list[Tensor] = [torch.zeros_like(end) for end in ends]
            else:
                found = list(torch.autograd.grad(after, ends, e.clone(), allow_unused=True, materialize_grads=True))
        return dict(zip(parameters, found[:-1], strict=True)), found[-1]

    def spread(self, draw: Tensor, drive: Tensor) -> Tensor:
        return 6 * draw - 3


def parts_of(state: Any) -> State:
    """The tensors a state is made of."""
    return (state,) if isinstance(state, Tensor) else tuple(state)


def _jacobian_by_rows(step: Callable[[Tensor, Tensor], Tensor], s: Tensor, drive: Tensor) -> Tensor:
    before = s.clone().requires_grad_()
    after = step(before, drive)
    if not after.requires_grad:
        return torch.zeros(len(s), len(s), dtype=s.dtype)
    rows = [
        torch.autograd.grad(entry, before, retain_graph=True, allow_unused=True, materialize_grads=True)[0]
        for entry in after
    ]
    return torch.stack(rows)

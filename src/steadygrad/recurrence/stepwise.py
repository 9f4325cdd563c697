"""Any cell over time as an autograd loop, with Ω and the flow of its errors. Slow, and right for every cell.

    s_{k+1} = F(s_k, u_{k+1}; θ)                     s: the state, one vector of all its parts
    δ_k = ∂E/∂s_k                                    total: through every later step
    v_k = δ_{k+1} ∂F/∂s (s_k, u_{k+1}; θ)            what arrives at step k from step k+1
    Ω = mean over active pairs of (‖v_k‖ / ‖δ_{k+1}‖ − 1)²        (squared norms in the other conventions)

∂⁺Ω/∂θ_rec holds s_k, u_{k+1} and δ_{k+1} constant: one double backward pass over all pairs (k, b) at once, no recurrence.

Two identities per step watch the backward pass. One stands behind a step and sees δ, one before it and sees v; an LSTM's c' is
a part of the state beside h', so its way into h' within the step is not counted twice.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportPrivateUsage=false
# (much of what is used of torch here is not annotated)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from .. import regularizer
from ..flow import Recorder
from . import fault
from .options import Options

State = tuple[Tensor, ...]
Step = Callable[[Tensor, State, Sequence[Tensor]], State]
"""step(input of this step, state before it, recurrent parameters) → state. Rows of the batch must not mix."""


def run(
    step: Step,
    inputs: Tensor,
    state: State,
    recurrent: Sequence[Tensor],
    options: Options,
    recorder: Recorder | None = None,
    lengths: Tensor | None = None,
) -> tuple[Tensor, State]:
    """The first part of every state, [T, B, H], and the last state.

    Args:
        step: F.
        inputs: u, [T, B, …].
        state: s_0, each part [B, …].
        recurrent: θ_rec, the parameters that get Ω's derivative.
        options: `reverse`, `alpha`, `convention` and `clip_error` are read.
        recorder: where the backward pass leaves what it measured; None: nowhere.
        lengths: [B]; a step past a sequence's length holds its state.
    """
    steps = len(inputs)
    watched = torch.is_grad_enabled() and (recorder is not None or options.alpha > 0 or options.clip_error is not None)
    tape = _Tape(step, recurrent, options, recorder, lengths, inputs) if watched else None
    if tape is not None and options.alpha > 0:
        recurrent = cast(Any, _AddOmega).apply(tape, *recurrent)
    outputs: list[Tensor] = [inputs] * steps
    for index, time in enumerate(order(steps, options.reverse)):
        before = state if tape is None else tape.sending(index, state)
        after = step(inputs[time], before, recurrent)
        if tape is not None:
            after = tape.receiving(index, state, after)
        if lengths is not None:
            running = time < lengths
            after = tuple(
                torch.where(running.view(-1, *[1] * (new.dim() - 1)), new, old)
                for new, old in zip(after, state, strict=True)
            )
        state = after
        outputs[time] = state[0]
    return torch.stack(outputs), state


def order(steps: int, reverse: bool) -> range:
    """The times of the steps in the order in which they are computed."""
    return range(steps - 1, -1, -1) if reverse else range(steps)


class _Tape:
    """What Ω needs of one forward and backward pass. Holds numbers only, never a graph."""

    def __init__(
        self,
        step: Step,
        recurrent: Sequence[Tensor],
        options: Options,
        recorder: Recorder | None,
        lengths: Tensor | None,
        inputs: Tensor,
    ) -> None:
        self.step, self.recurrent = step, [each.detach() for each in recurrent]
        self.options, self.recorder, self.lengths, self.inputs = options, recorder, lengths, inputs.detach()
        self.before: list[State] = []
        self.after: list[State] = []
        self.errors: dict[int, State] = {}
        self.sent: dict[int, Tensor] = {}

    def sending(self, index: int, state: State) -> State:
        """The state as this step reads it: what comes back through it is v."""
        return cast(Any, _Watch).apply(lambda errors: self._on_sent(index, errors), *state)

    def receiving(self, index: int, before: State, after: State) -> State:
        """The state as later steps and the loss read it: what comes back through it is δ."""
        self.before.append(tuple(part.detach() for part in before))
        self.after.append(tuple(part.detach() for part in after))
        return cast(Any, _Watch).apply(lambda errors: self._on_error(index, errors), *after)

    def _on_sent(self, index: int, errors: State) -> State:
        self.sent[index] = square(tuple(error.detach() for error in errors))
        return errors

    def _on_error(self, index: int, errors: State) -> State:
        clip = self.options.clip_error
        if clip is not None:
            errors = tuple(error.clamp(-clip, clip) for error in errors)
        self.errors[index] = tuple(error.detach() for error in errors)
        if index == 0 and self.recorder is not None:  # the last of the pass: every later step has been seen
            measured = self.measured().transpose(1, 2)
            in_time = self.after[::-1] if self.options.reverse else self.after
            states = torch.stack([torch.cat([part.flatten(1) for part in state], 1) for state in in_time])
            found = fault.find(measured, self.options, self.inputs, states)
            self.recorder.record(measured, self.options, self.lengths, found)
        return errors

    def measured(self) -> Tensor:
        """[2, T, B]: ‖δ‖² of every step and ‖v‖² that it sends to the one before it."""
        steps, batch = self.inputs.shape[:2]
        found = torch.zeros(2, steps, batch, dtype=torch.float64)
        for index, time in enumerate(order(steps, self.options.reverse)):
            if index in self.errors:
                found[0, time] = square(self.errors[index])
            if index > 0 and index in self.sent:
                found[1, time] = self.sent[index]
        lengths = None if self.lengths is None else self.lengths.cpu()
        return found * running_pairs(lengths, steps, self.options.reverse)

    def omega_gradient(self) -> Sequence[Tensor]:
        """α ∂⁺Ω/∂θ_rec."""
        steps = len(self.inputs)
        times = list(order(steps, self.options.reverse))
        pairs = [index for index in range(1, steps) if index in self.errors]
        measured = self.measured()
        if not pairs:
            return [torch.zeros_like(each) for each in self.recurrent]
        factors = regularizer.factors(measured[0], measured[1], self.options.convention)
        factors = torch.stack([factors[times[index]] for index in pairs]).flatten()
        with torch.enable_grad():
            parameters = [each.detach().requires_grad_() for each in self.recurrent]
            before = tuple(_rows(self.before, pairs, part).requires_grad_() for part in range(len(self.before[0])))
            inputs = torch.cat([self.inputs[times[index]] for index in pairs])
            after = self.step(inputs, before, parameters)
            self._check_repeated(after, pairs)
            errors = tuple(torch.cat([self.errors[index][part] for index in pairs]) for part in range(len(after)))
            back: Any = torch.autograd.grad(after, before, errors, create_graph=True, allow_unused=True)
            # With dΩ = Σ φ_k v_k · dv_k (regularizer.py), θ gets Σ (∂v/∂θ)ᵀ φ v, and φ v is held constant.
            terms = [
                (
                    _wide(found) * _wide(found.detach()) * factors.to(found.device).view(-1, *[1] * (found.dim() - 1))
                ).sum()
                for found in back
                if found is not None
            ]
            total = torch.stack(terms).sum() if terms else factors.new_zeros(())
            if not total.requires_grad:
                return [torch.zeros_like(each) for each in self.recurrent]
            found: Any = torch.autograd.grad(total, parameters, allow_unused=True)
        return [
            torch.zeros_like(each) if grad is None else self.options.alpha * grad
            for each, grad in zip(self.recurrent, found, strict=True)
        ]

    def _check_repeated(self, after: State, pairs: list[int]) -> None:
        for part, again in enumerate(after):
            once = _rows(self.after, pairs, part)
            if not torch.allclose(again.detach(), once, rtol=1e-4, atol=1e-5, equal_nan=True):
                raise RuntimeError(
                    "the cell must give the same state when it is run again on the same input and state, and it did not: "
                    "Ω can't be computed for a cell with dropout, noise or a mixing of sequences inside"
                )


def _rows(states: list[State], pairs: list[int], part: int) -> Tensor:
    return torch.cat([states[index][part] for index in pairs])


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.device.type == "mps" else tensor.double()


def square(parts: State) -> Tensor:
    """‖·‖² of each row, over all parts of the state, [B] in float64."""
    return torch.stack([_wide(part).flatten(1).square().sum(1) for part in parts]).sum(0).to("cpu", torch.float64)


def running_pairs(lengths: Tensor | None, steps: int, reverse: bool) -> Tensor | float:
    """[2, T, B]: which steps have an error, and which send one to a running step; 1 where no sequence is padded."""
    if lengths is None:
        return 1.0
    running = torch.arange(steps, device=lengths.device).unsqueeze(1) < lengths
    receiver = torch.zeros_like(running)
    if reverse:
        receiver[:-1] = running[1:]
    else:
        receiver[1:] = running[:-1]
    return torch.stack([running, running & receiver])


class _Watch(torch.autograd.Function):
    """The identity; its backward pass shows all gradients at once to `seen`, and passes on what that gives back."""

    @staticmethod
    def forward(ctx: Any, seen: Callable[[State], State], *tensors: Tensor) -> State:
        ctx.seen = seen
        return tuple(each.view_as(each) for each in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, *ctx.seen(grads)


class _AddOmega(torch.autograd.Function):
    """The identity on θ_rec, whose backward pass comes after every step's and adds α ∂⁺Ω/∂θ_rec."""

    @staticmethod
    def forward(ctx: Any, tape: _Tape, *recurrent: Tensor) -> Any:
        ctx.tape = tape
        return tuple(each.view_as(each) for each in recurrent)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        tape: _Tape = ctx.tape
        added = tape.omega_gradient()
        if torch.is_grad_enabled():
            added = cast(Any, NotTwice).apply(tuple(added), *tape_inputs(grads))
        return None, *(grad + more for grad, more in zip(grads, added, strict=True))


def tape_inputs(grads: Sequence[Tensor | None]) -> list[Tensor]:
    """The gradients that exist: what `NotTwice` is made to depend on."""
    return [grad for grad in grads if grad is not None]


class NotTwice(torch.autograd.Function):
    """Passes Ω's derivative on; refuses to be differentiated, where silence would mean a missing term."""

    @staticmethod
    def forward(ctx: Any, added: tuple[Tensor, ...], *came_from: Tensor) -> Any:
        # What they came from makes them depend on it, which is all that autograd needs to know to come here.
        return tuple(each.clone() for each in added)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "Ω's part of the gradient of weight_hh can't be differentiated again; set alpha = 0 while you differentiate twice"
        )

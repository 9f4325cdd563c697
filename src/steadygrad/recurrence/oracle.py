"""The recurrence as a plain autograd loop: slow, obvious, and what the other backends are tested against.

    a_k = W_ih u_k + b_ih + W_hh h_{k−1} + b_hh
    h_k = λ h_{k−1} + (1 − λ) σ(a_k)                 λ = 0: the paper's equation 2 with x_k = a_k

Ω is the printed formula (equation 9), differentiated by autograd with x_k and the errors held constant (equation 10):

    Ω = 1/N Σ_k (‖v_k‖ / ‖δ_{k+1}‖ − 1)²,   v_k = σ'(x_k) ⊙ (Wᵀ δ_{k+1})

over the N active pairs, or with squared norms and the errors of h in place of δ in the authors' program. Gated cells go through
stepwise.py, whose Ω is that of any cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from .. import regularizer
from ..flow import Recorder
from . import cells, fault, nonlinearity, stepwise
from .options import Given, Options


def run(given: Given, options: Options, recorder: Recorder | None) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Output [T, B, H] and the last state, each part [1, B, H].

    With nothing to watch (no Ω, no recorder, no clipped error) it is a loop of plain torch operations, which torch can
    transform and trace.
    """
    watched = recorder is not None or options.alpha > 0 or options.clip_error is not None
    if options.mode != "RNN" or not watched or not torch.is_grad_enabled():
        return _any_cell(given, options, recorder)
    return _plain_cell(given, options, recorder)


def _any_cell(given: Given, options: Options, recorder: Recorder | None) -> tuple[Tensor, tuple[Tensor, ...]]:
    inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, c0 = given
    projected = cells.project(inputs, weight_ih, bias_ih)
    zeros = projected.new_zeros(inputs.shape[1], weight_hh.shape[1]) if h0 is None or c0 is None else h0
    state = tuple(zeros if part is None else part for part in (h0, c0)[: cells.STATES[options.mode]])

    def step(p: Tensor, state: tuple[Tensor, ...], recurrent: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return cells.step(p, state, recurrent[0], bias_hh, options)

    output, last = stepwise.run(step, projected, state, (weight_hh,), options, recorder, lengths)
    return output, tuple(part.unsqueeze(0) for part in last)


def _plain_cell(given: Given, options: Options, recorder: Recorder | None) -> tuple[Tensor, tuple[Tensor, ...]]:
    inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, _ = given
    steps, batch = inputs.shape[:2]
    if not inputs.is_floating_point():
        cells.check_tokens(inputs, weight_ih.shape[1])
        inputs = torch.nn.functional.one_hot(inputs, weight_ih.shape[1]).to(weight_ih.dtype)
    sigma = nonlinearity.get(options.nonlinearity)
    tape = _Tape(weight_hh, options, recorder, steps, batch, lengths)
    weight: Tensor = cast(Any, _AddOmega).apply(weight_hh, tape)
    state = h0 if h0 is not None else inputs.new_zeros(batch, weight_hh.shape[0])
    states: list[Tensor] = [state] * steps
    for step, time in enumerate(stepwise.order(steps, options.reverse)):
        a = torch.nn.functional.linear(inputs[time], weight_ih, bias_ih)
        a = a + torch.nn.functional.linear(state, weight, bias_hh)
        h = options.leak * state + (1 - options.leak) * sigma.value(a)
        tape.watch(step, a, h, sigma.slope(sigma.value(a.detach())))
        if lengths is not None:
            running = (time < lengths).unsqueeze(1)
            h = torch.where(running, h, state)
            tape.running[step] = running.squeeze(1)
        state = states[time] = h
    output = torch.stack(states)
    tape.look_for_faults(inputs, output)
    return output, (state.unsqueeze(0),)


def _norm(rows: Tensor) -> Tensor:
    return cast(Any, torch.linalg).vector_norm(rows, dim=1)  # its derivative at 0 is 0; that of a square root is not


class _Tape:
    """The errors one backward pass brings to each step, collected by hooks."""

    def __init__(
        self,
        weight_hh: Tensor,
        options: Options,
        recorder: Recorder | None,
        steps: int,
        batch: int,
        lengths: Tensor | None,
    ) -> None:
        self.weight, self.options, self.recorder, self.lengths = weight_hh.detach(), options, recorder, lengths
        self.slopes: list[Tensor] = []
        self.before: dict[int, Tensor] = {}  # δ_k, the error of a_k
        self.after: dict[int, Tensor] = {}  # e_k, the error of h_k
        self.running = [torch.ones(batch, dtype=torch.bool, device=weight_hh.device) for _ in range(steps)]

    def watch(self, step: int, a: Tensor, h: Tensor, slope: Tensor) -> None:
        self.slopes.append(slope.detach())
        if not a.requires_grad:
            return
        clip, leaky = self.options.clip_error, self.options.leak > 0

        def after(error: Tensor | None) -> Tensor | None:
            if error is None:  # nothing came back to this step
                return None
            error = error.clamp(-clip, clip) if clip is not None and leaky else error
            self.after[step] = error.detach()
            return error

        def before(error: Tensor | None) -> Tensor | None:
            if error is None:
                return None
            error = error.clamp(-clip, clip) if clip is not None and not leaky else error
            self.before[step] = error.detach()
            if step == 0 and self.recorder is not None:  # the last hook of the pass: every later step has been seen
                measured = self._measured().transpose(1, 2)
                found = fault.find(measured, self.options, *self.seen)
                self.recorder.record(measured, self.options, self.lengths, found)
            return error

        for tensor, hook in ((h, after), (a, before)):
            cast(Any, tensor).register_hook(hook)

    def look_for_faults(self, inputs: Tensor, output: Tensor) -> None:
        self.seen = (inputs.detach(), output.detach())

    def arriving(self, step: int, weight: Tensor) -> tuple[Tensor, Tensor]:
        """‖v_k‖ for k = step − 1, and the norm of the error at `step` it is measured against; both [B]."""
        back = self.before[step] @ weight + self.options.leak * self.after[step]
        if self.options.state_is_after:
            return _norm(back), _norm(self.after[step])
        return _norm(self.slopes[step - 1] * back), _norm(self.before[step])

    def omega(self, weight: Tensor) -> Tensor:
        """Ω, a function of `weight` alone: all else on the tape is constant."""
        measured = self._measured()
        _, all_active = regularizer.ratios(measured[0], measured[1], self.options.convention)
        total, active_pairs = weight.sum() * 0, 0
        for step, time in enumerate(stepwise.order(len(self.slopes), self.options.reverse)):
            if step == 0 or step not in self.before:
                continue
            back, error = self.arriving(step, weight)
            active = all_active[time].to(back.device)
            ratio = back[active] / error[active]
            if self.options.squared:
                ratio = ratio**2
            total = total + ((ratio - 1) ** 2).sum()
            active_pairs += int(active.sum())
        return total / max(active_pairs, 1)

    def omega_gradient(self) -> Tensor:
        with torch.enable_grad():
            weight = self.weight.clone().requires_grad_()
            return torch.autograd.grad(self.omega(weight), weight)[0]

    def _measured(self) -> Tensor:
        steps, batch = len(self.slopes), self.running[0].shape[0]
        measured = torch.zeros(2, steps, batch, dtype=torch.float64)
        for step, time in enumerate(stepwise.order(steps, self.options.reverse)):
            if step not in self.before:
                continue
            back, error = self.arriving(step, self.weight)
            measured[0, time] = error.double() ** 2 * self.running[step]
            if step > 0:
                measured[1, time] = back.double() ** 2 * (self.running[step] & self.running[step - 1])
        return measured


class _AddOmega(torch.autograd.Function):
    """The identity on W_hh, whose backward pass comes after every step's and adds α ∂⁺Ω/∂W_hh."""

    @staticmethod
    def forward(ctx: Any, weight_hh: Tensor, tape: _Tape) -> Tensor:
        ctx.tape = tape
        return weight_hh.view_as(weight_hh)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        tape: _Tape = ctx.tape
        (grad,) = grads
        if tape.options.alpha > 0:
            added = tape.options.alpha * tape.omega_gradient()
            if torch.is_grad_enabled():
                (added,) = cast(Any, stepwise.NotTwice).apply((added,), grad)
            grad = grad + added
        return grad, None

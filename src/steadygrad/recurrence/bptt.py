"""The recurrence and its back-propagation through time by hand, in torch operations: any device, any floating dtype.

    forward     a_k = W_ih u_k + b + W_hh h_{k−1},      h_k = λ h_{k−1} + (1 − λ) σ(a_k)
    backward    e_k = c_k + ∂E/∂h_k                     c_k: what step k+1 sent back, 0 at the last step
                δ_k = (1 − λ) σ'(a_k) ⊙ e_k
                c_{k−1} = W_hhᵀ δ_k + λ e_k
    weights     dW_hh = Σ_k δ_k ⊗ (h_{k−1} + α f_k u_k),   dW_ih = Σ_k δ_k ⊗ input_k,   db = Σ_k δ_k

Each weight gradient is one product over all steps. Ω rides in the first: both gradients share the factor δ_k, so it costs no
product (f_k and u_k: regularizer.py). A step past a sequence's length holds its state: h_k = h_{k−1}, c_{k−1} = e_k.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from .. import regularizer
from ..flow import Recorder
from . import nonlinearity
from .cells import check_tokens
from .options import Given, Gradients, Options, Saved, Wanted


def forward(given: Given, options: Options) -> tuple[Saved, tuple[Tensor]]:
    inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, _ = given
    sigma = nonlinearity.get(options.nonlinearity)
    bias = bias_ih + bias_hh if bias_ih is not None and bias_hh is not None else None
    projected = project(inputs, weight_ih, bias)
    output = torch.empty_like(projected) if options.leak > 0 else projected
    weight = weight_hh.T
    states, before = output.unbind(0), projected.unbind(0)
    previous = h0
    for time in _order(len(states), options.reverse):
        a, h = before[time], states[time]
        if previous is not None:
            a.addmm_(previous, weight)
        sigma.value_(a)
        if options.leak > 0:
            torch.mul(a, 1 - options.leak, out=h)
            if previous is not None:
                h.add_(previous, alpha=options.leak)
        if lengths is not None:
            held = (time >= lengths).unsqueeze(1)
            h.copy_(torch.where(held, previous if previous is not None else torch.zeros_like(h), h))
        previous = h
    saved = Saved(inputs, h0, weight_ih, weight_hh, lengths, output, projected if options.leak > 0 else None)
    return saved, ((output[:1] if options.reverse else output[-1:]).clone(),)


def project(inputs: Tensor, weight_ih: Tensor, bias: Tensor | None) -> Tensor:
    """W_ih x + b of every step, [T, B, H], and not a view: the output is made of it, and may be changed in place."""
    projected = weight_ih.new_empty(*inputs.shape[:2], weight_ih.shape[0])
    flat = projected.flatten(0, 1)
    if inputs.is_floating_point():
        torch.mm(inputs.flatten(0, 1), weight_ih.T, out=flat)
    else:
        check_tokens(inputs, weight_ih.shape[1])
        torch.index_select(weight_ih.T, 0, inputs.flatten(), out=flat)
    return projected if bias is None else projected.add_(bias)


def backward(
    saved: Saved,
    grad_output: Tensor | None,
    grad_last: tuple[Tensor | None, ...],
    options: Options,
    wanted: Wanted,
    recorder: Recorder | None,
) -> Gradients:
    measure = recorder is not None or (options.alpha > 0 and wanted.weight_hh)
    return gradients(saved, _errors(saved, grad_output, grad_last[0], options, measure), options, wanted)


class Errors(NamedTuple):
    """What the loop over time leaves; the rest of a backward pass is done over all steps at once."""

    deltas: Tensor  # [T, B, H]
    arrived: (
        Tensor | None
    )  # [T, B, H], entry k: what k sends back, where that is measured; the first step's is not read
    norms: Tensor | None  # [T, B], where measured: ‖error_k‖
    h0: Tensor  # [B, H]


def gradients(saved: Saved, errors: Errors, options: Options, wanted: Wanted) -> Gradients:
    """All gradients and what was measured, from the errors of every step."""
    deltas, arrived, norms, h0_error = errors
    alpha = options.alpha if wanted.weight_hh else 0.0
    measured = _measured(saved, norms, arrived, options) if norms is not None and arrived is not None else None
    flat = deltas.flatten(0, 1)
    grad_hh: Tensor | None = None
    if wanted.weight_hh:
        grad_hh = _recurrent_gradient(saved, deltas, arrived if alpha > 0 else None, measured, options)
    grad_ih: Tensor | None = None
    if wanted.weight_ih:
        if saved.inputs.is_floating_point():
            grad_ih = flat.T @ saved.inputs.flatten(0, 1)
        else:
            columns = flat.new_zeros(saved.weight_ih.shape[1], flat.shape[1])
            grad_ih = columns.index_add_(0, saved.inputs.flatten(), flat).T
    return Gradients(
        inputs=(flat @ saved.weight_ih).view_as(saved.inputs) if wanted.inputs else None,
        h0=h0_error if wanted.h0 else None,
        weight_ih=grad_ih,
        weight_hh=grad_hh,
        bias=flat.sum(0) if wanted.bias else None,
        measured=None if measured is None else measured.transpose(1, 2),
    )


def _errors(
    saved: Saved, grad_output: Tensor | None, grad_last: Tensor | None, options: Options, measure: bool
) -> Errors:
    leak, clip = options.leak, options.clip_error
    # The slopes are worked out for all steps at once and turned into δ in place, step by step.
    deltas = nonlinearity.get(options.nonlinearity).slope(
        saved.output if saved.activation is None else saved.activation
    )
    arrived = torch.empty_like(deltas) if measure else None
    norms = deltas.new_zeros(deltas.shape[:2], dtype=_wide(deltas)) if measure else None
    if leak > 0:
        deltas.mul_(1 - leak)
    order = list(_order(len(deltas), options.reverse))
    back = grad_last[0] if grad_last is not None else torch.zeros_like(deltas[0])
    for step in range(len(order) - 1, -1, -1):
        time = order[step]
        delta = deltas[time]  # σ'(a_k) here, δ_k below
        if arrived is not None and step + 1 < len(order):
            later = arrived[order[step + 1]]
            if options.state_is_after:
                later.copy_(back)
            else:
                torch.mul(delta, back, out=later)
        error = back if grad_output is None else back + grad_output[time]
        held = None if saved.lengths is None else (time >= saved.lengths).unsqueeze(1)
        if clip is not None and leak > 0:
            error = error.clamp(-clip, clip) if held is None else torch.where(held, error, error.clamp(-clip, clip))
        delta.mul_(error)
        if clip is not None and leak == 0:
            delta.clamp_(-clip, clip)
        if norms is not None and options.state_is_after:
            norm(error, out=norms[time])
        if held is None:
            back = torch.addmm(error, delta, saved.weight_hh, beta=leak) if leak > 0 else delta @ saved.weight_hh
        else:
            delta.masked_fill_(held, 0)
            back = torch.where(held, error, delta @ saved.weight_hh + leak * error)
    if norms is not None and not options.state_is_after:
        norm(deltas, out=norms)
    return Errors(deltas, arrived, norms, back)


def _measured(saved: Saved, norms: Tensor, arrived: Tensor, options: Options) -> Tensor:
    steps = len(arrived)
    error_sq = norms.square()
    arrived[steps - 1 if options.reverse else 0].zero_()  # the first step sends nothing to another step
    back_sq = norm(arrived).square()
    if saved.lengths is not None:
        # A held step has no error of its own, and nothing travels into or out of it.
        running = torch.arange(steps, device=arrived.device).unsqueeze(1) < saved.lengths
        error_sq = error_sq * running
        receiver = torch.zeros_like(running)
        if options.reverse:
            receiver[:-1] = running[1:]
        else:
            receiver[1:] = running[:-1]
        back_sq = back_sq * (running & receiver)
    return torch.stack([error_sq, back_sq])


def _recurrent_gradient(
    saved: Saved, deltas: Tensor, arrived: Tensor | None, measured: Tensor | None, options: Options
) -> Tensor:
    """Σ_k δ_k ⊗ (h_{k−1} + α f_k u_k)."""
    earlier, first = (saved.output[1:], deltas[-1]) if options.reverse else (saved.output[:-1], deltas[0])
    later = deltas[:-1] if options.reverse else deltas[1:]
    if arrived is None or measured is None:
        right = earlier
    else:
        right = arrived[:-1] if options.reverse else arrived[1:]  # v_k; u_k = σ'(x_k) ⊙ v_k where the state is x
        if not options.state_is_after:
            right.mul_(nonlinearity.get(options.nonlinearity).slope(earlier))
        factors = regularizer.factors(measured[0], measured[1], options.convention).mul_(options.alpha)
        factors = (factors[:-1] if options.reverse else factors[1:]).unsqueeze(-1)
        # In two halves: the factor alone may leave float32 where u is tiny or huge; its root does not.
        root = factors.abs().sqrt()
        right.mul_(root.to(right.dtype))
        torch.addcmul(earlier, right, (factors.sign() * root).to(right.dtype), out=right)
    gradient = later.flatten(0, 1).T @ right.flatten(0, 1)
    if saved.h0 is not None:
        gradient.addmm_(first.T, saved.h0)
    return gradient


def norm(rows: Tensor, out: Tensor | None = None) -> Tensor:
    """Norms along the last axis, in float64 where the device has it."""
    return cast(Any, torch.linalg).vector_norm(rows, dim=-1, dtype=_wide(rows), out=out)


def _wide(rows: Tensor) -> torch.dtype:
    """Squares of errors that explode or vanish leave float32. (Apple's GPUs have nothing wider.)"""
    return torch.float32 if rows.device.type == "mps" else torch.float64


def _order(steps: int, reverse: bool) -> range:
    return range(steps - 1, -1, -1) if reverse else range(steps)

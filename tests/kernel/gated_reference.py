"""GRU and LSTM as a plain autograd loop, with Ω as it is defined: what the kernel must compute.

    GRU     r, z = σ(W_i x + b_i + W_h h + b_h),   n = tanh(W_in x + b_in + r ⊙ (W_hn h + b_hn)),   h' = (1 − z) n + z h
    LSTM    i, f, o = σ(a), g = tanh(a_g), a = W_i x + b_i + W_h h + b_h,   c' = f c + i g,   h' = o tanh(c')

Ω is the mean over the active pairs of (‖v‖/‖e‖ − 1)², or of (‖v‖²/‖e‖² − 1)²: e is the error of a step's state (h, or h and c
as two separate parts), v what the step sends back to the state before it. Autograd differentiates v once more in W_hh, for all
pairs at once, with states, inputs and errors held constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from gated_kernel_cases import Loss
from torch import Tensor

from steadygrad.recurrence.options import Given, Options

State = tuple[Tensor, ...]  # (h,) or (h, c)


def cell(mode: str, x: Tensor, state: State, given: Given, weight_hh: Tensor) -> State:
    """One step of any number of sequences."""
    h = state[0]
    if mode == "LSTM":
        a = torch.nn.functional.linear(x, given.weight_ih, given.bias_ih)
        i, f, g, o = (a + torch.nn.functional.linear(h, weight_hh, given.bias_hh)).chunk(4, 1)
        c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
    x_r, x_z, x_n = torch.nn.functional.linear(x, given.weight_ih, given.bias_ih).chunk(3, 1)
    h_r, h_z, m = torch.nn.functional.linear(h, weight_hh, given.bias_hh).chunk(3, 1)
    r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    n = torch.tanh(x_n + r * m)
    return ((1 - z) * n + z * h,)


def reference(given: Given, options: Options, loss: Loss) -> dict[str, Tensor]:
    """Outputs, gradients of everything given, and `measured` [2, B, T]."""
    names = [name for name, value in given._asdict().items() if value is not None and value.is_floating_point()]
    given = given._replace(**{name: getattr(given, name).detach().requires_grad_() for name in names})
    (steps, batch), hidden = given.inputs.shape[:2], given.weight_hh.shape[1]
    inputs = given.inputs
    if not inputs.is_floating_point():
        inputs = torch.nn.functional.one_hot(inputs, given.weight_ih.shape[1]).to(given.weight_ih.dtype)
    zeros = given.weight_hh.new_zeros(batch, hidden)
    state: State = (zeros if given.h0 is None else given.h0,)
    if options.mode == "LSTM":
        state += (zeros if given.c0 is None else given.c0,)

    order = list(range(steps))[:: -1 if options.reverse else 1]
    running = torch.ones(steps, batch, dtype=torch.bool)
    if given.lengths is not None:
        running = torch.arange(steps).unsqueeze(1) < given.lengths
    before: list[State] = [()] * steps
    errors: list[dict[int, Tensor]] = [{} for _ in range(steps)]
    output = [zeros] * steps
    for time in order:
        before[time] = state
        new = [part * 1 for part in cell(options.mode, inputs[time], state, given, given.weight_hh)]
        for index, part in enumerate(new):
            part.register_hook(_keep_error(errors[time], index, options.clip_error))
        state = tuple(torch.where(running[time].unsqueeze(1), a, b) for a, b in zip(new, state, strict=True))
        output[time] = state[0]

    found = {"output": torch.stack(output), "last": state[0].unsqueeze(0)}
    found |= {"last_c": state[1].unsqueeze(0)} if options.mode == "LSTM" else {}
    total = zeros.sum()
    for name, weights in (("output", loss.output), ("last", loss.last), ("last_c", loss.last_c)):
        if weights is not None:
            total = total + (found[name] * weights).sum()
    leaves = [getattr(given, name) for name in names]
    gradients = torch.autograd.grad(total, leaves, allow_unused=True)
    found |= {
        f"grad {name}": torch.zeros_like(leaf) if gradient is None else gradient
        for name, leaf, gradient in zip(names, leaves, gradients, strict=True)
    }
    error = torch.stack([torch.stack([each.get(part, zeros) for part in range(len(state))], 1) for each in errors])
    measured, gradient = omega(given, options, inputs, before, error, running)
    found["measured"] = measured
    found["grad weight_hh"] = found["grad weight_hh"] + options.alpha * gradient
    return {name: value.detach() for name, value in found.items()}


def _keep_error(kept: dict[int, Tensor], part: int, clip: float | None) -> Callable[[Tensor], Any]:
    def hook(gradient: Tensor) -> Tensor:
        # A step that holds its state passes no error here.
        kept[part] = gradient if clip is None else gradient.clamp(-clip, clip)
        return kept[part]

    return hook


def omega(
    given: Given, options: Options, inputs: Tensor, before: list[State], error: Tensor, running: Tensor
) -> tuple[Tensor, Tensor]:
    """`measured` and ∂⁺Ω/∂W_hh. error: [T, B, parts of the state, H]."""
    steps, batch = running.shape
    weight = given.weight_hh.detach().requires_grad_()
    given = Given(*(None if value is None else value.detach() for value in given))
    states = tuple(torch.cat(part).detach().requires_grad_() for part in zip(*before, strict=True))
    after = cell(options.mode, inputs.detach().flatten(0, 1), states, given, weight)
    flat = error.detach().flatten(0, 1)
    v = torch.cat(torch.autograd.grad(after, states, tuple(flat.unbind(1)), create_graph=True), 1)
    # A pair: a step and the one before it, both running.
    pair = running.clone()
    first = steps - 1 if options.reverse else 0
    pair &= torch.roll(running, -1 if options.reverse else 1, 0)
    pair[first] = False
    error_sq = flat.square().sum((1, 2)) * running.flatten()
    back_sq = v.square().sum(1)
    largest = error_sq.view(steps, batch).amax(0).expand(steps, batch).flatten()  # of each sequence
    bound = 1e-20 * (torch.ones_like(largest) if options.convention == "program" else largest)
    active = (error_sq >= bound) & (back_sq > 0) & pair.flatten()
    ratio = (back_sq[active] / error_sq[active]).sqrt()
    if options.convention != "paper":
        ratio = ratio.square()
    value = (ratio - 1).square().sum() / active.sum().clamp(min=1)
    (gradient,) = torch.autograd.grad(value, weight)
    measured = torch.stack([error_sq, back_sq * pair.flatten()]).view(2, steps, batch)
    return measured.transpose(1, 2), gradient

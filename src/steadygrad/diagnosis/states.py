"""Gates and memories of every step from the outputs that a layer gave: all steps at once, without running the recurrence again.

    a_k = W_ih x_k + b_ih + W_hh h_{k−1} + b_hh        h_{k−1} is known: it is the output of the step before

The LSTM's c is the one thing that has to be followed from step to step: c_k = f_k c_{k−1} + i_k g_k. The equations are those of
recurrence/cells.py. From gates and memories the output is computed once more: where it is not what the layer gave, the inputs
were not those of the pass (a dropout mask that can't be repeated).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from ..recurrence import nonlinearity
from ..recurrence.cells import project
from ..recurrence.options import Given, Options, Saved
from ..recurrence.stepwise import order


def running_steps(lengths: Tensor | None, steps: int) -> Tensor | None:
    """[T, B]: the steps before each sequence's end; None where all are."""
    return None if lengths is None else torch.arange(steps, device=lengths.device).unsqueeze(1) < lengths


def before(states: Tensor, first: Tensor | None, reverse: bool) -> Tensor:
    """The state before each step, [T, B, H]."""
    start = torch.zeros_like(states[:1]) if first is None else first.unsqueeze(0)
    return torch.cat([states[1:], start] if reverse else [start, states[:-1]])


def of_output(given: Given, options: Options, output: Tensor, check: bool = True) -> tuple[Saved, float]:
    """All that the way back needs, and how far its own output is from the given one, at most.

    Args:
        given: inputs, initial state, weights and lengths.
        options: how the cell computes.
        output: [T, B, H], what the layer gave; anything where a sequence has ended.
        check: whether to compare; plain units that are not leaky need nothing else computed.
    """
    inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, c0 = given
    running = running_steps(lengths, len(output))
    if running is not None:  # a reversed direction begins behind the end, with its initial state
        output = torch.where(running.unsqueeze(-1), output, 0.0 if h0 is None else h0)
    if not check and options.mode == "RNN" and options.leak == 0:
        return Saved(inputs, h0, weight_ih, weight_hh, lengths, output, None), 0.0
    before_h = before(output, h0, options.reverse)
    projected, recurrent = project(inputs, weight_ih, bias_ih), linear(before_h, weight_hh, bias_hh)
    memory: Tensor | None = None
    if options.mode == "RNN":
        activation = nonlinearity.get(options.nonlinearity).value(projected + recurrent)
        again = options.leak * before_h + (1 - options.leak) * activation if options.leak > 0 else activation
        gates = activation if options.leak > 0 else None
    elif options.mode == "GRU":
        units = output.shape[-1]
        memory = recurrent[..., 2 * units :]
        r_z = torch.sigmoid(projected[..., : 2 * units] + recurrent[..., : 2 * units])
        r, z = r_z.chunk(2, -1)
        n = torch.addcmul(projected[..., 2 * units :], r, memory).tanh_()
        gates = torch.cat([r_z, n], -1)
        again = torch.lerp(n, before_h, z)
    else:
        i_f, g, o = (projected + recurrent).split([2 * output.shape[-1], output.shape[-1], output.shape[-1]], -1)
        i_f, g, o = i_f.sigmoid(), g.tanh(), o.sigmoid()
        gates = torch.cat([i_f, g, o], -1)
        i, f = i_f.chunk(2, -1)
        memory = _followed(f, i * g, c0, running, options.reverse)
        again = o * memory.tanh()
    apart = (again - output).abs()
    if running is not None:
        apart = torch.where(running.unsqueeze(-1), apart, 0.0)
    return Saved(inputs, h0, weight_ih, weight_hh, lengths, output, gates, c0, memory), float(
        apart.nan_to_num(0.0).max()
    )


def _followed(f: Tensor, new: Tensor, c0: Tensor | None, running: Tensor | None, reverse: bool) -> Tensor:
    """c of every step."""
    memory = torch.empty_like(new)
    c = torch.zeros_like(new[0]) if c0 is None else c0
    steps, forget, added = memory.unbind(0), f.unbind(0), new.unbind(0)
    for time in order(len(steps), reverse):
        torch.addcmul(added[time], forget[time], c, out=steps[time])
        if running is not None:
            steps[time].copy_(torch.where(running[time].unsqueeze(1), steps[time], c))
        c = steps[time]
    return memory

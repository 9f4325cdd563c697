"""The way back through all steps, for one or two errors at once, measured and nothing else: weights get no gradient.

Everything that does not depend on the error is worked out for all steps before (K, A), so that a step is a few operations.
e: the error of the state after a step, v: what the step sends back (recurrence/bptt.py and gated_bptt.py have the equations).

    RNN     δ = e K,                              v = δ W + λ e           K = (1 − λ) σ'
    GRU     G = [e K_r, e K_z, e K_n],            v = G W + e z
    LSTM    d = e_c + e_h A,  G = [d K_i, d K_f, d K_g, e_h K_o],  v_h = G W,  v_c = d f
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..flow import Recorder
from ..recurrence import nonlinearity
from ..recurrence.options import Gradients, Options, Saved, Wanted
from ..recurrence.run import ENGINES, choose
from ..recurrence.stepwise import order, running_pairs
from .states import before, running_steps


class Swept(NamedTuple):
    """S errors through one cell."""

    measured: Tensor
    """[S, 2, T, B] float64, on the CPU: ‖error of step k‖² and ‖what step k sends back‖²."""
    first: tuple[Tensor, ...]
    """The errors of the initial state, each part [S, B, H]."""
    inputs: Tensor | None
    """[T, B, I]: what the first of the errors says to the inputs, where that was wanted."""


def sweep(
    saved: Saved, options: Options, grads: list[Tensor | None], lasts: list[tuple[Tensor | None, ...]], inputs: bool
) -> Swept:
    """
    Args:
        saved: what the cell computed.
        options: how.
        grads: for each error, what the output received, [T, B, H]; None is nothing.
        lasts: for each error, what the last state received, [1, B, H] each.
        inputs: whether the inputs' errors are wanted.
    """
    if choose("auto", saved.weight_hh, options.mode) == "native":
        return _by_kernel(saved, options, grads, lasts, inputs)
    zeros = torch.zeros_like(saved.output[0])
    received = None if all(grad is None for grad in grads) else _stacked(grads, saved.output)
    parts = 2 if options.mode == "LSTM" else 1
    back = tuple(
        torch.stack([zeros if last[part] is None else _first(last[part]) for last in lasts]) for part in range(parts)
    )
    way = {"RNN": _Plain, "GRU": _Gru, "LSTM": _Lstm}[options.mode](saved, options)
    running = running_steps(saved.lengths, len(saved.output))
    # plain units clip δ, all others the error of their state
    clip = options.clip_error if options.mode != "RNN" or options.leak > 0 else None
    errors: list[tuple[Tensor, ...]] = []
    sent: list[tuple[Tensor, ...]] = []
    steps = list(order(len(saved.output), options.reverse))[::-1]
    of_step = None if received is None else received.unbind(1)
    for time in steps:
        error = back if of_step is None else (back[0] + of_step[time], *back[1:])
        used = error if clip is None else tuple(part.clamp(-clip, clip) for part in error)
        error_of_state, back = way.step(time, used)
        errors.append(error_of_state)
        sent.append(back)
        if running is not None:
            held = ~running[time].unsqueeze(-1)
            back = tuple(torch.where(held, old, new) for old, new in zip(error, back, strict=True))
    stacked = [_in_time(errors, part, options.reverse) for part in range(parts)]
    returned = [_in_time(sent, part, options.reverse) for part in range(parts)]
    if not options.state_is_after:  # the state is x: σ'(x) stands between it and h
        returned = [returned[0] * before(_slope(saved, options), None, options.reverse).unsqueeze(1)]
    error_sq, back_sq = _square(stacked), _square(returned)
    back_sq[:, steps[-1]] = 0  # the first step sends nothing to another step
    measured = torch.stack([error_sq, back_sq], 1)
    pairs = running_pairs(None if saved.lengths is None else saved.lengths.cpu(), len(steps), options.reverse)
    if inputs:
        to_inputs = way.to_inputs([part[:, 0] for part in stacked])
        if running is not None:
            to_inputs = torch.where(running.unsqueeze(-1), to_inputs, 0.0)
        return Swept(measured * pairs, back, to_inputs @ saved.weight_ih)
    return Swept(measured * pairs, back, None)


def _by_kernel(
    saved: Saved, options: Options, grads: list[Tensor | None], lasts: list[tuple[Tensor | None, ...]], inputs: bool
) -> Swept:
    """The same by the C++ kernel, one error after the other."""
    # it reads memory as it lies there
    tensors = {name: each.contiguous() for name, each in saved._asdict().items() if isinstance(each, Tensor)}
    saved = saved._replace(**tensors, by_slice=False)
    engine, two, found = ENGINES[options.mode, "native"], options.mode == "LSTM", list[Gradients]()
    for index, (grad, last) in enumerate(zip(grads, lasts, strict=True)):
        wanted = Wanted(inputs and index == 0, True, False, False, False, two)
        own = None if grad is None else grad.contiguous()
        end = tuple(None if part is None else part.contiguous() for part in last)
        found.append(engine.backward(saved, own, end, options, wanted, Recorder("")))
    measured = [each.measured.transpose(1, 2) for each in found if each.measured is not None]
    firsts = [[each.h0 for each in found], [each.c0 for each in found]][: 2 if two else 1]
    parts = tuple(torch.stack([part for part in of_one if part is not None]) for of_one in firsts)
    return Swept(torch.stack(measured), parts, found[0].inputs)


def _first(last: Tensor | None) -> Tensor:
    assert last is not None
    return last[0]


def _stacked(grads: list[Tensor | None], like: Tensor) -> Tensor:
    return torch.stack([torch.zeros_like(like) if grad is None else grad for grad in grads])


def _in_time(parts: list[tuple[Tensor, ...]], part: int, reverse: bool) -> Tensor:
    """[T, S, B, H], in the order of the input."""
    return torch.stack([each[part] for each in (parts if reverse else parts[::-1])])


def _square(parts: list[Tensor]) -> Tensor:
    """[S, T, B] in float64: squares of errors that explode or vanish leave float32."""
    wide = torch.float32 if parts[0].device.type == "mps" else torch.float64
    norms = [torch.linalg.vector_norm(part, dim=-1, dtype=wide) for part in parts]
    return torch.stack(norms).square().sum(0).transpose(0, 1).to("cpu", torch.float64)


def _slope(saved: Saved, options: Options) -> Tensor:
    return nonlinearity.get(options.nonlinearity).slope(saved.output if saved.activation is None else saved.activation)


class _Plain:
    def __init__(self, saved: Saved, options: Options) -> None:
        self.weight, self.options = saved.weight_hh, options
        slope = _slope(saved, options)
        self.slope = slope if options.leak == 0 else slope * (1 - options.leak)
        self.slopes = self.slope.unbind(0)

    def step(self, time: int, error: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        (e,), options = error, self.options
        delta = e * self.slopes[time]
        clip = options.clip_error
        if clip is not None and options.leak == 0:
            delta = delta.clamp(-clip, clip)
        back = delta @ self.weight if options.leak == 0 else delta @ self.weight + options.leak * e
        return (e,) if options.state_is_after else (delta,), (back,)

    def to_inputs(self, errors: list[Tensor]) -> Tensor:
        if not self.options.state_is_after:
            return errors[0]
        delta, clip = errors[0] * self.slope, self.options.clip_error
        return delta.clamp(-clip, clip) if clip is not None and self.options.leak == 0 else delta


class _Gru:
    def __init__(self, saved: Saved, options: Options) -> None:
        assert saved.activation is not None and saved.memory is not None  # noqa: PT018
        r, z, n = saved.activation.chunk(3, -1)
        h = before(saved.output, saved.h0, options.reverse)
        of_n = (1 - z) * (1 - n * n)
        of_r, of_z = of_n * saved.memory * r * (1 - r), (h - n) * z * (1 - z)
        self.to_gates = torch.cat([of_r, of_z, of_n], -1)
        self.weight = saved.weight_hh
        # [T, 1, B, 3, H] and [T, B, H], cut into steps once
        self.k = torch.stack([of_r, of_z, of_n * r], -2).unsqueeze(1).unbind(0)
        self.z = z.unbind(0)

    def step(self, time: int, error: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        (e,) = error
        gates = (e.unsqueeze(-2) * self.k[time]).flatten(-2)
        return error, (torch.addcmul(gates @ self.weight, e, self.z[time]),)

    def to_inputs(self, errors: list[Tensor]) -> Tensor:
        return errors[0].repeat(1, 1, 3) * self.to_gates


class _Lstm:
    def __init__(self, saved: Saved, options: Options) -> None:
        assert saved.activation is not None and saved.memory is not None  # noqa: PT018
        i, f, g, o = saved.activation.chunk(4, -1)
        p, c = saved.memory.tanh(), before(saved.memory, saved.c0, options.reverse)
        self.weight = saved.weight_hh
        self.into_d, self.of_o = o * (1 - p * p), p * o * (1 - o)
        self.k3 = torch.stack([g * i * (1 - i), c * f * (1 - f), i * (1 - g * g)], -2)
        self.a, self.k_o, self.f = self.into_d.unbind(0), self.of_o.unbind(0), f.unbind(0)
        self.k = self.k3.unsqueeze(1).unbind(0)
        self.gates: Tensor | None = None

    def step(self, time: int, error: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        e_h, e_c = error
        d = torch.addcmul(e_c, e_h, self.a[time])
        if self.gates is None:
            self.gates = d.new_empty(*d.shape[:2], 4, d.shape[2])
        torch.mul(d.unsqueeze(-2), self.k[time], out=self.gates[:, :, :3])
        torch.mul(e_h, self.k_o[time], out=self.gates[:, :, 3])
        return error, (self.gates.flatten(-2) @ self.weight, d * self.f[time])

    def to_inputs(self, errors: list[Tensor]) -> Tensor:
        e_h, e_c = errors
        d = e_c + e_h * self.into_d
        return torch.cat([(d.unsqueeze(-2) * self.k3).flatten(-2), e_h * self.of_o], -1)

"""GRU and LSTM and their back-propagation through time by hand, in torch operations: any device, any floating dtype.

Of one step, state before it h (and c), errors of the state after it e (LSTM: e_h and e_c, where e_c came through the later step
alone), p = tanh(c'):

    GRU     d_n = e (1 − z) (1 − n²),  G = [d_n m r (1 − r),  e (h − n) z (1 − z),  d_n r],   v = e z + G W_hh
            m = W_hn h + b_hn; the input's part of n gets d_n in place of d_n r
    LSTM    d = e_c + e_h o (1 − p²),  G = [d g i (1 − i),  d c f (1 − f),  d i (1 − g²),  e_h p o (1 − o)]
            v_h = G W_hh,  v_c = d f

    dW_hh = Σ_k (G_k + α P_k) ⊗ h_{k−1} + α G_k ⊗ w_k,     w_k = φ_k v_k     (φ: regularizer.factors)

P is Ω's derivative through the gates: v depends on W_hh also because the gates do (`_omega_of_gru`, `_omega_of_lstm`). It needs
one more product, Γ = w W_hhᵀ over all steps at once, and no recurrence. A step past a sequence's length holds its state.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportPrivateUsage=false
# (much of what is used of torch here is not annotated)

from __future__ import annotations

import torch
from torch import Tensor

from .. import regularizer
from ..flow import Recorder
from .cells import project
from .options import Given, Gradients, Options, Saved, Wanted
from .stepwise import order, running_pairs

State = tuple[Tensor, ...]


def forward(given: Given, options: Options) -> tuple[Saved, State]:
    """What is saved, and the last state, each part [1, B, H]."""
    inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, c0 = given
    gru = options.mode == "GRU"
    gates = project(inputs, weight_ih, bias_ih)
    steps, batch, hidden = *gates.shape[:2], weight_hh.shape[1]
    output, memory = gates.new_empty(steps, batch, hidden), gates.new_empty(steps, batch, hidden)
    h = gates.new_zeros(batch, hidden) if h0 is None else h0
    c = gates.new_zeros(batch, hidden) if c0 is None else c0
    weight = weight_hh.T
    for time in order(steps, options.reverse):
        recurrent = h @ weight if bias_hh is None else torch.addmm(bias_hh, h, weight)
        if gru:
            r_z, n = gates[time].split((2 * hidden, hidden), -1)
            r_z.add_(recurrent[:, : 2 * hidden]).sigmoid_()
            r, z = r_z.chunk(2, -1)
            memory[time] = recurrent[:, 2 * hidden :]
            n.addcmul_(r, memory[time]).tanh_()
            after = torch.lerp(n, h, z)
        else:
            i_f, g, o = gates[time].add_(recurrent).split((2 * hidden, hidden, hidden), -1)
            i, f = i_f.sigmoid_().chunk(2, -1)
            carried = f * c + i * g.tanh_()
            after = o.sigmoid_() * carried.tanh()
            c = carried if lengths is None else torch.where((time < lengths).unsqueeze(1), carried, c)
            memory[time] = c
        h = after if lengths is None else torch.where((time < lengths).unsqueeze(1), after, h)
        output[time] = h
    saved = Saved(inputs, h0, weight_ih, weight_hh, lengths, output, gates, c0, memory)
    last = (h.clone().unsqueeze(0),) if gru else (h.clone().unsqueeze(0), c.clone().unsqueeze(0))
    return saved, last


def backward(
    saved: Saved,
    grad_output: Tensor | None,
    grad_last: tuple[Tensor | None, ...],
    options: Options,
    wanted: Wanted,
    recorder: Recorder | None,
) -> Gradients:
    alpha = options.alpha if wanted.weight_hh else 0.0
    before_h, before_c = _before(saved.output, saved.h0, options), None
    if options.mode == "LSTM" and saved.memory is not None:
        before_c = _before(saved.memory, saved.c0, options)
    sweep = _Sweep(saved, options, before_h, before_c, recorder is not None or alpha > 0)
    first = sweep.run(grad_output, grad_last)

    flat = sweep.deltas.flatten(0, 1)
    grad_hh: Tensor | None = None
    if wanted.weight_hh:
        grad_hh = flat.T @ before_h.flatten(0, 1)
        if alpha > 0 and sweep.measured is not None:
            grad_hh += alpha * _omega_gradient(saved, sweep, options)
    of_inputs = flat
    if options.mode == "GRU":
        hidden = saved.weight_hh.shape[1]
        of_inputs = torch.cat([sweep.deltas[..., : 2 * hidden], sweep.of_candidate], -1).flatten(0, 1)
    grad_ih: Tensor | None = None
    if wanted.weight_ih:
        if saved.inputs.is_floating_point():
            grad_ih = of_inputs.T @ saved.inputs.flatten(0, 1)
        else:
            columns = flat.new_zeros(saved.weight_ih.shape[1], flat.shape[1])
            grad_ih = columns.index_add_(0, saved.inputs.flatten(), of_inputs).T
    return Gradients(
        inputs=(of_inputs @ saved.weight_ih).view_as(saved.inputs) if wanted.inputs else None,
        h0=first[0] if wanted.h0 else None,
        weight_ih=grad_ih,
        weight_hh=grad_hh,
        bias=of_inputs.sum(0) if wanted.bias else None,
        measured=None if sweep.measured is None else sweep.measured.transpose(1, 2),
        c0=first[1] if wanted.c0 else None,
        bias_hh=flat.sum(0) if wanted.bias and options.mode == "GRU" else None,
    )


def _before(states: Tensor, first: Tensor | None, options: Options) -> Tensor:
    """The state before each step, [T, B, H]."""
    start = torch.zeros_like(states[:1]) if first is None else first.unsqueeze(0)
    return torch.cat([states[1:], start] if options.reverse else [start, states[:-1]])


class _Sweep:
    """One way back through all steps: G of every step, and, where it is measured, e and v."""

    def __init__(
        self, saved: Saved, options: Options, before_h: Tensor, before_c: Tensor | None, measure: bool
    ) -> None:
        self.saved, self.options, self.before_h, self.before_c = saved, options, before_h, before_c
        gates = saved.activation
        assert gates is not None
        self.gates = gates
        self.deltas = torch.empty_like(gates)
        self.of_candidate = torch.empty_like(before_h) if options.mode == "GRU" else before_h
        parts = 1 if options.mode == "GRU" else 2
        room = [parts, *before_h.shape]
        self.errors = before_h.new_zeros(room) if measure else None
        self.back = before_h.new_zeros(room) if measure else None
        self.measured: Tensor | None = None

    def run(self, grad_output: Tensor | None, grad_last: tuple[Tensor | None, ...]) -> State:
        """Fills everything above; returns the errors of the first state."""
        saved, options, clip = self.saved, self.options, self.options.clip_error
        steps = len(self.gates)
        times = list(order(steps, options.reverse))
        back = tuple(
            torch.zeros_like(self.before_h[0]) if grad is None else grad[0]
            for grad in (*grad_last, None)[: 1 if options.mode == "GRU" else 2]
        )
        for time in reversed(times):
            error = back if grad_output is None else (back[0] + grad_output[time], *back[1:])
            held = None if saved.lengths is None else (time >= saved.lengths).unsqueeze(1)
            used = error if clip is None else tuple(each.clamp(-clip, clip) for each in error)
            back = self._gru(time, used) if options.mode == "GRU" else self._lstm(time, used)
            if self.errors is not None and self.back is not None:
                for part, (each, sent) in enumerate(zip(used, back, strict=True)):
                    self.errors[part, time], self.back[part, time] = each, sent
            if held is not None:
                self.deltas[time].masked_fill_(held, 0)
                if options.mode == "GRU":
                    self.of_candidate[time].masked_fill_(held, 0)
                back = tuple(torch.where(held, old, new) for old, new in zip(error, back, strict=True))
        if self.errors is not None and self.back is not None:
            self.measured = torch.stack([_square(self.errors), _square(self.back)])
            self.measured[1, times[0]].zero_()  # the first step sends nothing to another step
            self.measured *= running_pairs(saved.lengths, steps, options.reverse)
        return back

    def _gru(self, time: int, error: State) -> State:
        (e,), h, hidden = error, self.before_h[time], self.before_h.shape[-1]
        r, z, n = self.gates[time].chunk(3, -1)
        assert self.saved.memory is not None
        d_n = e * (1 - z) * (1 - n * n)
        delta = self.deltas[time]
        delta[:, :hidden] = d_n * self.saved.memory[time] * r * (1 - r)
        delta[:, hidden : 2 * hidden] = e * (h - n) * z * (1 - z)
        delta[:, 2 * hidden :] = d_n * r
        self.of_candidate[time] = d_n
        return (torch.addmm(e * z, delta, self.saved.weight_hh),)

    def _lstm(self, time: int, error: State) -> State:
        e_h, e_c = error
        i, f, g, o = self.gates[time].chunk(4, -1)
        assert self.saved.memory is not None
        assert self.before_c is not None
        p = self.saved.memory[time].tanh()
        d = e_c + e_h * o * (1 - p * p)
        delta = self.deltas[time]
        parts = (d * g * i * (1 - i), d * self.before_c[time] * f * (1 - f), d * i * (1 - g * g), e_h * p * o * (1 - o))
        torch.cat(parts, -1, out=delta)
        return delta @ self.saved.weight_hh, d * f


def _square(parts: Tensor) -> Tensor:
    """[T, B] in float64 of [parts, T, B, H]: squares of errors that explode or vanish leave float32."""
    wide = parts if parts.device.type == "mps" else parts.double()
    return wide.square().sum((0, -1))


def _omega_gradient(saved: Saved, sweep: _Sweep, options: Options) -> Tensor:
    """∂⁺Ω/∂W_hh = Σ P ⊗ h + G ⊗ w, over all pairs."""
    assert sweep.measured is not None
    assert sweep.back is not None
    factors = regularizer.factors(sweep.measured[0], sweep.measured[1], options.convention).unsqueeze(-1)
    # In two halves: the factor alone may leave float32 where v is tiny or huge; its root does not.
    root = factors.abs().sqrt()
    first, second = root.to(sweep.back.dtype), (factors.sign() * root).to(sweep.back.dtype)
    w = [part * first * second for part in sweep.back]
    gamma = w[0] @ saved.weight_hh.T
    through_gates = _omega_of_gru(gamma, w[0], sweep) if options.mode == "GRU" else _omega_of_lstm(gamma, w[1], sweep)
    left = through_gates.flatten(0, 1).T @ sweep.before_h.flatten(0, 1)
    return left.addmm_(sweep.deltas.flatten(0, 1).T, w[0].flatten(0, 1))


def _omega_of_gru(gamma: Tensor, w: Tensor, sweep: _Sweep) -> Tensor:
    """P [T, B, 3 H]: v = e z + G W_hh differentiated through r, z, n and m, back to W_hh h."""
    assert sweep.errors is not None
    assert sweep.saved.memory is not None
    e, h, m = sweep.errors[0], sweep.before_h, sweep.saved.memory
    r, z, n = sweep.gates.chunk(3, -1)
    to_r, to_z, to_m = gamma.chunk(3, -1)
    r_slope, z_slope, n_slope = r * (1 - r), z * (1 - z), 1 - n * n
    through = to_r * m * r_slope + to_m * r
    of_z = e * (w + to_z * (h - n) * (1 - 2 * z) - through * n_slope)
    of_n = -e * (to_z * z_slope + 2 * n * through * (1 - z)) * n_slope
    d_n = e * (1 - z) * n_slope
    of_r = (to_r * m * (1 - 2 * r) + to_m) * d_n + of_n * m
    of_m = to_r * d_n * r_slope + of_n * r
    return torch.cat([of_r * r_slope, of_z * z_slope, of_m], -1)


def _omega_of_lstm(gamma: Tensor, w_c: Tensor, sweep: _Sweep) -> Tensor:
    """P [T, B, 4 H]: v_h = G W_hh and v_c = d f differentiated through i, f, g, o and c', back to W_hh h."""
    assert sweep.errors is not None
    assert sweep.saved.memory is not None
    assert sweep.before_c is not None
    (e_h, e_c), c = sweep.errors, sweep.before_c
    i, f, g, o = sweep.gates.chunk(4, -1)
    to_i, to_f, to_g, to_o = gamma.chunk(4, -1)
    p = sweep.saved.memory.tanh()
    i_slope, f_slope, g_slope, o_slope, p_slope = i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o), 1 - p * p
    d = e_c + e_h * o * p_slope
    of_d = f * w_c + to_i * g * i_slope + to_f * c * f_slope + to_g * i * g_slope
    of_o = e_h * (to_o * p * (1 - 2 * o) + of_d * p_slope)
    of_c = e_h * (to_o * o_slope - 2 * p * o * of_d) * p_slope
    of_i = d * (to_i * g * (1 - 2 * i) + to_g * g_slope) + of_c * g
    of_f = d * (w_c + to_f * c * (1 - 2 * f)) + of_c * c
    of_g = d * (to_i * i_slope - 2 * g * i * to_g) + of_c * i
    return torch.cat([of_i * i_slope, of_f * f_slope, of_g * g_slope, of_o * o_slope], -1)

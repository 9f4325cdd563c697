"""The equations of each cell, one step, in torch operations that autograd can differentiate. They stand here once.

    RNN     h' = λ h + (1 − λ) σ(p + W_hh h + b_hh)                       p = W_ih x + b_ih, the input's part
    GRU     r = sigm(p_r + W_hr h + b_hr),  z = sigm(p_z + W_hz h + b_hz)
            n = tanh(p_n + r ⊙ (W_hn h + b_hn)),  h' = (1 − z) ⊙ n + z ⊙ h
    LSTM    i, f, o = sigm(p + W_hh h + b_hh),  g = tanh(p_g + W_hg h + b_hg)
            c' = f ⊙ c + i ⊙ g,  h' = o ⊙ tanh(c')

The state is a tuple: (h,), or (h, c) for the LSTM. Gates lie in torch's order. The oracle, the generic path and the analysis
compute with these; bptt.py, gated_bptt.py and the kernel have the same equations and their derivatives by hand, and are tested
against them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from . import nonlinearity
from .options import GATES as GATES
from .options import STATES as STATES
from .options import Options

State = tuple[Tensor, ...]


def step(projected: Tensor, state: State, weight_hh: Tensor, bias_hh: Tensor | None, options: Options) -> State:
    """The next state.

    Args:
        projected: p of this step, [B, G H].
        state: the state before it, each part [B, H].
        weight_hh, bias_hh: the recurrent parameters, [G H, H] and [G H].
        options: the mode; for the plain cell also nonlinearity and leak.
    """
    h = state[0]
    recurrent = linear(h, weight_hh, bias_hh)
    if options.mode == "RNN":
        activation = nonlinearity.get(options.nonlinearity).value(projected + recurrent)
        return (options.leak * h + (1 - options.leak) * activation if options.leak > 0 else activation,)
    if options.mode == "GRU":
        p_r, p_z, p_n = projected.chunk(3, -1)
        m_r, m_z, m_n = recurrent.chunk(3, -1)
        r, z = torch.sigmoid(p_r + m_r), torch.sigmoid(p_z + m_z)
        n = torch.tanh(p_n + r * m_n)
        return ((1 - z) * n + z * h,)
    i, f, g, o = (projected + recurrent).chunk(4, -1)
    c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def project(inputs: Tensor, weight_ih: Tensor, bias_ih: Tensor | None) -> Tensor:
    """W_ih x + b_ih of every step, [T, B, G H]; a token picks its column of W_ih."""
    if inputs.is_floating_point():
        return linear(inputs, weight_ih, bias_ih)
    check_tokens(inputs, weight_ih.shape[1])
    columns = torch.nn.functional.embedding(inputs, weight_ih.T)
    return columns if bias_ih is None else columns + bias_ih


def check_tokens(tokens: Tensor, input_size: int) -> None:
    """Refuses tokens outside 0 … input_size − 1 (on the CPU: elsewhere a look would have to wait for the device)."""
    if not tokens.is_cpu or tokens.numel() == 0 or not _can_be_read(tokens):
        return
    if int(tokens.min()) < 0 or int(tokens.max()) >= input_size:
        raise IndexError(f"input holds a token outside 0 … {input_size - 1} (input_size is {input_size})")


_functorch: Any = getattr(torch._C, "_functorch", None)  # pyright: ignore[reportPrivateUsage]
_jit: Any = torch.jit


def _can_be_read(tokens: Tensor) -> bool:
    """Not while a program is traced, compiled or exported, under vmap, and of tensors that have no numbers."""
    if type(tokens) is not Tensor or torch.compiler.is_compiling() or _jit.is_tracing():
        return False
    return _functorch is None or _functorch.peek_interpreter_stack() is None

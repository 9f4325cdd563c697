"""The gated recurrent unit: a drop-in for torch.nn.GRU, with Ω and the flow of its errors.

r = sigm(W_ir u + b_ir + W_hr h + b_hr),  z = sigm(W_iz u + b_iz + W_hz h + b_hz)
n = tanh(W_in u + b_in + r ⊙ (W_hn h + b_hn)),  h' = (1 − z) ⊙ n + z ⊙ h
"""

from __future__ import annotations

import torch

from .base import RecurrentLayer


class GRU(RecurrentLayer):
    """A GRU layer with torch.nn.GRU's arguments, parameter names and outputs, and the regulariser Ω.

    With `alpha > 0`, `loss.backward()` adds α ∂⁺Ω/∂W_hh to the gradient of every `weight_hh` and touches nothing else. Ω
    prefers recurrent weights through which the error keeps its norm on the way back; the gates' dependence on them counts.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional: as in torch.nn.GRU.
        alpha: the factor of Ω, at least 0. An attribute: change it between steps for a schedule. Keep clipping on with it.
        omega: 'paper' compares norms; 'proceedings' and 'program' compare squared norms (regularizer.py). The state is h.
        clip_error: each entry of the state's error is clipped to [−c, c] at every step on the way back.
        backend: 'auto', 'reference', 'torch' or 'native' (recurrence/run.py).
        device, dtype: as in torch.nn.GRU.

    Shapes:
        Input as for `steadygrad.RNN`: batched or not, a PackedSequence, or integer tokens. h0 as in torch.nn.GRU; zeros if
        not given.

    After a backward pass `flow` tells what it saw. `record = False` switches that off.

    Example:
        >>> import torch, steadygrad as sg
        >>> layer = sg.GRU(88, 30, alpha=1.0)
        >>> output, last = layer(torch.rand(20, 4, 88))
        >>> output[-1].sum().backward()
        >>> output.shape, layer.flow.active
        (torch.Size([20, 4, 30]), 1.0)

    Reference:
        Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural networks, 2013, for Ω of plain cells.
    """

    cell = "GRU"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        alpha: float = 0.0,
        omega: str = "paper",
        clip_error: float | None = None,
        backend: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            "GRU",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            alpha=alpha,
            omega=omega,
            clip_error=clip_error,
            backend=backend,
            device=device,
            dtype=dtype,
        )

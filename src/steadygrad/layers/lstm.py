"""The long short-term memory: a drop-in for torch.nn.LSTM, with Ω and the flow of its errors.

i, f, o = sigm(W_i u + b_i + W_h h + b_h),  g = tanh(W_ig u + b_ig + W_hg h + b_hg)
c' = f ⊙ c + i ⊙ g,  h' = o ⊙ tanh(c')
"""

from __future__ import annotations

from typing import Any

import torch

from .base import RecurrentLayer


class LSTM(RecurrentLayer):
    """A LSTM layer with torch.nn.LSTM's arguments, parameter names and outputs, and the regulariser Ω.

    With `alpha > 0`, `loss.backward()` adds α ∂⁺Ω/∂W_hh to the gradient of every `weight_hh` and touches nothing else. Ω
    prefers recurrent weights through which the error keeps its norm on the way back; the gates' dependence on them counts.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional: as in torch.nn.LSTM.
        proj_size: must be 0; torch.nn.LSTM has projections, this layer has not.
        alpha: the factor of Ω, at least 0. An attribute: change it between steps for a schedule. Keep clipping on with it.
        omega: 'paper' compares norms; 'proceedings' and 'program' compare squared norms (regularizer.py). The state is (h, c),
            as one vector.
        clip_error: each entry of the state's error is clipped to [−c, c] at every step on the way back.
        backend: 'auto', 'reference', 'torch' or 'native' (recurrence/run.py).
        device, dtype: as in torch.nn.LSTM.

    Shapes:
        Input as for `steadygrad.RNN`: batched or not, a PackedSequence, or integer tokens. (h0, c0) as in torch.nn.LSTM;
        zeros if not given.

    After a backward pass `flow` tells what it saw. `record = False` switches that off.

    Example:
        >>> import torch, steadygrad as sg
        >>> layer = sg.LSTM(88, 30, alpha=1.0)
        >>> output, last = layer(torch.rand(20, 4, 88))
        >>> output[-1].sum().backward()
        >>> output.shape, layer.flow.active
        (torch.Size([20, 4, 30]), 1.0)

    Reference:
        Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural networks, 2013, for Ω of plain cells.
    """

    cell = "LSTM"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        *,
        alpha: float = 0.0,
        omega: str = "paper",
        clip_error: float | None = None,
        backend: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if proj_size != 0:
            raise ValueError(f"proj_size must be 0 (steadygrad.LSTM has no projections), not {proj_size!r}")
        super().__init__(
            "LSTM",
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

    # What torch.nn.LSTM's own forward pass calls, which an exported layer goes through (portable.py).
    get_expected_cell_size: Any = torch.nn.LSTM.get_expected_cell_size
    check_forward_args: Any = torch.nn.LSTM.check_forward_args
    permute_hidden: Any = torch.nn.LSTM.permute_hidden

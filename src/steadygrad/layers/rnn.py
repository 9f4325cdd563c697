"""The plain recurrent layer: a drop-in for torch.nn.RNN that keeps its gradients steady.

h_k = λ h_{k−1} + (1 − λ) σ(W_ih u_k + b_ih + W_hh h_{k−1} + b_hh)
"""

from __future__ import annotations

import torch

from .. import checks
from ..recurrence.native import NONLINEARITIES
from .base import RecurrentLayer


class RNN(RecurrentLayer):
    """A recurrent layer with torch.nn.RNN's arguments, parameter names and outputs, and the paper's regulariser Ω.

    With `alpha > 0`, `loss.backward()` adds α ∂⁺Ω/∂W_rec to the gradient of every `weight_hh` and touches nothing else. Ω
    prefers recurrent matrices through which the error keeps its norm on the way back; it costs no matrix product.

    Args:
        input_size, hidden_size, num_layers, nonlinearity, bias, batch_first, dropout, bidirectional: as in torch.nn.RNN;
            `nonlinearity` may also be 'sigmoid' or 'identity'.
        alpha: the factor of Ω, at least 0. An attribute: change it between steps for a schedule.
        omega: 'paper' for the formula as printed, 'proceedings' for that of the final edition (squared norms), 'program' for
            what the authors' program computes (regularizer.py).
        leak: λ of leaky units, in [0, 1); 0 are plain units.
        clip_error: Mikolov's rule: each entry of the error is clipped to [−c, c] at every step on the way back.
        backend: 'auto', 'reference', 'torch', 'native' or 'triton' (recurrence/run.py). 'native' is for float32 and float64
            on the CPU; on other devices and with other dtypes it computes in torch operations too. 'triton' is for float32 and
            float64 on CUDA up to 128 units, and computes in torch operations where that does not fit; it is tested by Triton's
            interpreter and was never run or timed on a device, so 'auto' does not take it. `computed_by` tells which of them
            it came to. Autocast leaves the layer alone.
        device, dtype: as in torch.nn.RNN.

    Shapes:
        Input [T, B, input_size] ([B, T, input_size] with `batch_first`, [T, input_size] unbatched), a PackedSequence, or
        integer tokens without the last axis in place of one-hot vectors. h0 as in torch.nn.RNN; zeros if not given.

    After a backward pass `flow` tells what it saw. `record = False` switches that off.

    Example:
        >>> import torch, steadygrad as sg
        >>> rnn = sg.RNN(88, 300, nonlinearity="sigmoid", alpha=0.5)
        >>> output, last = rnn(torch.rand(20, 4, 88))
        >>> output[-1].sum().backward()
        >>> output.shape, rnn.flow.active > 0
        (torch.Size([20, 4, 300]), True)

    Reference:
        Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural networks, 2013.
    """

    cell = "RNN"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        alpha: float = 0.0,
        omega: str = "paper",
        leak: float = 0.0,
        clip_error: float | None = None,
        backend: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        checks.one_of("nonlinearity", nonlinearity, NONLINEARITIES)
        leak = checks.number("leak", leak, low=0, high=1, open_high=True)
        super().__init__(
            "RNN_TANH",
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
        self.nonlinearity, self.leak = nonlinearity, leak
        self.mode = f"RNN_{nonlinearity.upper()}"

"""An initial state that is learned (the paper's x_0: "provided by the user, set to zero or learned")."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..checks import whole


class LearnedState(torch.nn.Module):
    """A trainable initial state, one vector per layer and direction, the same for every sequence of a batch.

    Args:
        rnn: the layer it is for: an RNN, GRU or LSTM, torch's or ours.
        device, dtype: as for any module; the layer's by default.

    Returns:
        `state(batch)` gives h0 of shape [layers × directions, batch, hidden]; `state()` gives it for unbatched input. For an
        LSTM both give the pair (h0, c0), and both are learned.

    Example:
        >>> import torch, steadygrad as sg
        >>> rnn = sg.RNN(3, 8)
        >>> state = sg.LearnedState(rnn)
        >>> output, _ = rnn(torch.randn(20, 4, 3), state(4))
        >>> output.sum().backward()
        >>> state.h0.grad.shape
        torch.Size([1, 8])
    """

    def __init__(
        self, rnn: torch.nn.Module, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        weight = getattr(rnn, "weight_hh_l0", None)
        if not isinstance(weight, Tensor):
            raise TypeError(f"rnn must be a recurrent layer with a weight_hh_l0, not {type(rnn).__name__}")
        rows, width = weight.shape
        if rows != width and not isinstance(rnn, torch.nn.RNNBase):
            raise TypeError(
                f"rnn must be a torch.nn.RNNBase, or have a square weight_hh_l0: that of {type(rnn).__name__} is "
                f"{rows}x{width}, and what its state is can't be told from that"
            )
        cells = _cells(rnn)
        options: Any = {"device": device or weight.device, "dtype": dtype or weight.dtype}
        self.h0 = torch.nn.Parameter(torch.zeros(cells, width, **options))
        self.c0: torch.nn.Parameter | None = None
        if getattr(rnn, "mode", None) == "LSTM":  # with projections h is narrower than c
            self.c0 = torch.nn.Parameter(torch.zeros(cells, rows // 4, **options))

    def forward(self, batch: int | None = None) -> Any:
        h0 = _for_batch(self.h0, batch)
        return h0 if self.c0 is None else (h0, _for_batch(self.c0, batch))


def _cells(rnn: torch.nn.Module) -> int:
    """Layers × directions."""
    if isinstance(rnn, torch.nn.RNNBase):  # its parameters may have moved to a parametrization
        return rnn.num_layers * (2 if rnn.bidirectional else 1)
    return sum(name.startswith("weight_hh_l") for name, _ in rnn.named_parameters(recurse=False))


def _for_batch(state: Tensor, batch: int | None) -> Tensor:
    return state if batch is None else state.unsqueeze(1).expand(-1, whole("batch", batch, low=0), -1)

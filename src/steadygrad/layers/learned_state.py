"""An initial state that is learned (the paper's x_0: "provided by the user, set to zero or learned")."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import whole


class LearnedState(torch.nn.Module):
    """A trainable h0, one vector per layer and direction, the same for every sequence of a batch.

    Args:
        rnn: the layer it is for.
        device, dtype: as for any module; the layer's by default.

    Returns:
        `state(batch)` gives h0 of shape [layers × directions, batch, hidden]; `state()` gives it for unbatched input.

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
        cells = sum(name.startswith("weight_hh_l") for name, _ in rnn.named_parameters(recurse=False))
        self.h0 = torch.nn.Parameter(
            torch.zeros(cells, weight.shape[0], device=device or weight.device, dtype=dtype or weight.dtype)
        )

    def forward(self, batch: int | None = None) -> Tensor:
        if batch is None:
            return self.h0
        return self.h0.unsqueeze(1).expand(-1, whole("batch", batch), -1)

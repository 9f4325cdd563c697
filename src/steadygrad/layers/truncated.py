"""Truncated backpropagation through time: the state is carried on, the error is not.

    cuts before steps T − k, T − 2k, …          the state there is a constant for the gradient

The error of a step goes back to the cut before it, and no further; Ω is that of each piece.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# (a state is a tensor, or an LSTM's pair)

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def run(layer: Any, inputs: Tensor, start: int, every: int) -> tuple[Tensor, Any]:
    """The output from step `start` on [T − start, B, H], and the last state, the gradient cut every `every` steps.

    >>> from steadygrad import RNN
    >>> layer, inputs = RNN(3, 5), torch.randn(7, 2, 3, requires_grad=True)
    >>> run(layer, inputs, 5, 4)[0].sum().backward()
    >>> inputs.grad.abs().sum((1, 2)) > 0
    tensor([False, False, False,  True,  True,  True,  True])
    """
    T, begin, earlier = len(inputs), 0, list[Tensor]()
    state: Any = None
    for cut in range(T % every or every, T, every):
        # no error arises in a piece before the steps that count
        with torch.set_grad_enabled(cut > start):
            output, last = layer(inputs[begin:cut], state)
        state = tuple(each.detach() for each in last) if isinstance(last, tuple) else last.detach()
        if cut > start:
            earlier.append(output[max(start - begin, 0) :])
        begin = cut
    output, last = layer(inputs[begin:], state)
    if earlier:
        return torch.cat([*earlier, output]), last
    return output[start - begin :], last

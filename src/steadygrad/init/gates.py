"""Gates that begin open: memory from the first update on.

    LSTM    c' = f ⊙ c + i ⊙ g               f = sigm(… + b_f) is the share that is remembered
    GRU     h' = (1 − z) ⊙ n + z ⊙ h         z = sigm(… + b_z) is

Layers have two biases per gate, which are added. Here the whole goes into bias_ih, and bias_hh's part is set to 0.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from steadygrad import checks

from .matrices import Module, gates_of, layers

_KEEPS = {"LSTM": 1, "GRU": 1}
"""Which gate remembers: f of i, f, g, o; z of r, z, n."""
_WRITES = 0
"""The LSTM's input gate, i."""
_GATES = {"LSTM": 4, "GRU": 3}


def remember_(module: Module, bias: float = 1.0, *, generator: Generator | None = None) -> Module:
    """The bias of the gate that remembers ← `bias`: the LSTM's forget gate, the GRU's update gate. All else stays.

    With 1, a gate begins at sigm(1) = 0.73 in place of 0.5: over ten steps 4 % of the state are left, not 0.1 %. bias_ih gets
    the whole of `bias`, and that gate's part of bias_hh is set to 0.

    Args:
      module: a GRU or LSTM (torch's or ours, layer or cell), or anything that contains some; other layers stay as they are.
      bias: at least 0.
      generator: nothing is drawn; it is there so that all initialisations are called alike.

    Returns:
      The same module.

    Example:
      >>> layer = remember_(torch.nn.LSTM(2, 3))
      >>> (layer.bias_ih_l0 + layer.bias_hh_l0)[3:6].tolist()
      [1.0, 1.0, 1.0]

    Reference: Gers, Schmidhuber & Cummins 2000, "Learning to forget"; Jozefowicz, Zaremba & Sutskever 2015, for the value 1.
    """
    checks.number("bias", bias, low=0)
    with torch.no_grad():
        for cell, bias_ih, bias_hh in _biases("remember_", module):
            bias_ih[_KEEPS[cell]].fill_(bias)
            bias_hh[_KEEPS[cell]].zero_()
    return module


def chrono_(module: Module, longest: int, *, generator: Generator | None = None) -> Module:
    """b_f ← log u, b_i ← −b_f with u from U(1, longest − 1), unit by unit; for the GRU b_z ← log u. All else stays.

    A gate at sigm(log u) = u / (1 + u) forgets over about u steps: the units' memories then span all times up to `longest`.
    As in `remember_`, bias_ih gets the whole of each and bias_hh's parts are set to 0.

    Args:
      module: a GRU or LSTM (torch's or ours, layer or cell), or anything that contains some; other layers stay as they are.
      longest: how many steps something is to be remembered at most; at least 3.
      generator: the source of randomness; torch's global one if None.

    Returns:
      The same module.

    Example:
      >>> layer = chrono_(torch.nn.LSTM(2, 3), longest=100)
      >>> bias = (layer.bias_ih_l0 + layer.bias_hh_l0).view(4, 3)
      >>> bool((bias[1] >= 0).all()), bool((bias[1].exp() <= 99.001).all()), torch.equal(bias[0], -bias[1])
      (True, True, True)

    Reference: Tallec & Ollivier 2018, "Can recurrent neural networks warp time?".
    """
    checks.whole("longest", longest, low=3)
    with torch.no_grad():
        for cell, bias_ih, bias_hh in _biases("chrono_", module):
            keeps = bias_ih[_KEEPS[cell]].uniform_(1.0, float(longest - 1), generator=generator).log_()
            bias_hh[_KEEPS[cell]].zero_()
            if cell == "LSTM":
                bias_ih[_WRITES].copy_(-keeps)
                bias_hh[_WRITES].zero_()
    return module


def _biases(function: str, module: nn.Module) -> list[tuple[str, Tensor, Tensor]]:
    """'GRU' or 'LSTM', and both biases as [gates, H], views of the parameters, of every layer and direction that has gates."""
    found: list[tuple[str, Tensor, Tensor]] = []
    for layer in layers(module):
        cell = gates_of(layer)
        if cell is None:
            continue
        parameters = dict(layer.named_parameters(recurse=False))
        names = [name for name in parameters if name.startswith("bias_ih")]
        if not names:
            raise ValueError(
                f"{function} sets biases, and the {type(layer).__name__} of module was made with bias=False"
            )
        for name in names:
            rows = (_GATES[cell], -1)
            bias_hh = parameters[name.replace("_ih", "_hh")]
            found.append((cell, parameters[name].detach().view(rows), bias_hh.detach().view(rows)))
    if not found:
        raise ValueError(f"{function} is for gated layers, and {type(module).__name__} holds no GRU and no LSTM")
    return found

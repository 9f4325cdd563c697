"""What the backends are handed and what they hand back: plain records, no behaviour.

Letters used in all of recurrence/: T steps, B sequences, H units, I inputs, G gates (1 for the plain cell, 3 for the GRU, 4 for
the LSTM); time runs along the first axis. Gates lie in torch's order: r, z, n and i, f, g, o.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}
"""How many tensors make up the state."""


class Options(NamedTuple):
    """How one layer and direction computes; checked where it is made (layers/)."""

    nonlinearity: str = "tanh"
    leak: float = 0.0
    reverse: bool = False
    alpha: float = 0.0
    convention: str = "paper"
    clip_error: float | None = None
    mode: str = "RNN"
    """'RNN', 'GRU' or 'LSTM'. `nonlinearity` and `leak` are the plain cell's alone."""

    @property
    def state_is_after(self) -> bool:
        """Whether the state whose error is measured is h, after the nonlinearity, or x, before it."""
        return self.leak > 0 or self.convention == "program" or self.mode != "RNN"

    @property
    def squared(self) -> bool:
        """Whether Ω compares squared norms."""
        return self.convention != "paper"


class Given(NamedTuple):
    """What one layer and direction computes from: the one signature of all backends, with `Options`."""

    inputs: Tensor  # [T, B, I], or integer tokens [T, B] in place of one-hot vectors
    h0: Tensor | None  # [B, H]; None is zeros
    weight_ih: Tensor  # [G H, I]
    weight_hh: Tensor  # [G H, H]
    bias_ih: Tensor | None  # [G H]; either both or none
    bias_hh: Tensor | None  # [G H]
    lengths: Tensor | None  # [B] int64: the steps past a sequence's length hold its state
    c0: Tensor | None = None  # [B, H], the LSTM's; None is zeros


class Saved(NamedTuple):
    """What the backward pass needs of the forward pass."""

    inputs: Tensor  # [T, B, I], or tokens [T, B]
    h0: Tensor | None  # [B, H]; None is zeros
    weight_ih: Tensor  # [G H, I]
    weight_hh: Tensor  # [G H, H]
    lengths: Tensor | None  # [B] int64
    output: Tensor  # [T, B, H]
    activation: (
        Tensor | None
    )  # leaky units: σ(a_k), [T, B, H]; gated cells: the gates after their nonlinearity, [T, B, G H]
    c0: Tensor | None = None  # [B, H]
    memory: Tensor | None = None  # [T, B, H]; LSTM: c_k; GRU: W_hn h_{k−1} + b_hn, what the reset gate multiplies
    by_slice: bool = True  # native_gated alone: activation and memory lie as its forward pass leaves them


class Wanted(NamedTuple):
    """Which gradients are asked for."""

    inputs: bool
    h0: bool
    weight_ih: bool
    weight_hh: bool
    bias: bool
    c0: bool = False


class Gradients(NamedTuple):
    """Gradients, None where not wanted."""

    inputs: Tensor | None
    h0: Tensor | None
    weight_ih: Tensor | None
    weight_hh: Tensor | None
    bias: Tensor | None  # of bias_ih, and of bias_hh where that is the same
    measured: Tensor | None
    """[2, B, T] float64: ‖error of step k‖² and ‖what step k sends back to k−1‖²; 0 where there is no such pair."""
    c0: Tensor | None = None
    bias_hh: Tensor | None = None  # the GRU's alone: its reset gate stands between the two biases

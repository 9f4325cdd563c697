"""One recurrent layer and a linear read-out at every step, and the gradient of what it costs to predict the data.

    h_k = σ(W_rec h_{k−1} + W_in u_k + b)             [T, B, H]
    y_k = V h_k + c                                   [T, B, O]
    ℓ_k = −log softmax(y_k)[d_k]                      text: one of O characters, d_k
    ℓ_k = Σ_o log(1 + e^{y_ko}) − d_ko y_ko           music: each of O notes by itself, d_ko ∈ {0, 1}
    E = Σ_b w_b Σ_{k ≤ T_b} ℓ_k                       w_b = 1/B, or 1/(B T_b) where the cost is the mean over the steps

    ∂E/∂y_k = w_b (softmax(y_k) − onehot(d_k)),   w_b (sigmoid(y_k) − d_k)
    ∂E/∂V = Σ ∂E/∂y hᵀ,   ∂E/∂c = Σ ∂E/∂y,   ∂E/∂h = Vᵀ ∂E/∂y

A step past its row's length T_b has ∂E/∂y = 0. Nothing follows it, so no error reaches it at all: it adds nothing to any
gradient, and Ω, which looks at errors, does not see it. It is as if it were not there, at no cost for saying so. Rows
that have no step left are taken out; B counts those that have.

`steadygrad.RNN` has two biases, as torch.nn.RNN has: the second stays 0 and is not trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..data import Chunk
from ..training.network import draw, layers
from ..training.threads import threads
from .config import NaturalConfig


class Read(NamedTuple):
    """What came of reading a chunk.

    Args:
        nats: Σ ℓ over the steps that count.
        predictions: how many those are.
        state: [B, H], of every row after its last step; 0 where a row had none.
    """

    nats: float
    predictions: int
    state: Tensor


class Network(nn.Module):
    """A model of music or text, its weights drawn as the config says.

    Args:
        config: the settings of the run; its `seed` alone decides the weights.
        width: the number of notes or characters.

    Attributes:
        config, width: as given.
        rnn, readout: the two layers.
        threads: of the recurrent layer alone; None is torch's own number.

    Example:
        >>> network = Network(NaturalConfig("ptb", "sgd", hidden=10), width=50)
        >>> logits, state = network(torch.tensor([[3]]))          # one character of one text
        >>> logits, state = network(torch.tensor([[7]]), state)   # the next
        >>> logits.shape, state.shape
        (torch.Size([1, 1, 50]), torch.Size([1, 1, 10]))
    """

    def __init__(self, config: NaturalConfig, width: int) -> None:
        super().__init__()
        self.config, self.width = config, width
        self.rnn, self.readout = layers(config, width, config.hidden or 1, width, bias=config.bias)
        self.threads: int | None = None
        self._dtype = self.rnn.weight_hh_l0.dtype
        self._cost = _characters if config.is_text else _notes
        self._recurrent = [parameter for parameter in self.rnn.parameters() if parameter.requires_grad]
        draw(self, config)

    def forward(self, inputs: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits of what comes next, and the state to go on from.

        Args:
            inputs: characters [T, B] int64, or notes [T, B, 88].
            state: [1, B, H], from the call before; None begins anew.

        Returns:
            y [T, B, O] and the state [1, B, H].
        """
        with threads(self.threads):
            states, last = self.rnn(self._given(inputs), state)
        return self.readout(states), last

    @torch.no_grad()
    def read(self, chunk: Chunk, state: Tensor | None = None) -> Read:
        """What it costs to predict a chunk.

        Args:
            chunk: up to T steps of B rows.
            state: [B, H], from the chunk before; None begins anew.
        """
        rows = _Rows(chunk, state)
        with threads(self.threads):
            states, last = self.rnn(self._given(rows.inputs), rows.state)
        y = self.readout(states.flatten(0, 1))
        nats, _ = self._cost(y, rows, None)
        return Read(nats, rows.predictions, rows.back(last))

    def backward(self, chunk: Chunk, state: Tensor | None = None) -> Read:
        """Leave in .grad what the cost E of a chunk would, in place of what was there, and say what it cost.

        The error does not go back beyond the chunk's first step: `state` is a constant.

        Args:
            chunk, state: as in `read`.
        """
        rows = _Rows(chunk, state)
        with threads(self.threads):
            states, last = self.rnn(self._given(rows.inputs), rows.state)
        V, c = self.readout.weight, self.readout.bias
        with torch.no_grad():
            h = states.flatten(0, 1)
            y = self.readout(h)
            nats, dy = self._cost(y, rows, rows.weights(self.config.cost, self._dtype))
            dh = (dy @ V).view_as(states)
            V.grad = dy.t() @ h
            if self.config.bias:
                c.grad = dy.sum(0)
        for parameter in self._recurrent:
            parameter.grad = None
        with threads(self.threads):
            torch.autograd.backward(states, dh)
        return Read(nats, rows.predictions, rows.back(last.detach()))

    def trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The parameters that training changes, by name."""
        return ((name, parameter) for name, parameter in self.named_parameters() if parameter.requires_grad)

    def _given(self, inputs: Tensor) -> Tensor:
        return inputs.to(self._dtype) if inputs.is_floating_point() else inputs


class _Rows:
    """The rows of a chunk that have steps, and what each begins from."""

    def __init__(self, chunk: Chunk, state: Tensor | None) -> None:
        self.inputs, self.targets, self.lengths, carry = chunk
        self.predictions = int(self.lengths.sum())
        self.batch = len(self.lengths)
        self.kept: Tensor | None = None
        if int(self.lengths.min()) == 0:
            self.kept = kept = self.lengths.nonzero().squeeze(1)
            self.inputs, self.targets = self.inputs[:, kept], self.targets[:, kept]
            self.lengths, carry = self.lengths[kept], carry[kept]
            state = None if state is None else state[kept]
        self.state: Tensor | None = None
        if state is not None and bool(carry.any()):
            # not a product with 0: a state that is no longer finite must not outlive its sequence
            begun = state if bool(carry.all()) else torch.where(carry.unsqueeze(1), state, 0.0)
            self.state = begun.unsqueeze(0)
        T = len(self.inputs)
        self.mask: Tensor | None = None
        """[T B] bool: the steps that count; None where all do."""
        if int(self.lengths.min()) < T:
            self.mask = (torch.arange(T).unsqueeze(1) < self.lengths).flatten()

    def weights(self, cost: str, dtype: torch.dtype) -> Tensor | float:
        """w_b of every step [T B, 1], 0 where padded; or the one number they all are."""
        B, T = len(self.lengths), len(self.inputs)
        if self.mask is None:
            return 1 / B if cost == "sum" else 1 / (B * T)
        w = torch.full((B,), 1 / B, dtype=dtype) if cost == "sum" else 1 / (B * self.lengths.to(dtype))
        return (w.expand(T, B).flatten() * self.mask).unsqueeze(1)

    def back(self, last: Tensor) -> Tensor:
        """The states [1, B', H] of the rows that were kept, among all [B, H]."""
        if self.kept is None:
            return last.squeeze(0)
        return last.new_zeros(self.batch, last.shape[-1]).index_copy_(0, self.kept, last.squeeze(0))


def _characters(y: Tensor, rows: _Rows, weights: Tensor | float | None) -> tuple[float, Tensor]:
    """Σ ℓ, and ∂E/∂y where there are weights, for y [T B, O] and characters [T, B]."""
    d = rows.targets.reshape(-1, 1)
    if rows.mask is not None:
        d = d.clamp(min=0)  # a padded step has no character
    log_p = torch.log_softmax(y, 1)
    l = log_p.gather(1, d).squeeze(1)
    nats = -_sum(l, rows)
    if weights is None:
        return nats, log_p
    dy = log_p.exp_()
    return nats, dy.scatter_add_(1, d, dy.new_full((len(dy), 1), -1.0)).mul_(weights)


def _notes(y: Tensor, rows: _Rows, weights: Tensor | float | None) -> tuple[float, Tensor]:
    """Σ ℓ, and ∂E/∂y where there are weights, for y [T B, O] and notes [T, B, O]."""
    d = rows.targets.flatten(0, 1).to(y.dtype)
    l = nn.functional.binary_cross_entropy_with_logits(y, d, reduction="none").sum(1)
    nats = _sum(l, rows)
    return (nats, y) if weights is None else (nats, y.sigmoid_().sub_(d).mul_(weights))


def _sum(l: Tensor, rows: _Rows) -> float:
    if rows.mask is not None:
        l = l[rows.mask]
    return l.sum(dtype=torch.float64).item()

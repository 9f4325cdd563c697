"""A recurrent layer and a linear read-out, and the gradient of what they cost.

    h_k = σ(W_rec h_{k−1} + W_in u_k + b)             [B, H]      or the equations of another layer
    y_k = V h_k + c                                   [B, O]

A drawn problem counts some steps s of a batch, S of them; a data set counts every step k ≤ T_b of its row b:

    E = mean over s, b of −log softmax(y_s)[d_s]  or  (y_s − d_s)²                classification, regression
    E = Σ_b w_b Σ_{k ≤ T_b} ℓ_k,   w_b = 1/B, or 1/(B T_b) for the mean cost      one of O classes: ℓ = −log softmax(y)[d]
                                                                                  O keys: ℓ = Σ_o log(1 + e^{y_o}) − d_o y_o
    ∂E/∂V = Σ ∂E/∂y hᵀ,   ∂E/∂c = Σ ∂E/∂y,   ∂E/∂h = Vᵀ ∂E/∂y                     (costs.py has ∂E/∂y)

These small products are worked out by hand while training: with autograd's bookkeeping they take more than twice as long.
The tests compare both. A problem with a loss of its own goes through autograd.

A step past its row's length has ∂E/∂y = 0. Nothing follows it, so it adds nothing to any gradient, and Ω, which looks at
errors, does not see it. `steadygrad.RNN` has two biases, as torch.nn.RNN has. Both would get the same gradient, so the second
stays 0 and is not trained.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

import steadygrad

from .. import init
from ..tasks import Batch
from . import costs, problem
from .config import NETWORKS, OF_GATED, Config, ConfigError

if TYPE_CHECKING:
    from ..data import Chunk


class Read(NamedTuple):
    """Σ ℓ over the steps that count, how many those are, and the state of every row after its last step.

    `state` is [B, H], 0 where a row had no step; of an LSTM [B, 2 H], h and c.
    """

    nats: float
    predictions: int
    state: Tensor


class Network(nn.Module):
    """The network of an experiment, its weights drawn as the config says.

    Args:
        config: the settings of the run; its `seed` alone decides the weights.
        of: the problem, or anything with its `input_size` and `output_size`; made from the config if None.

    Attributes:
        rnn, readout: the two layers.
        threads: of the recurrent layer alone; None is torch's own number.

    Example:
        >>> network = Network(Config("temporal-order", "sgd"))
        >>> batch = network.problem.sample(20, 50, torch.Generator().manual_seed(0))
        >>> network.answers(batch).shape
        torch.Size([1, 20, 4])
        >>> logits, state = network(torch.tensor([[3]]))          # one token of one sequence
        >>> logits, state = network(torch.tensor([[5]]), state)   # the next
        >>> logits.shape, state.shape
        (torch.Size([1, 1, 4]), torch.Size([1, 1, 50]))
    """

    def __init__(self, config: Config, of: Any = None) -> None:
        super().__init__()
        self.config = config
        self.problem = problem.build(config) if of is None else of
        self.threads: int | None = None
        self.rnn, self.readout = _layers(config, self.problem.input_size, self.problem.output_size)
        self._dtype = self.readout.weight.dtype
        self._recurrent = [parameter for parameter in self.rnn.parameters() if parameter.requires_grad]
        self._by_hand = costs.of_batches(self.problem)
        _draw(self, config)

    def forward(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """The read-out y [T, B, O] at every step, and the state to go on from.

        Args:
            inputs: tokens [T, B] int64, or channels [T, B, C].
            state: from the call before, [1, B, H]; None begins anew.
        """
        with threads(self.threads):
            states, last = self.rnn(self.given(inputs), state)
        return self.readout(states), last

    def answers(self, batch: Batch) -> Tensor:
        """The read-out at the steps that count: [S, B, O]."""
        return self.readout(self._states(batch))

    def backward(self, batch: Batch) -> float:
        """Return the loss E, and leave in .grad only what `problem.loss(network.answers(batch), batch).backward()` would."""
        if self._by_hand is None:
            for _, parameter in self.trained():
                parameter.grad = None
            loss = self.problem.loss(self.answers(batch), batch)
            with threads(self.threads):
                loss.backward()
            return float(loss.detach())
        states = self._states(batch)
        V, c = self.readout.weight, self.readout.bias
        with torch.no_grad():
            h = states.flatten(0, 1)
            E, dy = self._by_hand(torch.addmm(c, h, V.t()) if self.config.bias else h @ V.t(), batch.targets)
        self._back(states, h, dy)
        return E

    @torch.no_grad()
    def read(self, chunk: Chunk, state: Tensor | None = None) -> Read:
        """What it costs to predict a chunk of up to T steps of B rows; `state` [B, H] is from the chunk before."""
        rows = costs.Rows(chunk, state)
        states, last = self._run(rows)
        nats, _ = costs.OF_CHUNKS[self.problem.cost](self.readout(states.flatten(0, 1)), rows, None)
        return Read(nats, rows.predictions, rows.back(last))

    def backward_chunk(self, chunk: Chunk, state: Tensor | None = None, last_alone: bool = False) -> Read:
        """As `read`, and leave in .grad only what the cost E of the chunk, or of its last step alone, would.

        The error does not go back beyond the chunk's first step: `state` is a constant.
        """
        rows = costs.Rows(chunk, state)
        states, last = self._run(rows)
        with torch.no_grad():
            h = states.flatten(0, 1)
            weights = rows.weights(self.config.cost, self._dtype)
            nats, dy = costs.OF_CHUNKS[self.problem.cost](self.readout(h), rows, weights)
            if last_alone:
                dy[: -len(rows.lengths)] = 0
        self._back(states, h, dy)
        return Read(nats, rows.predictions, rows.back(last.detach()))

    def trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The parameters that training changes, by name."""
        return ((name, parameter) for name, parameter in self.named_parameters() if parameter.requires_grad)

    def _back(self, states: Tensor, h: Tensor, dy: Tensor) -> None:
        """From ∂E/∂y to the gradients of all parameters."""
        V, c = self.readout.weight, self.readout.bias
        with torch.no_grad():
            dh = (dy @ V).view_as(states)
            V.grad = dy.t() @ h
            if self.config.bias:
                c.grad = dy.sum(0)
        for parameter in self._recurrent:
            parameter.grad = None
        with threads(self.threads):
            torch.autograd.backward(states, dh)

    def _states(self, batch: Batch) -> Tensor:
        """The states at the steps that count: [S, B, H]."""
        inputs = self.given(batch.inputs)
        with threads(self.threads):
            output, last = self.rnn(inputs)
        # from the last state alone, no gradient of all states [T, B, H] has to be made, which is 0 but for its end
        if batch.steps.start == len(inputs) - 1:
            return last[0] if isinstance(last, tuple) else last
        return output[batch.steps]

    def _run(self, rows: costs.Rows) -> tuple[Tensor, Tensor]:
        """All states [T, B, H] of the rows, and the last [B, H]; h and c of an LSTM side by side."""
        begun: Any = None if rows.state is None else rows.state.unsqueeze(0)
        if begun is not None and self.config.network == "lstm":
            begun = tuple(each.contiguous() for each in begun.chunk(2, -1))
        with threads(self.threads):
            states, last = self.rnn(self.given(rows.inputs), begun)
        return states, (torch.cat(last, -1) if isinstance(last, tuple) else last).squeeze(0)

    def given(self, inputs: Tensor) -> Tensor:
        """Inputs in the network's dtype; tokens as they are."""
        return inputs.to(self._dtype) if inputs.is_floating_point() else inputs


def _layers(config: Config, inputs: int, outputs: int) -> tuple[Any, nn.Linear]:
    """The recurrent layer and the read-out that the settings ask for; `_draw` gives them their weights."""
    dtype, hidden = getattr(torch, config.dtype), config.hidden or 1
    name = NETWORKS[config.network]
    layer = getattr(steadygrad, name, None)
    if layer is None:
        raise ConfigError([f"network {config.network!r} is not there: this version has no steadygrad.{name}"])
    options: dict[str, Any] = {"alpha": config.alpha, "omega": config.omega, "backend": config.backend}
    options |= {"dtype": dtype, "bias": config.bias}
    if config.network == "rnn":
        options |= {"nonlinearity": config.nonlinearity, "leak": config.leak}
    with torch.random.fork_rng(devices=[]):  # what torch's constructors draw is drawn again
        try:
            rnn = layer(inputs, hidden, **options)
        except RuntimeError as error:  # the backend asked for is not there
            raise ConfigError([str(error)]) from error
        readout = nn.Linear(hidden, outputs, bias=config.bias, dtype=dtype)
    if config.bias and config.network == "rnn":
        rnn.bias_hh_l0.requires_grad_(False)
    rnn.record = False
    return rnn, readout


@torch.no_grad()
def _draw(network: Network, config: Config) -> None:
    """Give a network its initial weights; the `seed` alone decides them."""
    generator = stream(config.seed, "init")
    if config.init in OF_GATED:
        bound = 1 / math.sqrt(config.hidden or 1)
        for parameter in network.parameters():
            if parameter.requires_grad:
                parameter.uniform_(-bound, bound, generator=generator)
            else:
                parameter.zero_()  # the second bias of a plain layer
        if config.init == "remember":
            init.remember_(network)
        elif config.init == "chrono":
            init.chrono_(network, config.longest or 3, generator=generator)
        return
    if config.init in init.OF_RECURRENT_LAYERS:
        init.basic_tanh_(network, generator=generator)
    init.get(config.init)(network, generator=generator)


def stream(seed: int, *purpose: object) -> torch.Generator:
    """A generator of its own for each purpose, so that no use of chance disturbs another.

    >>> bool(torch.rand(1, generator=stream(1, "init")) == torch.rand(1, generator=stream(1, "test", 0)))
    False
    """
    name = " ".join(map(str, (seed, *purpose)))
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1)


@contextmanager
def threads(number: int | None) -> Iterator[None]:
    """Let torch use `number` threads while this lasts; None leaves them as they are.

    A run holds torch at one thread and gives more to the recurrent layer alone: torch's products and sums round differently on
    another number of threads, the layer's kernel does not. So results do not depend on the number of threads.
    """
    before = torch.get_num_threads()
    if number is None or number == before:
        yield
        return
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)

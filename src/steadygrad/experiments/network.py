"""A recurrent layer and a linear read-out, and the gradient of what they cost.

    h_k = σ(W_rec h_{k−1} + W_in u_k + b)             [B, H]      or the equations of another layer
    y_k = V h_k + c                                   [B, O]

A drawn problem counts some steps s of a batch, S of them; a data set counts every step k ≤ T_b of its row b:

    E = mean over s, b of −log softmax(y_s)[d_s]  or  (y_s − d_s)²                classification, regression
    E = Σ_b w_b Σ_{k ≤ T_b} ℓ_k,   w_b = 1/B, or 1/(B T_b) for the mean cost      one of O classes: ℓ = −log softmax(y)[d]
                                                                                  O keys: ℓ = Σ_o log(1 + e^{y_o}) − d_o y_o
    ∂E/∂V = Σ ∂E/∂y hᵀ,   ∂E/∂c = Σ ∂E/∂y,   ∂E/∂h = Vᵀ ∂E/∂y                     (∂E/∂y: tasks/task.py, data/costs.py)

These small products are worked out by hand while training: with autograd's bookkeeping they take more than twice as long. A
problem with a loss of its own goes through autograd.

With `dropout` p the read-out of a data set reads m_k ⊙ h_k in training, entries of m 1/(1 − p) or, with probability p, 0.

A step past its row's length has ∂E/∂y = 0. Nothing follows it, so it adds nothing to any gradient, and Ω, which looks at
errors, does not see it. `steadygrad.RNN` has two biases, as torch.nn.RNN has. Both would get the same gradient, so the second
stays 0 and is not trained.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

import steadygrad

from .. import init
from ..layers import quick
from ..reproducible import stream, threads
from ..tasks import Batch
from ..tasks.task import loss_by_hand
from . import problem
from .config import NETWORKS, OF_GATED, Config, ConfigError

if TYPE_CHECKING:
    from ..data import Chunk, costs
    from ..layers.noisy import Noisy

SPARSITY = 0.9
"""The share of a reservoir's recurrent weights that are 0."""


class Read(NamedTuple):
    """Σ ℓ over the steps that count, how many those are, and the state of every row after its last step.

    `state` is [B, H], 0 where a row had no step; of an LSTM [B, 2 H], h and c.
    """

    nats: float
    predictions: int
    state: Tensor


class Tally:
    """Nats and predictions, added up. The state has the sum as text: JSON has no number that is not finite."""

    def __init__(self, nats: float | str = 0.0, predictions: int = 0) -> None:
        self.nats, self.predictions = float(nats), predictions

    def add(self, read: Read) -> None:
        self.nats += read.nats
        self.predictions += read.predictions

    @property
    def mean(self) -> float:
        """Nats per prediction; NaN where there was none."""
        return self.nats / self.predictions if self.predictions else math.nan

    def state(self) -> list[Any]:
        return [repr(self.nats), self.predictions]


class Network(nn.Module):
    """The network of an experiment, its weights drawn as the config says.

    `of` is the problem, or anything with its `input_size` and `output_size`; made from the config if None. `rnn` and `readout`
    are the two layers, `threads` those of the recurrent layer alone; None is torch's own number.

    Example:
        >>> network = Network(Config("temporal-order", "sgd"))
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
        self.is_forced = config.teacher_forcing is not None  # output units take their targets, and are the read-out
        self.rnn, self.readout = _layers(config, self.problem)
        self._dtype = getattr(torch, config.dtype)
        self._recurrent = [parameter for parameter in self.rnn.parameters() if parameter.requires_grad]
        self.noisy: Noisy | None = None
        if config.noise > 0:
            from ..layers.noisy import Noisy

            self.noisy = Noisy(self.rnn, config.noise)
        self._by_hand = None if self.is_forced else loss_by_hand(self.problem)
        _draw(self, config)

    def forward(self, inputs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """The read-out y [T, B, O] at every step, and the state to go on from.

        `inputs` are tokens [T, B] int64, or channels [T, B, C]; `state` [1, B, H] is from the call before, None begins anew.
        """
        rnn: Any = self.rnn.eval() if self.is_forced else self.rnn
        with threads(self.threads):
            states, last = rnn(self.given(inputs), **{"state" if self.is_forced else "hx": state})
        return self.readout(states), last

    def answers(self, batch: Batch) -> Tensor:
        """The read-out at the steps that count: [S, B, O]."""
        return self.readout(self._states(batch))

    def taught(self, batch: Batch) -> Tensor:
        """As `answers`; with teacher forcing, the targets are always given."""
        return self._forced(batch, 1.0) if self.is_forced else self.answers(batch)

    def backward(self, batch: Batch, generator: torch.Generator | None = None) -> float:
        """Return the loss E, and leave in .grad only what `problem.loss(network.answers(batch), batch).backward()` would.

        The setting `noise` is drawn from `generator`; without one there is none.

        With `truncate` the states at T − k, T − 2k, … are constants for the gradient: the error of step t is sent back to the
        cut before t, and no further. Ω is then that of each piece.
        """
        forcing, by_hand = self.config.teacher_forcing, self._by_hand
        states, back = (None, None) if forcing is not None else self._begun(batch, generator)
        if by_hand is None or states is None:
            for _, parameter in self.trained():
                parameter.grad = None
            answers = self._forced(batch, forcing or 0.0) if states is None else self.readout(states)
            loss = self.problem.loss(answers, batch)
            with threads(self.threads):
                loss.backward()
            return float(loss.detach())
        with torch.no_grad():
            h = states.flatten(0, 1)
            E, dy = by_hand(nn.functional.linear(h, self.readout.weight, self.readout.bias), batch.targets)
        self._back(states, h, dy, back=back)
        return E

    @torch.no_grad()
    def read(self, chunk: Chunk, state: Tensor | None = None) -> Read:
        """What it costs to predict a chunk of up to T steps of B rows; `state` [B, H] is from the chunk before."""
        return self._read(chunk, state)[0]

    def backward_chunk(
        self,
        chunk: Chunk,
        state: Tensor | None = None,
        generator: torch.Generator | None = None,
        last_alone: bool = False,
    ) -> Read:
        """As `read`, and leave in .grad only what the cost E of the chunk, or of its last step alone, would.

        The error does not go back beyond the chunk's first step: `state` is a constant. The settings `noise` and `dropout` are
        drawn from `generator`; without one there is none.
        """
        read, states, dy, m = self._read(chunk, state, self.config.cost, generator)
        if last_alone:
            dy[: -states.shape[1]] = 0
        self._back(states, states.detach().flatten(0, 1), dy, m)
        return read

    def _read(
        self,
        chunk: Chunk,
        state: Tensor | None,
        cost: str | None = None,
        generator: torch.Generator | None = None,
    ) -> tuple[Read, Tensor, Any, Tensor | None]:
        """What a chunk costs, all its states, with a `cost` ('mean' or 'sum' over steps) ∂E/∂y, and with dropout m."""
        from ..data import costs  # with a data set alone: it loads what reads music and text

        rows, p, m = costs.Rows(chunk, state), self.config.dropout, None
        states, last = self._run(rows, generator)
        with torch.no_grad():
            h = states.flatten(0, 1)
            if generator is not None and p > 0:
                m = torch.empty_like(h).bernoulli_(1 - p, generator=generator).div_(1 - p)
                h = m * h
            weights = None if cost is None else rows.weights(cost, self._dtype)
            nats, dy = costs.OF_CHUNKS[self.problem.cost](self.readout(h), rows, weights)
        return Read(nats, rows.predictions, rows.back(last.detach())), states, dy, m

    def trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The parameters that training changes, by name."""
        return ((name, parameter) for name, parameter in self.named_parameters() if parameter.requires_grad)

    def _begun(self, batch: Batch, generator: torch.Generator | None) -> tuple[Tensor, Any]:
        """As `_states`, and what goes back from ∂E/∂ of them without autograd, if anything can (layers/quick.py)."""
        truncate, noise = self.config.truncate, None if generator is None else self.noisy
        if self._by_hand and truncate is None and noise is None and batch.steps.start == len(batch.inputs) - 1:
            with threads(self.threads):
                found = quick.last_state(self.rnn, self.given(batch.inputs))
            if found is not None:
                return found
        return self._states(batch, truncate, generator), None

    def _back(self, states: Tensor, h: Tensor, dy: Tensor, m: Tensor | None = None, back: Any = None) -> None:
        """From ∂E/∂y to all gradients; `m` is dropout's, and `back` goes through the recurrent layer in place of autograd."""
        V, c = self.readout.weight, self.readout.bias
        with torch.no_grad():
            dh = dy @ V
            if m is not None:
                h, dh = m * h, m * dh
            dh = dh.view_as(states)
            V.grad = dy.t() @ h
            if self.config.bias:
                c.grad = dy.sum(0)
        for parameter in self._recurrent:
            parameter.grad = None
        with threads(self.threads):
            torch.autograd.backward(states, dh) if back is None else back(dh)

    def all_states(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The read-out at the steps that count [S, B, O], and the states of all steps [T, B, H]."""
        with threads(self.threads):
            states, _ = self.rnn(self.given(batch.inputs))
        return self.readout(states[batch.steps]), states

    def _forced(self, batch: Batch, probability: float) -> Tensor:
        """The read-out at every step [T, B, O], of output units that take their targets with this probability."""
        self.rnn.train().probability = probability
        with threads(self.threads):
            return self.rnn(self.given(batch.inputs), batch.targets)[0]

    def _states(self, batch: Batch, truncate: int | None = None, generator: torch.Generator | None = None) -> Tensor:
        """The states at the steps that count: [S, B, H]. The gradient is cut every `truncate` steps, counted from the last."""
        inputs, layer = self._with_noise(batch.inputs, generator)
        if self.is_forced:
            with threads(self.threads):
                return self.rnn.eval()(inputs)[0][batch.steps]
        start, stop = batch.steps.start, batch.steps.stop
        with threads(self.threads):
            if truncate is None:
                output, last = layer(inputs, None)
                output = output[start:]
            else:
                from ..layers import truncated  # nothing else needs it

                output, last = truncated.run(layer, inputs, start, truncate)
        # from the last state alone, no gradient of all states [T, B, H] has to be made, which is 0 but for its end
        if start == len(inputs) - 1:
            return last[0] if isinstance(last, tuple) else last
        return output if len(output) == stop - start else output[: stop - start]

    def _with_noise(self, inputs: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Any]:
        """What the recurrent layer is given, and the layer that takes it: with a generator, the one that adds the noise."""
        given = self.given(inputs)
        if generator is None or self.noisy is None:
            return given, self.rnn
        return self.noisy.inputs(given, generator), self.noisy

    def _run(self, rows: costs.Rows, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """All states [T, B, H] of the rows, and the last [B, H]; h and c of an LSTM side by side."""
        begun: Any = None if rows.state is None else rows.state.unsqueeze(0)
        if begun is not None and self.config.network == "lstm":
            begun = tuple(each.contiguous() for each in begun.chunk(2, -1))
        inputs, layer = self._with_noise(rows.inputs, generator)
        with threads(self.threads):
            states, last = layer(inputs, begun)
        return states, (torch.cat(last, -1) if isinstance(last, tuple) else last).squeeze(0)

    def given(self, inputs: Tensor) -> Tensor:
        """Inputs in the network's dtype; tokens as they are, but for units that are their own outputs."""
        if self.is_forced and not inputs.is_floating_point():
            inputs = nn.functional.one_hot(inputs, self.problem.input_size).to(self._dtype)
        return inputs.to(self._dtype) if inputs.is_floating_point() else inputs


def _layers(config: Config, problem: Any) -> tuple[Any, Any]:
    """The recurrent layer and the read-out that the settings ask for; `_draw` gives them their weights."""
    dtype, hidden = getattr(torch, config.dtype), config.hidden or 1
    inputs, outputs = problem.input_size, problem.output_size
    if config.teacher_forcing is not None:
        kind = "identity" if getattr(problem, "kind", "") == "regression" else "softmax"
        units: dict[str, Any] = {"nonlinearity": config.nonlinearity, "outputs": kind, "dtype": dtype}
        from ..baselines import TeacherForced

        with torch.random.fork_rng(devices=[]):
            return TeacherForced(hidden + outputs, outputs, inputs, **units), nn.Identity()
    name = NETWORKS[config.network]
    options: dict[str, Any] = {"alpha": config.alpha, "omega": config.omega, "backend": config.backend}
    options |= {"dtype": dtype, "bias": config.bias, "clip_error": config.clip_error}
    if name == "RNN":
        options |= {"nonlinearity": config.nonlinearity, "leak": config.leak}
    with torch.random.fork_rng(devices=[]):  # what torch's constructors draw is drawn again
        try:
            rnn = getattr(steadygrad, name)(inputs, hidden, **options)
        except RuntimeError as error:  # the backend asked for is not there
            raise ConfigError([str(error)]) from error
        readout = nn.Linear(hidden, outputs, bias=config.bias, dtype=dtype)
    if config.bias and name == "RNN":
        rnn.bias_hh_l0.requires_grad_(False)
    rnn.record = False
    return rnn, readout


@torch.no_grad()
def _draw(network: Network, config: Config) -> None:
    """Give a network its initial weights; the `seed` alone decides them."""
    generator = stream(config.seed, "init")
    if config.network == "echo-state":
        _draw_reservoir(network, config, generator.initial_seed())
        return
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
    if config.radius is not None:
        init.spectral_(network, config.radius)


def _draw_reservoir(network: Network, config: Config, seed: int) -> None:
    """A reservoir that stays as it is, and a read-out of 0, which is solved for later (methods.py)."""
    from ..baselines import reservoir

    scaling: dict[str, Any] = {"radius": config.radius, "input_scaling": config.input_scaling, "bias_scaling": 0.0}
    drawn = reservoir.draw(config.hidden or 1, network.problem.input_size, sparsity=SPARSITY, seed=seed, **scaling)
    for parameter in network.requires_grad_(False).parameters():
        parameter.zero_()
    network.rnn.weight_hh_l0.copy_(drawn.weight_hh)
    network.rnn.weight_ih_l0.copy_(drawn.weight_ih)

"""The paper's network: one recurrent layer and a linear read-out, which answers at the steps that count.

    h_k = σ(W_rec h_{k−1} + W_in u_k + b)        [B, H]
    y_s = V h_s + c                              [S, B, O]

    ∂E/∂y = (softmax(y) − onehot(d)) / (S B)     classification, d the targets
    ∂E/∂y = 2 (y − d) / (S B O)                  regression
    ∂E/∂V = Σ_s Σ_b ∂E/∂y hᵀ,   ∂E/∂c = Σ_s Σ_b ∂E/∂y,   ∂E/∂h = Vᵀ ∂E/∂y

These small products are worked out by hand while training: with autograd's bookkeeping they take more than twice as long
(on one core 180 µs against 75 for 20 sequences). The tests compare both.

`steadygrad.RNN` has two biases, as torch.nn.RNN has. Both would get the same gradient, and b their two steps: the
second stays 0 and is not trained.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .. import init, tasks
from ..rnn.layer import RNN
from .config import ConfigError, RunConfig
from .threads import threads


class Network(nn.Module):
    """A task's network, its weights drawn as the config says.

    Args:
        config: the settings of the run; its `seed` alone decides the weights.

    Attributes:
        config, task: the run's settings, and the task it answers.
        threads: of the recurrent layer alone; None is torch's own number.
        rnn, readout: the two layers.

    Example:
        >>> network = Network(RunConfig("temporal-order", "sgd"))
        >>> batch = network.task.sample(20, 50, torch.Generator().manual_seed(0))
        >>> network(batch).shape
        torch.Size([1, 20, 4])
    """

    def __init__(self, config: RunConfig) -> None:
        super().__init__()
        self.config = config
        self.task = task = tasks.get(config.task, **config.task_options)
        self.rnn, self.readout = layers(config, task.input_size, config.hidden or task.hidden_size, task.output_size)
        self.threads: int | None = None
        self._dtype = self.rnn.weight_hh_l0.dtype
        self._regression = task.kind == "regression"
        self._recurrent = [parameter for parameter in self.rnn.parameters() if parameter.requires_grad]
        draw(self, config)

    def forward(self, batch: tasks.Batch) -> Tensor:
        """The read-out at the steps that count: [S, B, output_size]."""
        return self.readout(self._states(batch))

    def backward(self, batch: tasks.Batch) -> float:
        """Leave in .grad what `task.loss(network(batch), batch).backward()` would, in place of what was there.

        Returns:
            The loss E.
        """
        states = self._states(batch)
        V, c = self.readout.weight, self.readout.bias
        with torch.no_grad():
            h = states.flatten(0, 1)
            y = torch.addmm(c, h, V.t())
            E, dy = _squared_error(y, batch.targets) if self._regression else _cross_entropy(y, batch.targets)
            dh = (dy @ V).view_as(states)
            V.grad, c.grad = dy.t() @ h, dy.sum(0)
        for parameter in self._recurrent:
            parameter.grad = None
        with threads(self.threads):
            torch.autograd.backward(states, dh)
        return E

    def trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The parameters that training changes, by name."""
        return ((name, parameter) for name, parameter in self.named_parameters() if parameter.requires_grad)

    def _states(self, batch: tasks.Batch) -> Tensor:
        """The states at the steps that count: [S, B, H]."""
        inputs = batch.inputs
        if inputs.is_floating_point() and inputs.dtype != self._dtype:
            inputs = inputs.to(self._dtype)
        with threads(self.threads):
            output, last = self.rnn(inputs)
        # from the last state alone, no gradient of all states [T, B, H] has to be made, which is 0 but for its end
        return last if batch.steps.start == len(inputs) - 1 else output[batch.steps]


def layers(config: Any, inputs: int, hidden: int, outputs: int, *, bias: bool = True) -> tuple[RNN, nn.Linear]:
    """The recurrent layer and the read-out that the settings of any kind of run ask for; `draw` gives them their weights."""
    dtype = getattr(torch, config.dtype)
    with torch.random.fork_rng(devices=[]):  # what torch's constructors draw is drawn again
        try:
            rnn = RNN(
                inputs,
                hidden,
                nonlinearity=config.nonlinearity,
                bias=bias,
                alpha=config.alpha,
                omega=config.omega,
                leak=config.leak,
                backend=config.backend,
                dtype=dtype,
            )
        except RuntimeError as error:  # the backend asked for is not there
            raise ConfigError([str(error)]) from error
        readout = nn.Linear(hidden, outputs, bias=bias, dtype=dtype)
    if bias:
        rnn.bias_hh_l0.requires_grad_(False)
    rnn.record = False
    return rnn, readout


def draw(network: nn.Module, config: Any) -> None:
    """Give a network the initial weights that its settings ask for; their `seed` alone decides them."""
    generator = stream(config.seed, "init")
    if config.init in init.OF_RECURRENT_LAYERS:
        init.basic_tanh_(network, generator=generator)
    init.get(config.init)(network, generator=generator)


def _cross_entropy(y: Tensor, targets: Tensor) -> tuple[float, Tensor]:
    """E and ∂E/∂y for y [S B, O] and classes [S, B]."""
    d = targets.reshape(-1)
    log_p = torch.log_softmax(y, 1)
    E = nn.functional.nll_loss(log_p, d).item()
    minus = y.new_full((len(y), 1), -1.0)
    return E, log_p.exp_().scatter_add_(1, d.unsqueeze(1), minus).div_(len(y))


def _squared_error(y: Tensor, targets: Tensor) -> tuple[float, Tensor]:
    """E and ∂E/∂y for y [S B, O] and values [S, B, O]."""
    difference = y - targets.flatten(0, 1)
    return difference.square().mean().item(), difference.mul_(2 / difference.numel())


def stream(seed: int, *purpose: object) -> torch.Generator:
    """A generator of its own for each purpose, so that no use of chance disturbs another.

    >>> bool(torch.rand(1, generator=stream(1, "init")) == torch.rand(1, generator=stream(1, "test", 0)))
    False
    """
    name = " ".join(map(str, (seed, *purpose)))
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1)

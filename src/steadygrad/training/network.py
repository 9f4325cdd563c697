"""The paper's network: one recurrent layer and a linear read-out, which answers at the steps that count.

    h_k = σ(W_rec h_{k−1} + W_in u_k + b)        [B, H]
    y_s = V h_s + c                              [S, B, O]

`steadygrad.RNN` has two biases, as torch.nn.RNN has. Both would get the same gradient, and b their two steps: the
second stays 0 and is not trained.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from .. import init, tasks
from ..rnn.layer import RNN
from .config import ConfigError, RunConfig


class Network(nn.Module):
    """A task's network, its weights drawn as the config says.

    Args:
        config: the settings of the run; its `seed` alone decides the weights.

    Attributes:
        config, task: the run's settings, and the task it answers.
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
        hidden = config.hidden or task.hidden_size
        dtype = getattr(torch, config.dtype)
        with torch.random.fork_rng(devices=[]):  # what torch's constructors draw is drawn again below
            try:
                self.rnn = RNN(
                    task.input_size,
                    hidden,
                    nonlinearity=config.nonlinearity,
                    alpha=config.alpha,
                    omega=config.omega,
                    leak=config.leak,
                    backend=config.backend,
                    dtype=dtype,
                )
            except RuntimeError as error:  # the backend asked for is not there
                raise ConfigError([str(error)]) from error
            self.readout = nn.Linear(hidden, task.output_size, dtype=dtype)
        self.rnn.bias_hh_l0.requires_grad_(False)
        self.rnn.record = False
        self._dtype = dtype
        self._draw(config)

    def forward(self, batch: tasks.Batch) -> Tensor:
        """The read-out at the steps that count: [S, B, output_size]."""
        inputs = batch.inputs
        if inputs.is_floating_point() and inputs.dtype != self._dtype:
            inputs = inputs.to(self._dtype)
        output, last = self.rnn(inputs)
        # from the last state alone, no gradient of all states [T, B, H] has to be made, which is 0 but for its end
        only_last = batch.steps.start == len(inputs) - 1
        return self.readout(last if only_last else output[batch.steps])

    def trained(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The parameters that training changes, by name."""
        return ((name, parameter) for name, parameter in self.named_parameters() if parameter.requires_grad)

    def _draw(self, config: RunConfig) -> None:
        generator = stream(config.seed, "init")
        if config.init in ("orthogonal", "identity"):  # these are W_rec's alone
            init.basic_tanh_(self, generator=generator)
        init.get(config.init)(self, generator=generator)


def stream(seed: int, *purpose: object) -> torch.Generator:
    """A generator of its own for each purpose, so that no use of chance disturbs another.

    >>> bool(torch.rand(1, generator=stream(1, "init")) == torch.rand(1, generator=stream(1, "test", 0)))
    False
    """
    name = " ".join(map(str, (seed, *purpose)))
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1)

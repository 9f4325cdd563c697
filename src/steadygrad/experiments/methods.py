"""What makes an update in place of a step down the gradient (descent.py): Hessian-free optimisation, or an echo state's fit.

Hessian-free: the whole batch is the gradient's, its first `curvature_batch` sequences are the curvature's. Echo state: a batch
is added to the sums of the ridge regression, which is solved where the network is tested; an update has no loss of its own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..baselines import EchoState, HessianFree
from ..tasks import Batch
from .config import Config
from .descent import Diverged, Method, load_moments, moments
from .network import Network

SUMS = "sums"  # of the regression, in a checkpoint


class Newton(Method):
    """Hessian-free optimisation (baselines/hessian_free.py); the norm of the gradient is not measured."""

    def __init__(self, network: Network) -> None:
        super().__init__(network.trained())
        config, parameters = network.config, [parameter for _, parameter in self.named]
        damping: Any = {
            "damping": config.damping,
            "structural": config.structural,
            "hidden_distance": _distance(config),
        }
        self._optimizer = HessianFree(parameters, network.problem.loss, **damping, seed=config.seed)

    def learn(self, network: Network, feed: Any) -> float:
        batch: Batch = feed.draw()
        number = network.config.curvature_batch or network.config.batch
        part = Batch(batch.inputs[:, :number], batch.targets[:, :number], batch.steps)

        def forward(kind: str) -> tuple[Tensor, Batch, Tensor]:
            chosen = batch if kind == "gradient" else part
            outputs, states = network.all_states(chosen)
            return outputs, chosen, states

        try:
            loss = self._optimizer.step(forward)
        except FloatingPointError as error:
            raise Diverged(f"{error}, {self.after}") from error
        self.note(loss)
        return loss

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, _ = moments(self._optimizer)
        group = self._optimizer.param_groups[0]
        return tensors, {**super().state()[1], "newton": {name: group[name] for name in ("damping", "steps")}}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        super().load_state(tensors, values)
        load_moments(self._optimizer, tensors, {})
        self._optimizer.param_groups[0].update(values["newton"])


def _distance(config: Config) -> str:
    """How a change of hidden states is measured: as fits the units, where the state is what the nonlinearity gives."""
    fits = config.network == "rnn" and config.leak == 0 and config.nonlinearity in ("tanh", "sigmoid")
    return config.nonlinearity if fits else "squared"


class Regression(Method):
    """The read-out of an echo state network (baselines/echo_state.py), its λ chosen by cross-validation."""

    def __init__(self, network: Network) -> None:
        super().__init__(())
        config, layer = network.config, network.rnn
        self._network, self._fitted = network, 0
        self._echo = EchoState(
            config.hidden or 1,
            leak=1.0 - config.leak,
            output_size=network.problem.output_size,
            dtype=layer.weight_hh_l0.dtype,
        ).use(layer.weight_hh_l0, layer.weight_ih_l0)

    def learn(self, network: Network, feed: Any) -> float:
        batch: Batch = feed.draw()
        self._echo.partial_fit(batch.inputs, batch.targets, batch.steps)
        self.note(math.nan)
        return math.nan

    @torch.no_grad()
    def settle(self) -> None:
        if self._fitted == self.updates:
            return
        found = self._echo.solve().read_out
        assert found is not None
        self._network.readout.bias.copy_(found[0])
        self._network.readout.weight.copy_(found[1:].t())
        self._fitted = self.updates

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {} if self._echo.sums is None else {SUMS: self._echo.sums}
        return tensors, {**super().state()[1], "fitted": self._fitted}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        super().load_state(tensors, values)
        self._fitted = values["fitted"]
        self._echo.sums = tensors.get(SUMS)
        self._echo.sequences = self.updates * self._network.config.batch

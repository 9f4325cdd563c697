"""What makes an update: a step down the gradient, Hessian-free optimisation, or the fit of an echo state's read-out.

    g ← g + l1 sign(W_rec) + 2 l2 W_rec          the penalties, where the settings ask for them (baselines/penalty.py)
    g ← min(1, threshold/‖g‖) g                  (Pascanu et al. 2013, Algorithm 1; within optimizer.step())
    θ ← θ − lr · g                               or as the optimizer has it

Optimizers are torch's, by name. Fused kernels take the few small tensors of these networks in one call: a step takes as long as
torch's loop over parameters without momentum, half of it with, a third for Adam.

Hessian-free: the whole batch is the gradient's, its first `curvature_batch` sequences are the curvature's. Echo state: a batch
is added to the sums of the ridge regression, which is solved where the network is tested; an update has no loss of its own.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from .. import clip, storage
from ..storage import State
from ..tasks import Batch
from .config import Config
from .network import Network

LOST = 1000  # so many updates in a row without a finite gradient, and the run has diverged
BLOWN_UP = 1000.0  # a mean loss so many times that of the first update, and the run has diverged
ADAM_SECOND = 0.999


class Diverged(ArithmeticError):
    """The run can't learn any more; the message says why."""


@dataclass
class Since:
    """What was seen since the last check. Sums are over finite values."""

    updates: int = 0
    loss: float = 0.0
    losses: int = 0
    norm: float = 0.0
    norms: int = 0
    norm_max: float = 0.0
    clipped_before: int = 0
    skipped_before: int = 0


class Method:
    """What makes an update of a network, and what was seen of it: `since` the last summary."""

    has_rate = False
    clipper: clip.NormClipper | None = None

    def __init__(self, network: Network) -> None:
        self.network, self.config, self.named = network, network.config, list(network.trained())
        self.updates, self.since = 0, Since()
        self._first_loss: float | None = None

    def learn(self, feed: Any) -> float:
        """Make one update with the next batch of `feed`, and return its loss; NaN where it has none."""
        raise NotImplementedError

    def settle(self) -> None:
        """Bring the network to what was learned so far, before a test. After a step it is there already."""

    def set_rate(self, lr: float) -> None:
        """Take the learning rate of the next step, where there is one."""

    def forget(self) -> None:
        """Take the weights as new ones: what the updates before have left, such as momentum, goes."""

    def note(self, loss: float) -> None:
        """Count an update of this loss."""
        self.updates += 1
        self.since.updates += 1
        if math.isfinite(loss):
            self.since.loss += loss
            self.since.losses += 1
            if self._first_loss is None:
                self._first_loss = loss

    def judge(self) -> None:
        """Raise `Diverged` if a parameter is not finite or the mean loss since the last summary has blown up."""
        for name, parameter in self.named:
            if not torch.isfinite(parameter).all():
                raise Diverged(f"{name} is no longer finite {self.after}")
        since, first = self.since, self._first_loss
        if since.losses and first is not None and (mean := since.loss / since.losses) > BLOWN_UP * first:
            seen = f"the mean loss of the last {since.updates:,} updates is {mean:.3g}"
            raise Diverged(f"{seen}, and was {first:.3g} at first, {self.after}")

    def summary(self) -> dict[str, float | None]:
        """What was seen since the last summary, as means, and begin anew."""
        since, clipped, skipped = self.since, 0, 0
        if self.clipper is not None:
            stats = self.clipper.stats
            clipped, skipped = stats.clipped, stats.skipped + stats.shrunk
        self.since = Since(clipped_before=clipped, skipped_before=skipped)
        return {
            "loss": since.loss / since.losses if since.losses else None,
            "gradient_norm": since.norm / since.norms if since.norms else None,
            "gradient_norm_max": since.norm_max if since.norms else None,
            "clip_rate": (clipped - since.clipped_before) / max(1, since.updates),
            "skipped": skipped - since.skipped_before,
        }

    def state(self) -> State:
        """All that the next update depends on but the parameters and the rate."""
        return {"updates": self.updates, "since": asdict(self.since), "first_loss": self._first_loss}

    def load_state(self, state: State) -> None:
        """Go on from `state()`, to the very same numbers. Other names are ignored; the rate stays."""
        self.updates, self.since, self._first_loss = state["updates"], Since(**state["since"]), state["first_loss"]

    @property
    def after(self) -> str:
        return f"after {self.updates:,} updates"


class Descent(Method):
    """A step down the gradient: an optimizer, a clipper if there is a threshold, penalties if they have a factor."""

    has_rate = True

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        config, parameters = self.config, [parameter for _, parameter in self.named]
        self.optimizer = _optimizer(config, parameters)
        if config.threshold is not None:
            about: Any = {"nonfinite": config.nonfinite, "per": config.per, "named_parameters": self.named}
            self.clipper = clip.NormClipper(self.optimizer, config.threshold, history=0, **about)
        self._parameters, self._lost = parameters, 0
        self._penalties: list[tuple[Any, float]] = []
        if config.l1 or config.l2:
            from ..baselines import penalty

            both = ((penalty.add_l1, config.l1), (penalty.add_l2, config.l2))
            self._penalties = [(add, strength) for add, strength in both if strength > 0]

    def set_rate(self, lr: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = lr

    def forget(self) -> None:
        self.optimizer.state.clear()

    def learn(self, feed: Any) -> float:
        """As `Method.learn`. Raises `Diverged` if the loss or the gradient is not finite and there is no clipper to skip
        it, or a clipper had to skip `LOST` gradients in a row."""
        loss = feed.learn(self.network)
        for add, strength in self._penalties:
            add(self.network.rnn, strength)
        norm = self._step(loss)
        self.note(loss)
        if math.isfinite(norm):
            since, self._lost = self.since, 0
            since.norm += norm
            since.norms += 1
            since.norm_max = max(since.norm_max, norm)
        else:
            self._lost += 1
            if self._lost >= LOST:
                raise Diverged(f"the last {LOST:,} gradients were not finite, {self.after}")
        return loss

    def state(self) -> State:
        clipper = None if self.clipper is None else self.clipper.state_dict()
        return {**super().state(), **storage.of_optimizer(self.optimizer), "lost": self._lost, "clipper": clipper}

    def load_state(self, state: State) -> None:
        super().load_state(state)
        storage.load_optimizer(self.optimizer, state)
        if self.clipper is not None:
            self.clipper.load_state_dict(state["clipper"])
        self._lost = state["lost"]

    def _step(self, loss: float) -> float:
        """Make the step, and return the norm of the gradient before clipping."""
        if self.clipper is not None:
            try:
                self.optimizer.step()
            except FloatingPointError as error:
                raise Diverged(f"{error}, {self.after}") from error
            return self.clipper.norm_before
        norm = clip.grad_norm(self._parameters).item()
        if not (math.isfinite(norm) and math.isfinite(loss)):
            names = ", ".join(clip.nonfinite_parameters(self.named)) or "none"
            seen = f"the loss is {loss:.3g}, the gradient's norm {norm:.3g} (not finite: {names})"
            raise Diverged(f"{seen}, {self.after}")
        self.optimizer.step()
        return norm


def _optimizer(config: Config, parameters: list[torch.nn.Parameter]) -> Optimizer:
    lr, momentum = config.lr, config.momentum or 0.0
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=lr, betas=(momentum, ADAM_SECOND), fused=True)
    if config.optimizer == "rmsprop":
        return torch.optim.RMSprop(parameters, lr=lr, momentum=momentum, foreach=True)
    return torch.optim.SGD(parameters, lr, momentum, nesterov=config.optimizer == "nesterov", fused=True)


class Newton(Method):
    """Hessian-free optimisation (baselines/hessian_free.py); the norm of the gradient is not measured."""

    def __init__(self, network: Network) -> None:
        from ..baselines import HessianFree

        super().__init__(network)
        config, parameters = self.config, [parameter for _, parameter in self.named]
        # a change of hidden states is measured as fits the units, where the state is what the nonlinearity gives
        fits = config.network == "rnn" and config.leak == 0 and config.nonlinearity in ("tanh", "sigmoid")
        distance: Any = config.nonlinearity if fits else "squared"
        about: Any = {"structural": config.structural, "hidden_distance": distance, "seed": config.seed}
        self._optimizer = HessianFree(parameters, network.problem.loss, damping=config.damping, **about)

    def learn(self, feed: Any) -> float:
        batch: Batch = feed.draw()
        number = self.config.curvature_batch or self.config.batch
        part = Batch(batch.inputs[:, :number], batch.targets[:, :number], batch.steps)

        def forward(kind: str) -> tuple[Tensor, Batch, Tensor]:
            chosen = batch if kind == "gradient" else part
            outputs, states = self.network.all_states(chosen)
            return outputs, chosen, states

        try:
            loss = self._optimizer.step(forward)
        except FloatingPointError as error:
            raise Diverged(f"{error}, {self.after}") from error
        self.note(loss)
        return loss

    def state(self) -> State:
        group, moments = self._optimizer.param_groups[0], storage.of_optimizer(self._optimizer)
        del moments["optimizer"]  # it keeps tensors alone
        return {**super().state(), **moments, "newton": {name: group[name] for name in ("damping", "steps")}}

    def load_state(self, state: State) -> None:
        super().load_state(state)
        storage.load_optimizer(self._optimizer, {**state, "optimizer": {}})
        self._optimizer.param_groups[0].update(state["newton"])


class Regression(Method):
    """The read-out of an echo state network (baselines/echo_state.py), its λ chosen by cross-validation."""

    def __init__(self, network: Network) -> None:
        from ..baselines import EchoState

        super().__init__(network)
        units, W = network.config.hidden or 1, network.rnn.weight_hh_l0
        about: Any = {"output_size": network.problem.output_size, "dtype": W.dtype}
        self._echo = EchoState(units, leak=1.0 - self.config.leak, **about).use(W, network.rnn.weight_ih_l0)
        self._fitted = 0

    def learn(self, feed: Any) -> float:
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
        self.network.readout.bias.copy_(found[0])
        self.network.readout.weight.copy_(found[1:].t())
        self._fitted = self.updates

    def state(self) -> State:
        sums = {} if self._echo.sums is None else {"sums": self._echo.sums}
        return {**super().state(), **sums, "fitted": self._fitted}

    def load_state(self, state: State) -> None:
        super().load_state(state)
        self._fitted, self._echo.sums = state["fitted"], state.get("sums")
        self._echo.sequences = self.updates * self.config.batch


def method(network: Network) -> Method:
    """What makes an update, as the network's config asks for it."""
    if network.config.network == "echo-state":
        return Regression(network)
    return (Newton if network.config.optimizer == "hessian-free" else Descent)(network)

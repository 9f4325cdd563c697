"""One run's network and all that changes as it learns: what an update does, and what a checkpoint must hold.

T ~ uniform over the lengths of now; a fresh batch of length T
g = ∂E/∂θ + α ∂⁺Ω/∂W_rec                     (Pascanu et al. 2013, eq. 9, 10; the layer adds the second)
g ← min(1, threshold/‖g‖) g                  (Algorithm 1; within optimizer.step())
θ ← θ − lr · g                               or as the optimizer has it
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ..clip import NormClipper, grad_norm, nonfinite_parameters
from . import optimizer as optimizers
from .config import RunConfig
from .curriculum import Curriculum
from .network import Network
from .schedule import Schedule

LOST = 1000
"""So many updates in a row without a finite gradient, and the run has diverged."""
BLOWN_UP = 1000.0
"""A mean loss so many times that of the first update, and the run has diverged."""


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


class Learner:
    """A network in training.

    Args:
        config: the settings of the run.

    Attributes:
        network: what is trained.
        updates: how many were made.
        lengths: the lengths of now.
        lr, alpha: of the last update.
        since: what was seen since the last check.

    Example:
        >>> learner = Learner(RunConfig("temporal-order", "sgd-cr", (10, 12), threshold=1.0, alpha=2.0))
        >>> losses = [learner.update() for _ in range(3)]
        >>> learner.updates, learner.since.loss == sum(losses)
        (3, True)
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.network = Network(config)
        self.task = self.network.task
        self.generator = torch.Generator().manual_seed(config.seed)
        self.lengths = Curriculum(
            config.curriculum, config.length, config.growth, config.patience, config.curriculum_loss
        )
        self.lr, self.alpha = config.lr, config.alpha
        self.updates = 0
        self.since = Since()
        self.polishing: tuple[int, int] | None = None
        self._named = list(self.network.trained())
        self._parameters = [parameter for _, parameter in self._named]
        self._schedules = {
            "lr": Schedule(config.lr_schedule, config.epoch, config.max_updates),
            "alpha": Schedule(config.alpha_schedule, config.epoch, config.max_updates),
        }
        self._optimizer = optimizers.build(config.optimizer, self._parameters, config.lr, config.momentum)
        self._clipper = self._clip()
        self._first_loss: float | None = None
        self._lost = 0

    def update(self) -> float:
        """Make one update, and return its loss.

        Raises:
            Diverged: the loss or the gradient is not finite, and no clipper is there to pass over it; or a clipper had
                to for too long.
        """
        self._set_rates()
        low, high = self.lengths.now
        generator = self.generator
        T = low if low == high else int(torch.randint(low, high + 1, (), generator=generator))
        batch = self.task.sample(self.config.batch, T, generator)
        loss = self.network.backward(batch)
        norm = self._step(loss)
        self.updates += 1
        self._observe(loss, norm)
        return loss

    def polish(self, updates: int) -> None:
        """Let the rate fall linearly to 0 over the next `updates`."""
        self.polishing = (self.updates, updates)

    def judge(self) -> None:
        """Whether the run has diverged, as far as one can tell between two checks. Raises `Diverged`."""
        for name, parameter in self._named:
            if not torch.isfinite(parameter).all():
                raise Diverged(f"{name} is no longer finite after {self.updates:,} updates")
        since, first = self.since, self._first_loss
        if since.losses and first is not None and since.loss / since.losses > BLOWN_UP * first:
            mean = since.loss / since.losses
            raise Diverged(
                f"the mean loss of the last {since.updates:,} updates is {mean:.3g}, and was {first:.3g} at first, "
                f"after {self.updates:,} updates"
            )

    def summary(self) -> dict[str, float | None]:
        """What was seen since the last check, as means, and begin anew."""
        since = self.since
        seen: dict[str, float | None] = {
            "loss": since.loss / since.losses if since.losses else None,
            "gradient_norm": since.norm / since.norms if since.norms else None,
            "gradient_norm_max": since.norm_max if since.norms else None,
            "clip_rate": 0.0,
            "skipped": 0,
        }
        self.since = Since()
        if self._clipper is not None:
            stats = self._clipper.stats
            skipped = stats.skipped + stats.shrunk
            if since.updates:
                seen["clip_rate"] = (stats.clipped - since.clipped_before) / since.updates
                seen["skipped"] = skipped - since.skipped_before
            self.since = Since(clipped_before=stats.clipped, skipped_before=skipped)
        return seen

    def weights(self) -> dict[str, Tensor]:
        """A copy of all weights, by name."""
        return {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that the next update depends on: tensors by name, and plain values."""
        moments, rest = optimizers.state(self._optimizer)
        tensors = {f"weights.{name}": tensor.detach() for name, tensor in self.network.state_dict().items()}
        tensors |= {f"optimizer.{name}": tensor for name, tensor in moments.items()}
        tensors["generator"] = self.generator.get_state()
        values = {
            "updates": self.updates,
            "since": asdict(self.since),
            "curriculum": self.lengths.state_dict(),
            "schedules": {name: schedule.state_dict() for name, schedule in self._schedules.items()},
            "clipper": None if self._clipper is None else self._clipper.state_dict(),
            "optimizer": rest,
            "polishing": self.polishing,
            "first_loss": self._first_loss,
            "lost": self._lost,
            "rates": [self.lr, self.alpha],
        }
        return tensors, values

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from `state()`, to the very same numbers."""
        parts: dict[str, dict[str, Tensor]] = {"weights": {}, "optimizer": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            if part in parts:
                parts[part][rest] = tensor
        self.network.load_state_dict(parts["weights"])
        optimizers.load_state(self._optimizer, parts["optimizer"], values["optimizer"])
        self.generator.set_state(tensors["generator"])
        self.updates = values["updates"]
        self.since = Since(**values["since"])
        self.lengths.load_state_dict(values["curriculum"])
        for name, schedule in self._schedules.items():
            schedule.load_state_dict(values["schedules"][name])
        if self._clipper is not None:
            self._clipper.load_state_dict(values["clipper"])
        self.polishing = None if values["polishing"] is None else tuple(values["polishing"])
        self._first_loss, self._lost = values["first_loss"], values["lost"]
        self.lr, self.alpha = values["rates"]
        self._apply_rates()

    def _clip(self) -> NormClipper | None:
        config = self.config
        if config.threshold is None:
            return None
        threshold: Any = config.threshold
        nonfinite: Any = config.nonfinite
        return NormClipper(self._optimizer, threshold, nonfinite, named_parameters=self._named, history=0)

    def _set_rates(self) -> None:
        lr = self.config.lr * self._schedules["lr"].factor(self.updates)
        if self.polishing is not None:
            start, updates = self.polishing
            lr *= max(0.0, 1.0 - (self.updates - start) / updates)
        alpha = self.config.alpha * self._schedules["alpha"].factor(self.updates)
        if (lr, alpha) != (self.lr, self.alpha):
            self.lr, self.alpha = lr, alpha
            self._apply_rates()

    def _apply_rates(self) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = self.lr
        self.network.rnn.alpha = self.alpha

    def _step(self, loss: float) -> float:
        """The optimizer's step, and the gradient's norm before clipping."""
        if self._clipper is not None:
            try:
                self._optimizer.step()
            except FloatingPointError as error:
                raise Diverged(f"{error}, after {self.updates:,} updates") from error
            return self._clipper.stats.norm_before
        norm = grad_norm(self._parameters).item()
        if not (math.isfinite(norm) and math.isfinite(loss)):
            names = ", ".join(nonfinite_parameters(self._named)) or "none"
            raise Diverged(
                f"the loss is {loss:.3g}, the gradient's norm {norm:.3g} (not finite: {names}), "
                f"after {self.updates:,} updates"
            )
        self._optimizer.step()
        return norm

    def _observe(self, loss: float, norm: float) -> None:
        since = self.since
        since.updates += 1
        if math.isfinite(loss):
            since.loss += loss
            since.losses += 1
            if self._first_loss is None:
                self._first_loss = loss
        if math.isfinite(norm):
            since.norm += norm
            since.norms += 1
            if norm > since.norm_max:
                since.norm_max = norm
            self._lost = 0
        else:
            self._lost += 1
            if self._lost >= LOST:
                raise Diverged(f"the last {LOST:,} gradients were not finite, after {self.updates:,} updates")
        self.lengths.observe(loss)
        for schedule in self._schedules.values():
            schedule.observe(loss)

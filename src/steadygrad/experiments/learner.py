"""A network in training: what an update does, and what a checkpoint must hold.

    g = ∂E/∂θ + α ∂⁺Ω/∂W_rec                     (Pascanu et al. 2013, eq. 9, 10; the layer adds the second)
    g ← min(1, threshold/‖g‖) g                  (Algorithm 1; within optimizer.step())
    θ ← θ − lr · g                               or as the optimizer has it
    θ̄ = mean of θ over the last updates           before a test: what is tested and kept, where the settings ask for it

Where the rate does not fall, θ moves around what it looks for; its mean is closer. A state that has to be kept for longer
than any sequence was long needs that precision. Where batches come from is the feed's part (feeds.py).
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from . import problem as problems
from .config import DRAWN, Config
from .descent import LOST as LOST
from .descent import Descent, Since
from .descent import Diverged as Diverged
from .feeds import Draws, Passes
from .network import Network
from .schedules import Schedule

WEIGHTS, MEAN = "weights.", "mean."
"""What the names of the weights, and of their mean, begin with in a checkpoint."""


class Learner:
    """A network in training.

    Args:
        config: the settings of the run.
        problem: what it learns; made from the config if None.

    Attributes:
        network: what is trained.
        feed: where its batches come from (`Draws` or `Passes`), and how far it has come.
        descent: the optimizer, and what was seen of the gradients.
        lr, alpha: of the last update.

    Example:
        >>> learner = Learner(Config("temporal-order", "sgd-cr", (10, 12), threshold=1.0, alpha=2.0))
        >>> losses = [learner.update() for _ in range(3)]
        >>> learner.updates, learner.since.loss == sum(losses)
        (3, True)
    """

    def __init__(self, config: Config, problem: Any = None) -> None:
        self.config = config
        self.problem = problems.build(config) if problem is None else problem
        self.network = Network(config, self.problem)
        self.network.threads = config.threads
        self.feed: Any = (Draws if config.form == DRAWN else Passes)(config, self.problem)
        self.lr, self.alpha = config.lr, config.alpha
        self._mean = copy.deepcopy(self.network) if config.average > 1 else None
        self._schedules = {
            "lr": Schedule(config.lr_schedule, *self.feed.span),
            "alpha": Schedule(config.alpha_schedule, *self.feed.span),
        }
        self.descent = Descent(
            self.network.trained(), config.optimizer, config.lr, config.momentum, config.threshold, config.nonfinite
        )

    @property
    def updates(self) -> int:
        """How many were made."""
        return self.descent.updates

    @property
    def since(self) -> Since:
        """What was seen since the last summary."""
        return self.descent.since

    def update(self) -> float:
        """Make one update, and return its loss.

        Raises:
            Diverged: the loss or the gradient is not finite, and no clipper is there to pass over it; or a clipper had
                to for too long.
        """
        self._set_rates()
        loss = self.feed.learn(self.network)
        self.descent.step(loss, LOST)
        self.feed.learned(loss)
        if self.feed.observes_updates:
            self._observe(loss)
        self._average()
        return loss

    def next_epoch(self) -> None:
        """Begin the next pass over the data; schedules know what this one cost."""
        self._observe(self.feed.whole.mean)
        self.feed.next_epoch()

    @property
    def tested(self) -> Network:
        """The network to test: its weights are the mean of those since `average` updates before the next test."""
        return self.network if self._mean is None or self._averaged == 0 else self._mean

    def weights(self) -> dict[str, Tensor]:
        """A copy of all weights that are tested, by name."""
        return {name: tensor.detach().clone() for name, tensor in self.tested.state_dict().items()}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that the next update depends on: tensors by name, and plain values."""
        tensors, values = self.descent.state()
        tensors |= {WEIGHTS + name: tensor.detach() for name, tensor in self.network.state_dict().items()}
        if self._mean is not None:
            tensors |= {MEAN + name: tensor.detach() for name, tensor in self._mean.state_dict().items()}
        more, place = self.feed.state()
        values |= {
            **place,
            "schedules": {name: schedule.state_dict() for name, schedule in self._schedules.items()},
            "rates": [self.lr, self.alpha],
        }
        return {**tensors, **more}, values

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from `state()`, to the very same numbers."""
        for network, start in ((self.network, WEIGHTS), (self._mean, MEAN)):
            if network is not None:
                network.load_state_dict(
                    {name.removeprefix(start): each for name, each in tensors.items() if name.startswith(start)}
                )
        self.descent.load_state(tensors, values)
        self.feed.load_state(tensors, values)
        for name, schedule in self._schedules.items():
            schedule.load_state_dict(values["schedules"][name])
        self.lr, self.alpha = values["rates"]
        self._apply_rates()

    def _observe(self, loss: float) -> None:
        for schedule in self._schedules.values():
            schedule.observe(loss)

    def _set_rates(self) -> None:
        done, length = self.feed.progress(self.updates)
        lr = self.config.lr * self._schedules["lr"].factor(done, length)
        alpha = self.config.alpha * self._schedules["alpha"].factor(done)
        if (lr, alpha) != (self.lr, self.alpha):
            self.lr, self.alpha = lr, alpha
            self._apply_rates()

    def _apply_rates(self) -> None:
        self.descent.lr = self.lr
        self.network.rnn.alpha = self.alpha

    @property
    def _averaged(self) -> int:
        """How many updates the mean is over. It ends at a test, and begins anew as late before each as it can."""
        every = self.config.check_every
        since = (self.updates - 1) % every + 1 if self.updates else 0
        return max(0, since - max(0, every - self.config.average))

    @torch.no_grad()
    def _average(self) -> None:
        if self._mean is None:
            return
        number = self._averaged
        if number > 0:
            for mean, parameter in zip(self._mean.parameters(), self.network.parameters(), strict=True):
                mean.lerp_(parameter, 1 / number)

"""One run's network and all that changes as it learns: what an update does, and what a checkpoint must hold.

T ~ uniform over the lengths of now; a fresh batch of length T
g = ∂E/∂θ + α ∂⁺Ω/∂W_rec                     (Pascanu et al. 2013, eq. 9, 10; the layer adds the second)
g ← min(1, threshold/‖g‖) g                  (Algorithm 1; within optimizer.step())
θ ← θ − lr · g                               or as the optimizer has it
θ̄ = mean of θ over the last updates           before a check: what is tested and kept, where the settings ask for it

Where the rate does not fall, θ goes round about what it looks for and never rests on it; its mean does. A state that has
to be kept for longer than any sequence was long needs that precision.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from .config import RunConfig
from .curriculum import Curriculum
from .descent import LOST as LOST
from .descent import Descent, Since
from .descent import Diverged as Diverged
from .network import Network
from .schedule import Schedule

WEIGHTS, MEAN = "weights.", "mean."
"""What the names of the weights, and of their mean, begin with in a checkpoint."""


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
        self.network.threads = config.threads
        self.task = self.network.task
        self.generator = torch.Generator().manual_seed(config.seed)
        self.lengths = Curriculum(
            config.curriculum, config.length, config.growth, config.patience, config.curriculum_loss
        )
        self.lr, self.alpha = config.lr, config.alpha
        self.polishing: tuple[int, int] | None = None
        self._mean = copy.deepcopy(self.network) if config.average > 1 else None
        self._schedules = {
            "lr": Schedule(config.lr_schedule, config.epoch, config.max_updates),
            "alpha": Schedule(config.alpha_schedule, config.epoch, config.max_updates),
        }
        self._descent = Descent(
            self.network.trained(), config.optimizer, config.lr, config.momentum, config.threshold, config.nonfinite
        )

    @property
    def updates(self) -> int:
        """How many were made."""
        return self._descent.updates

    @property
    def since(self) -> Since:
        """What was seen since the last check."""
        return self._descent.since

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
        self._descent.step(loss, LOST)
        self.lengths.observe(loss)
        for schedule in self._schedules.values():
            schedule.observe(loss)
        self._average()
        return loss

    @property
    def tested(self) -> Network:
        """The network to test: its weights are the mean of those since `average` updates before the next check."""
        return self.network if self._mean is None or self._averaged == 0 else self._mean

    def polish(self, updates: int) -> None:
        """Go on for `updates` at all lengths."""
        self.polishing = (self.updates, updates)
        self.lengths.finish()

    def judge(self) -> None:
        """Whether the run has diverged, as far as one can tell between two checks. Raises `Diverged`."""
        self._descent.judge()

    def summary(self) -> dict[str, float | None]:
        """What was seen since the last check, as means, and begin anew."""
        return self._descent.summary()

    def weights(self) -> dict[str, Tensor]:
        """A copy of all weights that are tested, by name."""
        return {name: tensor.detach().clone() for name, tensor in self.tested.state_dict().items()}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that the next update depends on: tensors by name, and plain values."""
        tensors, values = self._descent.state()
        tensors |= {WEIGHTS + name: tensor.detach() for name, tensor in self.network.state_dict().items()}
        if self._mean is not None:
            tensors |= {MEAN + name: tensor.detach() for name, tensor in self._mean.state_dict().items()}
        tensors["generator"] = self.generator.get_state()
        values |= {
            "curriculum": self.lengths.state_dict(),
            "schedules": {name: schedule.state_dict() for name, schedule in self._schedules.items()},
            "polishing": self.polishing,
            "rates": [self.lr, self.alpha],
        }
        return tensors, values

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from `state()`, to the very same numbers."""
        for network, start in ((self.network, WEIGHTS), (self._mean, MEAN)):
            if network is not None:
                network.load_state_dict(
                    {name.removeprefix(start): each for name, each in tensors.items() if name.startswith(start)}
                )
        self._descent.load_state(tensors, values)
        self.generator.set_state(tensors["generator"])
        self.lengths.load_state_dict(values["curriculum"])
        for name, schedule in self._schedules.items():
            schedule.load_state_dict(values["schedules"][name])
        self.polishing = None if values["polishing"] is None else tuple(values["polishing"])
        self.lr, self.alpha = values["rates"]
        self._apply_rates()

    def _set_rates(self) -> None:
        lr = self.config.lr * self._schedules["lr"].factor(self.updates, self.lengths.now[1])
        alpha = self.config.alpha * self._schedules["alpha"].factor(self.updates)
        if (lr, alpha) != (self.lr, self.alpha):
            self.lr, self.alpha = lr, alpha
            self._apply_rates()

    @property
    def _averaged(self) -> int:
        """How many updates the mean is over. It ends at a check, and begins anew as late before each as it can."""
        every = self.config.check_every
        since = (self.updates - 1) % every + 1 if self.updates else 0
        return max(0, since - max(0, every - self.config.average))

    @torch.no_grad()
    def _average(self) -> None:
        number = self._averaged
        if self._mean is not None and number > 0:
            for mean, parameter in zip(self._mean.parameters(), self.network.parameters(), strict=True):
                mean.lerp_(parameter, 1 / number)

    def _apply_rates(self) -> None:
        self._descent.lr = self.lr
        self.network.rnn.alpha = self.alpha

"""A model in training, chunk by chunk and epoch by epoch: what an update does, and what a checkpoint must hold.

    g = ∂E/∂θ + α ∂⁺Ω/∂W_rec                     of one chunk (Pascanu et al. 2013, eq. 9, 10; the layer adds the second)
    h_0 of a chunk = h_T of the chunk before it  where a row goes on; 0 where it begins

The state and the place within the epoch are part of what is saved: a run can stop after any chunk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

from torch import Tensor

from ..data import Chunk
from ..training.descent import Descent
from ..training.schedule import Schedule
from .config import NaturalConfig
from .corpus import Corpus
from .network import Network

WEIGHTS, STATE = "weights.", "state"


class Tally:
    """Nats and predictions, added up."""

    def __init__(self, nats: float = 0.0, predictions: int = 0) -> None:
        self.nats, self.predictions = nats, predictions

    def add(self, nats: float, predictions: int) -> None:
        self.nats += nats
        self.predictions += predictions

    @property
    def mean(self) -> float:
        """Nats a prediction; NaN where there was none."""
        return self.nats / self.predictions if self.predictions else math.nan

    def state(self) -> list[Any]:
        """As JSON can hold it, a sum that is no longer finite included."""
        return [repr(self.nats), self.predictions]

    @classmethod
    def of(cls, state: list[Any]) -> Tally:
        """The tally of `state()`."""
        return cls(float(state[0]), state[1])


class Learner:
    """A model of music or text in training.

    Args:
        config: the settings of the run.
        corpus: its data.

    Attributes:
        network: what is trained.
        descent: what was seen of its gradients.
        epoch: the one being made, from 1 on.
        tokens: predictions learned from so far, all epochs together.
        lr, alpha: of the last update.
        whole, since: what the predictions of this epoch cost, and those since the last line.
    """

    def __init__(self, config: NaturalConfig, corpus: Corpus) -> None:
        self.config, self.corpus = config, corpus
        self.network = Network(config, corpus.width)
        self.network.threads = config.threads
        self.descent = Descent(
            self.network.trained(), config.optimizer, config.lr, config.momentum, config.threshold, config.nonfinite
        )
        self.epoch, self.tokens = 1, 0
        self.lr, self.alpha = config.lr, config.alpha
        self.whole, self.since = Tally(), Tally()
        self._schedules = {
            "lr": Schedule(config.lr_schedule, 1, config.epochs),
            "alpha": Schedule(config.alpha_schedule, 1, config.epochs),
        }
        self._predictions = corpus.predictions("train")
        self._state: Tensor | None = None
        self._begin(0)

    @property
    def updates(self) -> int:
        """How many were made."""
        return self.descent.updates

    @property
    def at_end_of_epoch(self) -> bool:
        """Whether all chunks of the epoch were learned from."""
        return self._next is None

    def update(self) -> float:
        """Learn from the next chunk, and return its nats a prediction.

        Raises:
            Diverged: see training/descent.py.
        """
        chunk = self._next
        if chunk is None:
            raise RuntimeError("the epoch is over: next_epoch() comes first")
        self._set_rates()
        read = self.network.backward(chunk, self._state)
        loss = read.nats / read.predictions
        self.descent.step(loss)
        # a state that is no longer finite would make every later gradient so
        self._state = read.state if math.isfinite(loss) else None
        self.whole.add(read.nats, read.predictions)
        self.since.add(read.nats, read.predictions)
        self.tokens += read.predictions
        self._place += 1
        self._next = next(self._chunks, None)
        return loss

    def next_epoch(self) -> None:
        """Begin the next epoch, the rates knowing what this one cost."""
        for schedule in self._schedules.values():
            schedule.observe(self.whole.mean)
        self.epoch += 1
        self.whole, self._state = Tally(), None
        self._begin(0)

    def weights(self) -> dict[str, Tensor]:
        """A copy of all weights, by name."""
        return {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that the next update depends on: tensors by name, and plain values."""
        tensors, values = self.descent.state()
        tensors |= {WEIGHTS + name: tensor.detach() for name, tensor in self.network.state_dict().items()}
        if self._state is not None:
            tensors[STATE] = self._state
        values |= {
            "epoch": self.epoch,
            "place": self._place,
            "tokens": self.tokens,
            "whole": self.whole.state(),
            "figure_since": self.since.state(),
            "schedules": {name: schedule.state_dict() for name, schedule in self._schedules.items()},
            "rates": [self.lr, self.alpha],
        }
        return tensors, values

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from `state()`, to the very same numbers."""
        self.network.load_state_dict(
            {name.removeprefix(WEIGHTS): tensor for name, tensor in tensors.items() if name.startswith(WEIGHTS)}
        )
        self.descent.load_state(tensors, values)
        self._state = tensors.get(STATE)
        self.epoch, self.tokens = values["epoch"], values["tokens"]
        self.whole, self.since = Tally.of(values["whole"]), Tally.of(values["figure_since"])
        for name, schedule in self._schedules.items():
            schedule.load_state_dict(values["schedules"][name])
        self.lr, self.alpha = values["rates"]
        self._apply_rates()
        self._begin(values["place"])

    def _begin(self, place: int) -> None:
        """Go to the chunk of this number within the epoch."""
        self._place = place
        self._chunks: Iterator[Chunk] = islice(self.corpus.epoch(self.epoch), place, None)
        self._next: Chunk | None = next(self._chunks, None)

    def _set_rates(self) -> None:
        progress = self.epoch - 1 + self.whole.predictions / self._predictions
        lr = self.config.lr * self._schedules["lr"].factor(progress)
        alpha = self.config.alpha * self._schedules["alpha"].factor(progress)
        if (lr, alpha) != (self.lr, self.alpha):
            self.lr, self.alpha = lr, alpha
            self._apply_rates()

    def _apply_rates(self) -> None:
        self.descent.lr = self.lr
        self.network.rnn.alpha = self.alpha

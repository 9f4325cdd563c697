"""Where the batches of a run come from, and how far it has come.

    Draws    T ~ uniform over the lengths of now; a fresh batch of length T
    Passes   the chunks of a data set, epoch after epoch; h_0 of a chunk = h_T of the chunk before it where a row goes on,
             0 where it begins

The random generator, the hidden state and the place within the epoch are part of a checkpoint: a run can stop after any
update.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .config import Config
from .network import Network
from .schedules import SHORT, Curriculum

if TYPE_CHECKING:
    from ..data import Chunk
    from .datasets import DataSet

GENERATOR, STATE = "generator", "state"
"""Names of tensors in a checkpoint."""


class Draws:
    """Fresh sequences for every update.

    Attributes:
        lengths: the lengths of now.
        span: updates in an epoch, and where schedules end.
    """

    observes_updates = True

    def __init__(self, config: Config, problem: Any) -> None:
        self.config, self.problem = config, problem
        self.span = config.epoch, config.max_updates
        self.generator = torch.Generator().manual_seed(config.seed)
        growing = config.growth, config.curriculum_patience, config.curriculum_loss
        self.lengths = Curriculum(config.curriculum, config.length, *growing)

    def progress(self, updates: int) -> tuple[float, int]:
        """What schedules go by: the updates made, and the longest length of now."""
        return updates, self.lengths.now[1]

    def learn(self, network: Network) -> float:
        """Leave the gradients of the next batch in the network, and return its loss."""
        low, high = self.lengths.now
        generator = self.generator
        T = low if low == high else int(torch.randint(low, high + 1, (), generator=generator))
        return network.backward(self.problem.sample(self.config.batch, T, generator))

    def learned(self, loss: float) -> None:
        """The update is made."""
        self.lengths.observe(loss)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """For a checkpoint."""
        return {GENERATOR: self.generator.get_state()}, {"curriculum": self.lengths.state_dict()}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from `state()`."""
        self.generator.set_state(tensors[GENERATOR])
        self.lengths.load_state_dict(values["curriculum"])


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


class Passes:
    """Passes over a data set, chunk by chunk.

    Attributes:
        epoch: the one being made, from 1 on.
        tokens: predictions learned from so far, all epochs together.
        whole, since: what the predictions of this epoch cost, and those since the last line.
        span: 1 (schedules count in epochs), and the epoch at which they end.
    """

    observes_updates = False

    def __init__(self, config: Config, problem: DataSet) -> None:
        self.problem = problem
        self.span = 1, config.epochs
        self.epoch, self.tokens = 1, 0
        self.whole, self.since = Tally(), Tally()
        self._predictions = problem.predictions("train")
        self._state: Tensor | None = None
        self._begin(0)

    @property
    def at_end_of_epoch(self) -> bool:
        """Whether all chunks of the epoch were learned from."""
        return self._next is None

    def progress(self, updates: int) -> tuple[float, int]:
        """What schedules go by: epochs, those in part as fractions."""
        return self.epoch - 1 + self.whole.predictions / self._predictions, SHORT

    def learn(self, network: Network) -> float:
        """Leave the gradients of the next chunk in the network, and return its nats a prediction."""
        chunk = self._next
        if chunk is None:
            raise RuntimeError("the epoch is over: next_epoch() comes first")
        self._read = read = network.backward_chunk(chunk, self._state)
        return read.nats / read.predictions

    def learned(self, loss: float) -> None:
        """The update is made: carry the state on to the next chunk."""
        read = self._read
        # a state that is no longer finite would make every later gradient so
        self._state = read.state if math.isfinite(loss) else None
        self.whole.add(read.nats, read.predictions)
        self.since.add(read.nats, read.predictions)
        self.tokens += read.predictions
        self._place += 1
        self._next = next(self._chunks, None)

    def next_epoch(self) -> None:
        """Begin the next pass."""
        self.epoch += 1
        self.whole, self._state = Tally(), None
        self._begin(0)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """For a checkpoint."""
        values = {
            "epoch": self.epoch,
            "place": self._place,
            "tokens": self.tokens,
            "whole": self.whole.state(),
            "figure_since": self.since.state(),
        }
        return {} if self._state is None else {STATE: self._state}, values

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from `state()`."""
        self._state = tensors.get(STATE)
        self.epoch, self.tokens = values["epoch"], values["tokens"]
        self.whole, self.since = Tally.of(values["whole"]), Tally.of(values["figure_since"])
        self._begin(values["place"])

    def _begin(self, place: int) -> None:
        """Go to the chunk of this number within the epoch."""
        self._place = place
        self._chunks: Iterator[Chunk] = islice(self.problem.epoch(self.epoch), place, None)
        self._next: Chunk | None = next(self._chunks, None)

"""A network in training: where its batches come from, what an update does, and what a checkpoint must hold.

    Draws    T ~ uniform over the current lengths; a fresh batch of length T
    Passes   the chunks of a data set, epoch after epoch; h_0 of a chunk = h_T of the chunk before it where a row goes on,
             0 where it begins

    g = ∂E/∂θ + α ∂⁺Ω/∂W_rec                     (Pascanu et al. 2013, eq. 9, 10; the layer adds the second)
    θ ← θ − lr · g                               or what else makes an update (methods.py)
    θ̄ = mean of θ over the last updates           before a test: what is tested and kept, where the settings ask for it

Where the rate does not fall, θ moves around the minimum; its mean is closer. A state that has to be kept for longer than any
sequence was long needs that precision.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..reproducible import stream
from ..schedules import AGAIN, DONE, GROWN, HOLD, LOST, SETTLE, SETTLE_UPDATES, SHORT, Curriculum, Latch, Schedule
from ..storage import State, starting_with
from . import problem as problems
from .config import DRAWN, Config
from .methods import method
from .network import Network, Tally

if TYPE_CHECKING:
    from ..data import Chunk
    from ..data.datasets import DataSet
    from ..tasks import Batch

WEIGHTS, MEAN, KEPT, BEFORE = "weights.", "mean.", "kept.", "before."
"""What the names of tensors begin with in a checkpoint."""
STAGES = {
    HOLD: "sequences of up to {} steps are learned; trains on without Ω until the memory lasts",
    SETTLE: f"the memory lasts; the rate falls to 0 over {SETTLE_UPDATES:,} updates",
    AGAIN: "the memory does not last yet: Ω again, from the weights it was left at",
}
"""What is told when a stage of `Latch` begins."""


class Draws:
    """Fresh sequences for every update. `span`: updates in an epoch, and where schedules end."""

    observes_updates = True

    def __init__(self, config: Config, problem: Any) -> None:
        self.config, self.problem = config, problem
        self.span = config.epoch, config.max_updates
        self.generator = torch.Generator().manual_seed(config.seed)
        growing = config.growth, config.curriculum_patience, config.curriculum_loss, config.curriculum_lost
        self.lengths = Curriculum(config.curriculum, config.length, *growing, config.growth_steps)

    def progress(self, updates: int) -> tuple[float, int]:
        """What schedules depend on: the updates made, and the longest current length."""
        return updates, self.lengths.now[1]

    @property
    def rate(self) -> float:
        """A factor of the learning rate beside the schedule's."""
        return self.lengths.rate

    def learn(self, network: Network) -> float:
        """Leave the gradients of the next batch in the network, and return its loss."""
        return network.backward(self.draw(), self.generator)

    def draw(self) -> Batch:
        low, high = self.lengths.now
        T = low if low == high else int(torch.randint(low, high + 1, (), generator=self.generator))
        return self.problem.sample(self.config.batch, T, self.generator)

    def learned(self, loss: float) -> str | None:
        return self.lengths.observe(loss)

    def state(self) -> State:
        return {"generator": self.generator.get_state(), "curriculum": self.lengths.state_dict()}

    def load_state(self, state: State) -> None:
        self.generator.set_state(state["generator"])
        self.lengths.load_state_dict(state["curriculum"])


class Passes:
    """Passes over a data set, chunk by chunk; schedules count in epochs, from 1 on (`span`).

    `tokens` were learned from so far in all epochs; `whole` and `since` are the cost of this epoch's predictions, and of those
    since the last line of metrics.
    """

    observes_updates = False
    rate = 1.0

    def __init__(self, config: Config, problem: DataSet) -> None:
        self.problem = problem
        self.generator = stream(config.seed, "dropout")
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
        return self.epoch - 1 + self.whole.predictions / self._predictions, SHORT

    def learn(self, network: Network) -> float:
        if self._next is None:
            raise RuntimeError("the epoch is over: next_epoch() comes first")
        self._read = read = network.backward_chunk(self._next, self._state, self.generator)
        return read.nats / read.predictions

    def learned(self, loss: float) -> None:
        """The update is made: carry the state on to the next chunk."""
        read = self._read
        # a state that is no longer finite would make every later gradient so
        self._state = read.state if math.isfinite(loss) else None
        self.whole.add(read)
        self.since.add(read)
        self.tokens += read.predictions
        self._place += 1
        self._next = next(self._chunks, None)

    def next_epoch(self) -> None:
        """Begin the next pass."""
        self.epoch += 1
        self.whole, self._state = Tally(), None
        self._begin(0)

    def state(self) -> State:
        carried = {"generator": self.generator.get_state()} | ({} if self._state is None else {"state": self._state})
        costs = {"whole": self.whole.state(), "figure_since": self.since.state()}
        return {**carried, "epoch": self.epoch, "place": self._place, "tokens": self.tokens, **costs}

    def load_state(self, state: State) -> None:
        self._state, self.epoch, self.tokens = state.get("state"), state["epoch"], state["tokens"]
        if "generator" in state:  # not in version 0.1.0
            self.generator.set_state(state["generator"])
        self.whole, self.since = Tally(*state["whole"]), Tally(*state["figure_since"])
        self._begin(state["place"])

    def _begin(self, place: int) -> None:
        """Go to the chunk of this number within the epoch."""
        self._place = place
        self._chunks: Iterator[Chunk] = islice(self.problem.epoch(self.epoch), place, None)
        self._next: Chunk | None = next(self._chunks, None)


class Learner:
    """A network in training.

    `feed` is where its batches come from (`Draws` or `Passes`), and how far it has come; `method` what makes an update, and
    what was seen of the gradients; `lr` and `alpha` those of the last update.

        >>> learner = Learner(Config("temporal-order", "sgd-cr", (10, 12), threshold=1.0, alpha=2.0))
        >>> losses = [learner.update() for _ in range(3)]
        >>> learner.updates, learner.method.since.loss == sum(losses)
        (3, True)
    """

    def __init__(self, config: Config, problem: Any = None) -> None:
        self.config = config
        self.problem = problems.build(config) if problem is None else problem
        self.network = Network(config, self.problem)
        self.network.threads = config.threads
        self.feed: Any = (Draws if config.form == DRAWN else Passes)(config, self.problem)
        self.lr, self.alpha = config.lr, config.alpha
        others = {MEAN: config.average > 1, KEPT: config.curriculum_lost is not None, BEFORE: config.latch is not None}
        copies = {start: copy.deepcopy(self.network) for start, is_needed in others.items() if is_needed}
        self._networks = {WEIGHTS: self.network, **copies}
        if config.teacher_forcing is not None:  # whose state is in checkpoints
            self.network.rnn.generator = self.feed.generator
        named = {"lr": config.lr_schedule, "alpha": config.alpha_schedule}
        self._schedules = {value: Schedule(name, *self.feed.span) for value, name in named.items()}
        self.method = method(self.network)
        self.latch: Latch | None = None
        if config.latch is not None:
            self.latch = Latch(self.feed.lengths, config.latch)

    @property
    def updates(self) -> int:
        return self.method.updates

    def update(self) -> float:
        """Make one update, and return its loss. Raises `Diverged` as `Descent.learn` does."""
        self._set_rates()
        loss = self.method.learn(self.feed)
        event, kept = self.feed.learned(loss), self._networks.get(KEPT)
        if event == GROWN and kept is not None:
            kept.load_state_dict(self.network.state_dict())
        elif event == LOST and kept is not None:
            self.network.load_state_dict(kept.state_dict())
            self.method.forget()
        if self.feed.observes_updates:
            self._observe(loss)
        self._average()
        return loss

    def next_epoch(self) -> None:
        """Begin the next pass over the data; schedules observe the mean cost of this one."""
        self._observe(self.feed.whole.mean)
        self.feed.next_epoch()

    @property
    def tested(self) -> Network:
        """The network to test: its weights are the mean of those since `average` updates before the next test."""
        self.method.settle()
        return self._networks.get(MEAN, self.network) if self._averaged else self.network

    def weights(self) -> dict[str, Tensor]:
        """A copy of all weights that are tested, by name."""
        return {name: tensor.detach().clone() for name, tensor in self.tested.state_dict().items()}

    def state(self) -> State:
        """All that the next update depends on."""
        state = self.method.state()
        for start, network in self._networks.items():
            state |= {start + name: tensor.detach() for name, tensor in network.state_dict().items()}
        schedules = {name: schedule.state_dict() for name, schedule in self._schedules.items()}
        state |= {"schedules": schedules, "rates": [self.lr, self.alpha]}
        state |= {} if self.latch is None else {"latch": self.latch.state_dict()}
        return {**state, **self.feed.state()}

    def load_state(self, state: State) -> None:
        """Go on from `state()`, to the very same numbers."""
        for start, network in self._networks.items():
            network.load_state_dict(starting_with(start, state))
        self.method.load_state(state)
        if self.latch is not None:  # whose stage decides where lengths grow to
            self.latch.load_state_dict(state["latch"])
            self._enter_stage(self.latch)
        self.feed.load_state(state)
        for name, schedule in self._schedules.items():
            schedule.load_state_dict(state["schedules"][name])
        self.lr, self.alpha = state["rates"]
        self._apply_rates()

    def next_stage(self, wrong: Sequence[float], loss: float | None, is_solved: bool) -> str | None:
        """Go on to the next stage of `latch` if it is time (see there), and return what to tell the user of it."""
        if self.latch is None or (stage := self.latch.check(self.updates, wrong, loss, is_solved)) is None:
            return None
        if stage in (HOLD, SETTLE):
            weights = self.weights()
            for start in (WEIGHTS, KEPT, *((BEFORE,) if stage == HOLD else ())):
                if start in self._networks:
                    self._networks[start].load_state_dict(weights)
        elif stage == AGAIN:
            self.network.load_state_dict(self._networks[BEFORE].state_dict())
        if stage != DONE:
            self.method.forget()
        self._enter_stage(self.latch)
        return STAGES.get(stage, "").format(self.latch.left_at[1]) or None

    def _enter_stage(self, latch: Latch) -> None:
        self.feed.lengths = latch.curriculum
        if self.network.noisy is not None:
            self.network.noisy.scale(self.config.noise * latch.noise)

    def _observe(self, loss: float) -> None:
        for schedule in self._schedules.values():
            schedule.observe(loss)

    def _set_rates(self) -> None:
        done, length = self.feed.progress(self.updates)
        lr = self.config.lr * self._schedules["lr"].factor(done, length) * self.feed.rate
        alpha = self.config.alpha * self._schedules["alpha"].factor(done)
        if self.latch is not None:
            lr, alpha = lr * self.latch.rate(self.updates), alpha * self.latch.alpha
        if (lr, alpha) != (self.lr, self.alpha):
            self.lr, self.alpha = lr, alpha
            self._apply_rates()

    def _apply_rates(self) -> None:
        self.method.set_rate(self.lr)
        self.network.rnn.alpha = self.alpha

    @property
    def _averaged(self) -> int:
        """How many updates the mean is over. It ends at a test, and begins anew as late before each as it can."""
        every = self.config.check_every
        since = (self.updates - 1) % every + 1 if self.updates else 0
        return max(0, since - max(0, every - self.config.average))

    @torch.no_grad()
    def _average(self) -> None:
        if MEAN in self._networks and (number := self._averaged) > 0:
            for mean, parameter in zip(self._networks[MEAN].parameters(), self.network.parameters(), strict=True):
                mean.lerp_(parameter, 1 / number)

"""How well a network does: the share of fresh sequences it answers wrong, or its score on a part of a data set.

    error = wrong / sequences        solved: error ≤ 1 % of 10,000                          (Pascanu et al. 2013, supplement)
    music   Σ over all steps of all pieces of −Σ over notes of log p, divided by the number of steps       (nats/step)
    text    Σ over all characters of −log₂ p, divided by their number                                   (bits/character)

The lengths of a range are visited evenly, shortest to longest, one length a batch. For regression both readings of
"the error is less than 0.04" are counted: the absolute error, and the squared error of the authors' program. Pieces are read
whole, a text as one stream; the state is carried all the way.

While a network is trained, a test begins with few sequences and goes on to all of them only if success is likely. Its
sequences come from a stream that only the seed and the number of updates decide. A network that has solved its lengths may
keep what it saw for 200 steps and no longer: while it is polished, the best weights are those of the solved ones that err
least at twice the longest length.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from ..checks import one_of, whole
from ..reproducible import stream, threads
from ..storage import finite
from ..tasks.task import Regression
from . import files
from . import problem as problems
from .config import DRAWN, SPLITS, Config
from .network import Network, Tally

SMALL_BATCH, LARGE_BATCH = 100, 500
STATES = 2**24  # at most so many numbers [T, B, H] are held at once: 64 MB in float32
PROMISE, AT_LEAST = 5.0, 0.01
"""All sequences are tested if the first are wrong in at most 5 times the share allowed, or 1 %, whichever is more."""


@dataclass(frozen=True)
class Score:
    """How a test on fresh sequences came out."""

    error: float  # the share answered wrong, by the problem's own criterion
    errors: dict[str, float]  # by every criterion: 'wrong', or for regression 'absolute' and 'squared'
    loss: float
    sequences: int


def score(network: Network, length: tuple[int, int], sequences: int, generator: torch.Generator) -> Score:
    """Test a network, which is not changed, on fresh sequences of length (low, high), both included."""
    problem = network.problem
    criteria, own = {"wrong": problem}, "wrong"
    if isinstance(problem, Regression):
        criteria, own = {name: replace(problem, criterion=name) for name in ("absolute", "squared")}, problem.criterion
    wrong, loss = dict.fromkeys(criteria, 0), 0.0
    with torch.inference_mode():
        for T, count in _portions(network, length, sequences):
            batch = problem.sample(count, T, generator)
            outputs = network.answers(batch)
            loss += float(problem.loss(outputs, batch)) * count
            for name, each in criteria.items():
                wrong[name] += count - int(each.is_correct(outputs, batch).sum())
    errors = {name: each / sequences for name, each in wrong.items()}
    return Score(errors[own], errors, loss / sequences, sequences)


def figure(network: Network, problem: Any, split: str, pulse: Callable[[], None] | None = None) -> float:
    """The score of a network on a part of a data set, in its unit. `pulse` is called after every chunk."""
    total, state = Tally(), None
    for chunk in problem.whole(split):
        read = network.read(chunk, state)
        state = read.state
        total.add(read)
        if pulse is not None:
            pulse()
    return total.mean * problem.per_nat


@dataclass(frozen=True)
class Best:
    """The weights of the best test so far, and what it found; `beyond`: the error at twice the longest length."""

    updates: int
    score: Score
    weights: dict[str, Tensor]
    beyond: float = 0.0

    @property
    def rank(self) -> tuple[float, float, float]:
        """Fewer wrong is better, beyond the longest length first; of equals, the smaller loss."""
        loss = self.score.loss
        return self.beyond, self.score.error, loss if math.isfinite(loss) else math.inf


class Success:
    """Tests a network as it learns, and keeps the best weights and when (`updates`, `seconds`) it first succeeded."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.best: Best | None = None
        self.updates: int | None = None
        self.seconds: float | None = None

    @property
    def solved(self) -> bool:
        return self.updates is not None

    def test(self, network: Network, updates: int, all_of_them: bool = False) -> Score:
        """Test on a few fresh sequences, and then on all of them if success is likely (or they are asked for)."""
        config = self.config
        if config.check_sequences < config.test_sequences and not all_of_them:
            few = score(network, config.length, config.check_sequences, stream(config.seed, "few", updates))
            if few.error > max(PROMISE * config.success, AT_LEAST):
                return few
        return score(network, config.length, config.test_sequences, stream(config.seed, "test", updates))

    def test_beyond(self, network: Network, found: Score, updates: int) -> float | None:
        """The error at twice the longest length, for a network to be polished; None where it has not solved its own."""
        config = self.config
        if config.after_success != "polish" or not self._solves(found):
            return None
        length = 2 * config.length[1], 2 * config.length[1]
        return score(network, length, config.check_sequences, stream(config.seed, "beyond", updates)).error

    def consider(
        self, found: Score, updates: int, seconds: float, weights: dict[str, Tensor], beyond: float | None = None
    ) -> bool:
        """Keep the weights if none before were better, and return whether this is the first success."""
        candidate, solves = Best(updates, found, weights, beyond or 0.0), self._solves(found)
        first = solves and not self.solved
        if first:
            self.updates, self.seconds = updates, seconds
        # once solved, only what solves it too can be better
        if first or self.best is None or (candidate.rank < self.best.rank and (solves or not self.solved)):
            self.best = candidate
        return first

    def is_whole(self, found: Score) -> bool:
        """Whether all sequences were tested: a test of a few can look better by chance."""
        return found.sequences == self.config.test_sequences

    def _solves(self, found: Score) -> bool:
        return self.is_whole(found) and found.error <= self.config.success

    def state(self) -> dict[str, Any]:
        """All but the best weights, as plain values."""
        best = None
        if self.best is not None:
            found = {name: finite(value) for name, value in vars(self.best.score).items()}
            best = {"updates": self.best.updates, "beyond": self.best.beyond, **found}
        return {"updates": self.updates, "seconds": self.seconds, "best": best}

    def load_state(self, weights: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from `state()`."""
        self.updates, self.seconds = values["updates"], values["seconds"]
        if (best := values["best"]) is not None:
            loss = math.inf if best["loss"] is None else best["loss"]
            found = Score(best["error"], best["errors"], loss, best["sequences"])
            self.best = Best(best["updates"], found, weights, best["beyond"])


@dataclass(frozen=True)
class Trained:
    """A network with the best weights of a run (`model.rnn`, `model.readout`), and the characters of a model of text."""

    config: Config
    model: Network
    symbols: list[str] | None = None


def load(directory: str | Path) -> Trained:
    """The network of the run in `directory` with its best weights, without its data."""
    config, symbols, sizes = files.read_config(directory), None, None
    if config.form != DRAWN:
        about = files.read_about(Path(directory))
        symbols, width = about["symbols"], about["width"]
        inputs, outputs = width if isinstance(width, list) else (width, width)
        cost = about.get("cost", "keys" if symbols is None else "classes")
        sizes = SimpleNamespace(input_size=inputs, output_size=outputs, cost=cost)
    model = Network(config, sizes)
    files.read_weights(model, directory)
    return Trained(config, model, symbols)


def evaluate(
    source: str | Path | Network,
    length: int | tuple[int, int] | None = None,
    sequences: int = 10_000,
    seed: int = 0,
    *,
    split: str = "test",
    path: str | Path | None = None,
    layer_threads: int = 1,
) -> dict[str, Any]:
    """Test a trained network: on fresh sequences of a length or a range of lengths, or on a part of its data set.

    Args:
        source: a run's directory, whose best weights are taken, or a `Network` (of a drawn problem).
        length: T, or (low, high) with both ends included; the run's own if None.
        sequences, seed: how many fresh sequences, never those of the training, whatever its seed was.
        split: of a data set: 'train', 'valid' or 'test'.
        path: where the run's own data are now, if they were moved; their checksum must be the run's.
        layer_threads: of the recurrent layer; the result does not depend on them.

    Returns `length` [low, high], `sequences`, `seed`, `error`, `errors` by criterion, and `loss`; of a data set `split`,
    `score` and its `unit` (negative log-likelihood: lower is better).

    Example:
        >>> evaluate(Network(Config("addition", "sgd")), 20, sequences=200)["errors"]["absolute"] > 0.5
        True

    Reference: Pascanu, Mikolov & Bengio 2013, tables 1 and 2; supplement, "The pathological synthetic tasks".
    """
    whole("threads", layer_threads)
    network = source if isinstance(source, Network) else load(source).model
    network.threads = layer_threads
    config = network.config
    if config.form != DRAWN:
        one_of("split", split, SPLITS)
        if length is not None:
            raise ValueError(f"length must be left out with {config.problem!r}, which has a data set, not {length!r}")
        folder = None if isinstance(source, Network) else Path(source)
        problem = problems.build(files.with_data(config, path, folder))
        if folder is not None:
            files.verify_data(folder, problem)
        with threads(1):
            return {"split": split, "score": figure(network, problem, split), "unit": problem.unit}
    length = config.length if length is None else length
    low, high = (length, length) if isinstance(length, int) else length
    shortest = getattr(network.problem, "minimum_length", 1)
    whole(f"length of {problems.title(config.problem)}", low, low=shortest)
    whole("the longest length", high, low=low)
    whole("sequences", sequences)
    whole("seed", seed, low=0)
    with threads(1):
        found = score(network, (low, high), sequences, stream(seed, "evaluate", low, high))
    about = {"length": [low, high], "sequences": sequences, "seed": seed}
    return {**about, "error": found.error, "errors": found.errors, "loss": finite(found.loss)}


def _portions(network: Network, length: tuple[int, int], sequences: int) -> list[tuple[int, int]]:
    """Lengths and how many sequences of each: even over the range, in batches that fit."""
    low, high = length
    steps = network.problem.total_steps(high) if hasattr(network.problem, "total_steps") else high
    largest = max(1, min(LARGE_BATCH, STATES // (steps * (network.config.hidden or 1))))
    visits = max(math.ceil(sequences / largest), min(high - low + 1, math.ceil(sequences / SMALL_BATCH)))
    ends = [sequences * visit // visits for visit in range(visits + 1)]
    across = max(1, visits - 1)
    return [(low + round((high - low) * visit / across), ends[visit + 1] - ends[visit]) for visit in range(visits)]

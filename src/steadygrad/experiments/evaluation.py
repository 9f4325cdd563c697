"""How well a network does: the share of fresh sequences it answers wrong, or its score on a part of a data set; and what its
gradients do.

    error = wrong / sequences        solved: error ≤ 1 % of 10,000                          (Pascanu et al. 2013, supplement)
    music   Σ over all steps of all pieces of −Σ over notes of log p, divided by the number of steps       (nats/step)
    text    Σ over all characters of −log₂ p, divided by their number                                   (bits/character)

The lengths of a range are visited evenly, shortest to longest, one length a batch. For regression both readings of
"the error is less than 0.04" are counted: the absolute error, and the squared error of the authors' program. Pieces are read
whole, a text as one stream; the state is carried all the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from ..checks import one_of, whole
from ..reproducible import stream, threads
from ..snapshots import Snapshot, snapshot
from ..storage import finite
from ..tasks.task import Regression
from . import files
from . import problem as problems
from .config import DRAWN, SPLITS, Config
from .network import Network, Tally

SMALL_BATCH, LARGE_BATCH = 100, 500
STATES = 2**24  # at most so many numbers [T, B, H] are held at once: 64 MB in float32


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


def look(network: Network, length: int, generator: torch.Generator) -> Snapshot:
    """Measure the gradients of a network on one batch of sequences of `length`, drawn for this alone; none is kept."""
    batch = network.problem.sample(network.config.batch, length, generator)
    parameters = [parameter for _, parameter in network.trained()]

    def errors() -> None:
        torch.autograd.grad(network.problem.loss(network.taught(batch), batch), parameters)

    def of_last() -> None:
        y = network.taught(batch)
        (error,) = torch.autograd.grad(network.problem.loss(y, batch), y, retain_graph=True)
        error[:-1] = 0
        torch.autograd.grad(y, parameters, error)

    counted = batch.steps.stop - batch.steps.start
    return snapshot(network.rnn, errors, None if counted == 1 else of_last)


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
        sequences, seed: how many fresh sequences and their seed; never those of the training, also with the same seed.
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
    return {"length": [low, high], "sequences": sequences, "seed": seed, **asdict(found), "loss": finite(found.loss)}


def _portions(network: Network, length: tuple[int, int], sequences: int) -> list[tuple[int, int]]:
    """Lengths and how many sequences of each: even over the range, in batches that fit."""
    low, high = length
    steps = network.problem.total_steps(high) if hasattr(network.problem, "total_steps") else high
    largest = max(1, min(LARGE_BATCH, STATES // (steps * (network.config.hidden or 1))))
    visits = max(math.ceil(sequences / largest), min(high - low + 1, math.ceil(sequences / SMALL_BATCH)))
    ends = [sequences * visit // visits for visit in range(visits + 1)]
    across = max(1, visits - 1)
    return [(low + round((high - low) * visit / across), ends[visit + 1] - ends[visit]) for visit in range(visits)]

"""How well a network does: the share of fresh sequences it answers wrong, or its score on a part of a data set.

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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..checks import one_of, whole
from ..tasks.task import Regression
from . import problem as problems
from .config import DRAWN
from .network import Network, stream, threads
from .saved import SPLITS

SMALL_BATCH, LARGE_BATCH = 100, 500
STATES = 2**24
"""At most so many numbers [T, B, H] are held at once: 64 MB in float32."""


@dataclass(frozen=True)
class Score:
    """The outcome of a test on fresh sequences.

    Attributes:
        error: the share of sequences answered wrong, by the problem's own criterion.
        errors: the share by every criterion: 'wrong', or 'absolute' and 'squared' for regression.
        loss: the mean loss.
        sequences: how many were tested.
    """

    error: float
    errors: dict[str, float]
    loss: float
    sequences: int


def score(network: Network, length: tuple[int, int], sequences: int, generator: torch.Generator) -> Score:
    """Test a network on fresh sequences.

    Args:
        network: what is tested; it is not changed.
        length: (low, high), both included.
        sequences: how many.
        generator: the source of the sequences.
    """
    problem = network.problem
    judges = _judges(problem)
    wrong = dict.fromkeys(judges, 0)
    loss = 0.0
    with torch.inference_mode():
        for T, count in _portions(network, length, sequences):
            batch = problem.sample(count, T, generator)
            outputs = network.answers(batch)
            loss += float(problem.loss(outputs, batch)) * count
            for criterion, judge in judges.items():
                wrong[criterion] += count - int(judge.is_correct(outputs, batch).sum())
    errors = {criterion: each / sequences for criterion, each in wrong.items()}
    own = problem.criterion if isinstance(problem, Regression) else "wrong"
    return Score(errors[own], errors, loss / sequences, sequences)


def figure(network: Network, problem: Any, split: str, pulse: Callable[[], None] | None = None) -> float:
    """The score of a network on a part of a data set, in the data set's unit.

    Args:
        network: what is tested; it is not changed.
        problem: the data set.
        split: 'train', 'valid' or 'test'.
        pulse: called after every chunk; what it raises ends the test.
    """
    nats, predictions = 0.0, 0
    state: Tensor | None = None
    for chunk in problem.whole(split):
        read = network.read(chunk, state)
        state = read.state
        nats += read.nats
        predictions += read.predictions
        if pulse is not None:
            pulse()
    return (nats / predictions if predictions else math.nan) * problem.per_nat


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
        sequences: how many fresh sequences.
        seed: of these sequences; they are never those of the training, whatever its seed was.
        split: of a data set: 'train', 'valid' or 'test'.
        path: where the run's own data are now, if they were moved; their checksum must be the run's.
        layer_threads: of the recurrent layer; the result does not depend on them.

    Returns:
        A dict of `length` [low, high], `sequences`, `seed`, `error`, `errors` by criterion, and `loss`; of a data set
        `split`, `score` and its `unit` (negative log-likelihood: lower is better).

    Example:
        >>> from steadygrad.experiments import Config, Network, evaluate
        >>> evaluate(Network(Config("addition", "sgd")), 20, sequences=200)["errors"]["absolute"] > 0.5
        True

    Reference: Pascanu, Mikolov & Bengio 2013, tables 1 and 2; supplement, "The pathological synthetic tasks".
    """
    from .trained import load, verify_data

    whole("threads", layer_threads)
    network = source if isinstance(source, Network) else load(source).model
    network.threads = layer_threads
    if network.config.form != DRAWN:
        one_of("split", split, SPLITS)
        if length is not None:
            raise ValueError(
                f"length must be left out with {network.config.problem!r}, which has a data set, not {length!r}"
            )
        config = network.config if path is None else network.config.changed(path=path)
        problem = problems.build(config)
        if not isinstance(source, Network):
            verify_data(Path(source), problem)
        with threads(1):
            return {"split": split, "score": figure(network, problem, split), "unit": problem.unit}
    length = network.config.length if length is None else length
    low, high = (length, length) if isinstance(length, int) else length
    shortest = getattr(network.problem, "minimum_length", 1)
    whole(f"length of {problems.title(network.config.problem)}", low, low=shortest)
    whole("the longest length", high, low=low)
    whole("sequences", sequences)
    whole("seed", seed, low=0)
    with threads(1):
        found = score(network, (low, high), sequences, stream(seed, "evaluate", low, high))
    loss = found.loss if math.isfinite(found.loss) else None
    about = {"length": [low, high], "sequences": sequences, "seed": seed}
    return {**about, "error": found.error, "errors": found.errors, "loss": loss}


def _judges(problem: Any) -> dict[str, Any]:
    if isinstance(problem, Regression):
        return {name: replace(problem, criterion=name) for name in ("absolute", "squared")}
    return {"wrong": problem}


def _portions(network: Network, length: tuple[int, int], sequences: int) -> list[tuple[int, int]]:
    """Lengths and how many sequences of each: even over the range, in batches that fit."""
    low, high = length
    total = getattr(network.problem, "total_steps", None)
    steps = total(high) if total is not None else high
    largest = max(1, min(LARGE_BATCH, STATES // (steps * (network.config.hidden or 1))))
    visits = max(math.ceil(sequences / largest), min(high - low + 1, math.ceil(sequences / SMALL_BATCH)))
    ends = [sequences * visit // visits for visit in range(visits + 1)]
    across = max(1, visits - 1)
    return [(low + round((high - low) * visit / across), ends[visit + 1] - ends[visit]) for visit in range(visits)]

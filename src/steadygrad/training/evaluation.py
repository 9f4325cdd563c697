"""How many of fresh sequences are answered wrong.

    error = wrong / sequences        solved: error ≤ 1 % of 10,000        (Pascanu et al. 2013, supplement)

The lengths of a range are visited evenly, shortest to longest, one length a batch. For regression both readings of
"the error is less than 0.04" are counted: the absolute error, and the squared error of the authors' program.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..checks import whole
from ..tasks import Task
from ..tasks.task import Regression
from .files import load
from .network import Network, stream
from .threads import threads

SMALL_BATCH, LARGE_BATCH = 100, 500
STATES = 2**24
"""At most so many numbers [T, B, H] are held at once: 64 MB in float32."""


@dataclass(frozen=True)
class Score:
    """The outcome of a test.

    Attributes:
        error: the share of sequences answered wrong, by the task's own criterion.
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
    judges = _judges(network.task)
    wrong = dict.fromkeys(judges, 0)
    loss = 0.0
    with torch.inference_mode():
        for T, count in _portions(network, length, sequences):
            batch = network.task.sample(count, T, generator)
            outputs = network(batch)
            loss += float(network.task.loss(outputs, batch)) * count
            for criterion, judge in judges.items():
                wrong[criterion] += count - int(judge.is_correct(outputs, batch).sum())
    errors = {criterion: each / sequences for criterion, each in wrong.items()}
    own = network.task.criterion if isinstance(network.task, Regression) else "wrong"
    return Score(errors[own], errors, loss / sequences, sequences)


def evaluate(
    source: str | Path | Network,
    length: int | tuple[int, int],
    sequences: int = 10_000,
    seed: int = 0,
    layer_threads: int = 1,
) -> dict[str, Any]:
    """The error of a trained network at a length, or over a range of lengths.

    Args:
        source: a run's directory, whose best weights are taken, or a `Network`.
        length: T, or (low, high) with both ends included.
        sequences: how many fresh sequences.
        seed: of these sequences; they are never those of the training, whatever its seed was.
        layer_threads: of the recurrent layer; the result does not depend on them.

    Returns:
        A dict of `length` [low, high], `sequences`, `seed`, `error`, `errors` by criterion, and `loss`.

    Example:
        >>> from steadygrad.training import Network, RunConfig, evaluate
        >>> evaluate(Network(RunConfig("addition", "sgd")), 20, sequences=200)["errors"]["absolute"] > 0.5
        True

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "The pathological synthetic tasks".
    """
    network = source if isinstance(source, Network) else load(source)
    low, high = (length, length) if isinstance(length, int) else length
    whole(f"length of {network.task.name}", low, low=network.task.minimum_length)
    whole("the longest length", high, low=low)
    whole("sequences", sequences)
    whole("seed", seed, low=0)
    network.threads = whole("threads", layer_threads)
    with threads(1):
        found = score(network, (low, high), sequences, stream(seed, "evaluate", low, high))
    return {
        "length": [low, high],
        "sequences": sequences,
        "seed": seed,
        "error": found.error,
        "errors": found.errors,
        "loss": found.loss if math.isfinite(found.loss) else None,
    }


def _judges(task: Task) -> dict[str, Task]:
    if isinstance(task, Regression):
        return {"absolute": replace(task, criterion="absolute"), "squared": replace(task, criterion="squared")}
    return {"wrong": task}


def _portions(network: Network, length: tuple[int, int], sequences: int) -> list[tuple[int, int]]:
    """Lengths and how many sequences of each: even over the range, in batches that fit."""
    low, high = length
    steps, hidden = network.task.total_steps(high), network.rnn.hidden_size
    largest = max(1, min(LARGE_BATCH, STATES // (steps * hidden)))
    visits = max(math.ceil(sequences / largest), min(high - low + 1, math.ceil(sequences / SMALL_BATCH)))
    ends = [sequences * visit // visits for visit in range(visits + 1)]
    across = max(1, visits - 1)
    return [(low + round((high - low) * visit / across), ends[visit + 1] - ends[visit]) for visit in range(visits)]

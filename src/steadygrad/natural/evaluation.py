"""How well a model predicts a part of the data.

    music   Σ over all steps of all pieces of −Σ over notes of log p, divided by the number of steps       (nats/step)
    text    Σ over all characters of −log₂ p, divided by their number                                   (bits/character)

Pieces are read whole, a text as one stream; the state is carried all the way. (Pascanu et al. 2013, tables 1 and 2)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from ..checks import one_of, whole
from ..training.threads import threads
from .corpus import SPLITS, Corpus, open_corpus
from .learner import Tally
from .network import Network
from .saved import load, verify_data


def figure(network: Network, corpus: Corpus, split: str, pulse: Callable[[], None] | None = None) -> float:
    """The figure of merit of a network on a part of the data.

    Args:
        network: what is tested; it is not changed.
        corpus: the data.
        split: 'train', 'valid' or 'test'.
        pulse: called after every chunk; what it raises ends the test.

    Returns:
        Nats a step for music, bits a character for text.
    """
    tally, state = Tally(), None
    for chunk in corpus.whole(split):
        read = network.read(chunk, state)
        state: Tensor | None = read.state
        tally.add(read.nats, read.predictions)
        if pulse is not None:
            pulse()
    return tally.mean * corpus.per_nat


def evaluate(directory: str | Path, split: str = "test", layer_threads: int = 1) -> float:
    """The figure of merit of a run's best weights.

    Args:
        directory: the run's folder.
        split: 'train', 'valid' or 'test'.
        layer_threads: of the recurrent layer; the result does not depend on them.

    Returns:
        The negative log-likelihood a step in nats (music), or bits a character (text). Lower is better.

    Reference: Pascanu, Mikolov & Bengio 2013, tables 1 and 2.
    """
    one_of("split", split, SPLITS)
    trained = load(directory)
    corpus = open_corpus(trained.config)
    verify_data(Path(directory), corpus)
    trained.model.threads = whole("threads", layer_threads)
    with threads(1):
        return figure(trained.model, corpus, split)

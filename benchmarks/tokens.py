"""Tokens a second of a character model in training, beside the same model on torch.nn.RNN.

500 units, 50 characters, no biases; 32 streams side by side, 200 steps an update, the state carried from one to the
next; clipping at 45 and plain SGD. Ours is `experiments.learner.Learner.update` with Ω, sigmoid units and tokens as they are:
what `steadygrad train ptb` does. The peer is torch.nn.RNN on one-hot vectors, nn.Linear, cross_entropy, clip_grad_norm_ and
SGD; torch.nn.RNN has no sigmoid units, so it has tanh. The characters are drawn at random: what they say costs no time.

    python benchmarks/tokens.py [--seconds 6]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from clock import quickest
from peers import Step
from steadygrad import data
from steadygrad.data.datasets import Text
from steadygrad.experiments import preset
from steadygrad.experiments.learner import Learner

STEPS, BATCH, HIDDEN, CHARACTERS = 200, 32, 500, 50
SIZE = f"{HIDDEN} units, {CHARACTERS} characters, batch {BATCH}, {STEPS} steps"
OURS, PEER = "steadygrad with Ω", "torch.nn.RNN"
LONG = 4
"""Stretches of the text; it begins anew when they are read."""


def characters() -> data.TextData:
    """A text of characters drawn at random."""
    generator = torch.Generator().manual_seed(0)
    train = torch.randint(CHARACTERS, (LONG * STEPS * BATCH + 1,), generator=generator)
    few = torch.arange(CHARACTERS)
    return data.TextData("drawn", train, few, few, tuple(map(chr, range(33, 33 + CHARACTERS))))


def steady(text: data.TextData) -> Step:
    """An update of `steadygrad train ptb`."""
    # A rate so small that the weights stay as they are: every repeat is to do the same work.
    config = preset("ptb", "sgd-cr", "paper", batch=BATCH, lr=1e-9, init="orthogonal", threads=torch.get_num_threads())
    learner = Learner(config, Text(config, text))

    def step() -> None:
        if learner.feed.at_end_of_epoch:
            learner.next_epoch()
        learner.update()

    return step


def torch_rnn(text: data.TextData) -> Step:
    """The same as one would write it in torch."""
    rnn, readout = nn.RNN(CHARACTERS, HIDDEN, bias=False), nn.Linear(HIDDEN, CHARACTERS, bias=False)
    nn.init.orthogonal_(rnn.weight_hh_l0)
    parameters = [*rnn.parameters(), *readout.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1e-9)
    chunks = _endless(text.train)
    state: Tensor | None = None

    def step() -> None:
        nonlocal state
        inputs, targets = next(chunks)
        states, last = rnn(nn.functional.one_hot(inputs, CHARACTERS).float(), state)
        loss = nn.functional.cross_entropy(readout(states).flatten(0, 1), targets.flatten(), reduction="sum") / BATCH
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 45.0)
        optimizer.step()
        state = last.detach()

    return step


def _endless(tokens: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        chunks: Iterable[data.Chunk] = data.streams(tokens, BATCH, STEPS)
        for chunk in chunks:
            yield chunk.inputs, chunk.targets


def measure(seconds: float) -> dict[str, float | str]:
    """Tokens a second of each, and how many times those of torch.nn.RNN ours are."""
    text = characters()
    times = quickest({OURS: steady(text), PEER: torch_rnn(text)}, seconds)
    ours, peer = (1e3 * STEPS * BATCH / times[name] for name in (OURS, PEER))
    return {"size": SIZE, "threads": torch.get_num_threads(), OURS: ours, PEER: peer, "ratio": ours / peer}


def table(found: dict[str, float | str]) -> str:
    """What was found, as text."""
    lines = [f"\ncharacters in training, {found['size']}, {found['threads']} threads"]
    lines += [f"{name:44}{found[name]:12,.0f} tokens/s" for name in (OURS, PEER)]
    return "\n".join([*lines, f"{'steadygrad with Ω is':44}{found['ratio']:12.2f} times as fast"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=6.0, help="time for each of the two (default 6)")
    print(table(measure(parser.parse_args().seconds)))


if __name__ == "__main__":
    main()

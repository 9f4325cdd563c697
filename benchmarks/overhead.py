"""What everything around the layer costs in a training update: data, loss, read-out, clipping, optimizer, bookkeeping.

    overhead = (t_update − t_layer) / t_layer

t_update is `experiments.learner.Learner.update` on temporal order, t_layer the forward and backward pass of its own recurrent
layer, with Ω, on a batch of the same task. Both run on as many threads as training uses unless told otherwise: one.

    python benchmarks/overhead.py [--seconds 3]
"""

from __future__ import annotations

import argparse

import torch

from clock import in_turn
from peers import Step
from steadygrad.experiments import Config
from steadygrad.experiments.learner import Learner

UPDATE, LAYER = "a training update of temporal order", "its recurrent layer, forward and backward with Ω"


def config() -> Config:
    # A rate so small that the weights stay orthogonal: errors that vanish into denormal numbers are slow to multiply.
    return Config(
        "temporal-order",
        "sgd-cr",
        (100, 100),
        batch=20,
        hidden=50,
        init="orthogonal",
        lr=1e-9,
        threshold=1.0,
        alpha=1.0,
    )


def layer_alone(learner: Learner) -> Step:
    """The recurrent layer of `learner` on one batch, with an error at the last step."""
    rnn, settings = learner.network.rnn, learner.config
    batch = learner.problem.sample(settings.batch, settings.length[0], torch.Generator().manual_seed(0))
    g = torch.randn(1, settings.batch, rnn.hidden_size, generator=torch.Generator().manual_seed(1))
    parameters = [parameter for parameter in rnn.parameters() if parameter.requires_grad]

    def step() -> None:
        for parameter in parameters:
            parameter.grad = None
        _, last = rnn(batch.inputs)
        torch.autograd.backward(last, g)

    return step


def measure(seconds: float) -> dict[str, float]:
    """Milliseconds of an update and of the layer alone, medians of both in turn, and the overhead."""
    settings = config()
    before = torch.get_num_threads()
    torch.set_num_threads(settings.threads)
    try:
        times = in_turn({UPDATE: Learner(settings).update, LAYER: layer_alone(Learner(settings))}, seconds)
    finally:
        torch.set_num_threads(before)
    return {
        "threads": settings.threads,
        "update_ms": times[UPDATE],
        "layer_ms": times[LAYER],
        "overhead": times[UPDATE] / times[LAYER] - 1,
    }


def table(found: dict[str, float]) -> str:
    """What was found, as text."""
    lines = [f"\ntemporal order, T 100, batch 20, hidden 50, {found['threads']:.0f} thread"]
    for name, key in ((UPDATE, "update_ms"), (LAYER, "layer_ms")):
        lines.append(f"{name:52}{found[key]:9.3f} ms")
    return "\n".join([*lines, f"{'all that is around the layer, of the layer':52}{found['overhead']:9.2f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each of the two (default 3)")
    print(table(measure(parser.parse_args().seconds)))


if __name__ == "__main__":
    main()

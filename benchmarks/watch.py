"""What `sg.watch` costs: training steps with and without it, in turn, in one run.

    cost = t_with / t_without − 1        over blocks of `every` updates, of which one is looked at

Blocks alternate, so that a slow moment of the machine meets both; the median of the ratios of neighbouring blocks is given, and
beside it what one look takes, in training steps. The bound is 2 % at every = 100.

    python benchmarks/watch.py [--seconds 20] [--every 100]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import steadygrad as sg

SIZES = {"T 100, B 20, H 50": (100, 20, 50), "T 200, B 32, H 200": (200, 32, 200)}
LAYERS: dict[str, Any] = {
    "torch.nn.RNN": torch.nn.RNN,
    "torch.nn.GRU": torch.nn.GRU,
    "torch.nn.LSTM": torch.nn.LSTM,
    "sg.RNN": sg.RNN,
    "sg.GRU": sg.GRU,
    "sg.LSTM": sg.LSTM,
}
INPUTS = 16


def trainer(kind: Any, size: tuple[int, int, int]) -> tuple[torch.nn.Module, torch.optim.Optimizer, Callable[[], None]]:
    """A model of one recurrent layer and a read-out, its optimizer, and one training step of it."""
    steps, batch, hidden = size
    torch.manual_seed(0)
    rnn, head = kind(INPUTS, hidden), torch.nn.Linear(hidden, 8)
    model = torch.nn.ModuleDict({"rnn": rnn, "head": head})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    x, y = torch.randn(steps, batch, INPUTS), torch.randint(8, (steps, batch))

    def step() -> None:
        optimizer.zero_grad()
        output = head(rnn(x)[0])
        torch.nn.functional.cross_entropy(output.flatten(0, 1), y.flatten()).backward()
        optimizer.step()

    return model, optimizer, step


def block(step: Callable[[], None], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        step()
    return time.perf_counter() - begin


def measure(kind: Any, size: tuple[int, int, int], every: int, seconds: float) -> dict[str, float]:
    """The cost of watching as a share of the training time, and of one look in training steps."""
    _, _, bare = trainer(kind, size)
    model, optimizer, watched = trainer(kind, size)
    watch = sg.watch(model, every, optimizer=optimizer)
    block(bare, 3)
    # the first look is made here, so every block of `every` steps holds exactly one
    block(watched, 3)
    ratios: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(ratios) < 3:
        first, second = (bare, watched) if len(ratios) % 2 else (watched, bare)
        times = {first: block(first, every)}
        times[second] = block(second, every)
        ratios.append(times[watched] / times[bare])
    assert len(watch.looks) > len(ratios) / 2
    cost = statistics.median(ratios) - 1
    return {"cost": cost, "look_in_steps": cost * every, "blocks": len(ratios)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="time for each layer and size (default 20)")
    parser.add_argument("--every", type=int, default=100, help="updates from one look to the next (default 100)")
    given = parser.parse_args()
    for name, size in SIZES.items():
        print(f"\n{name}: cost of sg.watch(model, every={given.every})")
        for layer, kind in LAYERS.items():
            found = measure(kind, size, given.every, given.seconds)
            print(f"{layer:16}{100 * found['cost']:8.2f} %   one look = {found['look_in_steps']:.1f} steps")


if __name__ == "__main__":
    main()

"""What `sg.watch` costs: training steps without it, with a look, and what its hooks take while it is not looking.

    cost = (t_hooks + (t_look − t_bare) / every) / t_bare        medians of steps that alternate

t_hooks is some microseconds of Python in every update, whatever the layer's size: far less than steps of a wide layer differ by
from one to the next. It is therefore measured on a layer of one unit and one step, as the difference of the quickest steps.
The bound is 2 % at every = 100: a look may take two training steps.

    python benchmarks/watch.py [--seconds 3] [--every 100]
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch

import steadygrad as sg
from clock import once
from peers import Step

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


def trainer(kind: Any, size: tuple[int, int, int]) -> tuple[torch.nn.Module, torch.optim.Optimizer, Step]:
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


def seconds_of_hooks(kind: Any, seconds: float) -> float:
    """What the hooks add to an update at which nothing is looked at."""
    model, optimizer, step = trainer(kind, (1, 1, 1))
    best = {"bare": float("inf"), "hooks": float("inf")}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        best["bare"] = min(best["bare"], *(once(step) for _ in range(200)))
        watch = sg.watch(model, 1_000_000, optimizer=optimizer)
        once(step)  # the first update is looked at
        best["hooks"] = min(best["hooks"], *(once(step) for _ in range(200)))
        assert len(watch.looks) == 1, f"the watch looked {len(watch.looks)} times, not once"
        watch.detach()
    return best["hooks"] - best["bare"]


def measure(kind: Any, size: tuple[int, int, int], every: int, seconds: float) -> dict[str, float]:
    """Milliseconds of a training step: bare, the hooks' share of it, and with a look; and the cost as a share.

    One model is watched and not watched by turns: two models of the same kind differ by some per cent, for where they lie in
    memory.
    """
    hooks = 1e3 * seconds_of_hooks(kind, seconds / 3)
    model, optimizer, step = trainer(kind, size)
    times: dict[str, list[float]] = {"bare": [], "look": []}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["look"]) < 5:
        once(step)  # the caches are cold after a look
        times["bare"].append(once(step))
        watch = sg.watch(model, 2, optimizer=optimizer)  # looks at its first update, and at the third
        once(step)
        once(step)
        times["look"].append(once(step))
        looks = len(watch.looks)
        watch.detach()
        assert looks == 2, f"the watch looked {looks} times, not twice"
    bare, look = (1e3 * statistics.median(times[name]) for name in ("bare", "look"))
    cost = (hooks + (look - bare) / every) / bare
    return {"bare_ms": bare, "hooks_ms": hooks, "look_ms": look, "every": every, "cost": cost}


def measure_all(seconds: float, every: int = 100) -> dict[str, dict[str, dict[str, float]]]:
    """By size and layer."""
    return {
        name: {layer: measure(kind, size, every, seconds) for layer, kind in LAYERS.items()}
        for name, size in SIZES.items()
    }


def table(found: dict[str, dict[str, dict[str, float]]]) -> str:
    """What was found, as text."""
    lines: list[str] = []
    for size, layers in found.items():
        lines += [
            f"\nsg.watch, {size}: a training step in ms",
            f"{'':16}{'bare':>9}{'hooks':>9}{'a look':>9}{'cost':>9}",
        ]
        for layer, of in layers.items():
            times = "".join(f"{of[key]:9.3f}" for key in ("bare_ms", "hooks_ms", "look_ms"))
            lines.append(f"{layer:16}{times}{100 * of['cost']:7.2f} % at every={of['every']}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each layer and size (default 3)")
    parser.add_argument("--every", type=int, default=100, help="updates from one look to the next (default 100)")
    given = parser.parse_args()
    print(table(measure_all(given.seconds, given.every)))


if __name__ == "__main__":
    main()

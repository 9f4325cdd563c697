"""The speed of a training step on a CUDA device: backend="triton" beside torch operations and torch.nn.RNN, in one run.

Nobody has run this yet: steadygrad was made where there is no GPU. Without one it says so and ends.

    python benchmarks/gpu.py [--seconds 3] [--write FILE.json]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

import torch

from clock import quickest
from peers import SMALL, Setting, Size, Step, steady, torch_rnn

SIZES = (SMALL, Size(200, 32, 128, 88, "all"), Size(200, 256, 128, 88, "all"), Size(1000, 32, 64, 6, "last"))
"""All fit the Triton kernels: at most 128 units."""


def waiting(step: Step) -> Step:
    """The step until the device has done it."""

    def done() -> None:
        step()
        torch.cuda.synchronize()

    return done


def measure(size: Size, seconds: float) -> dict[str, float]:
    """Milliseconds of each peer, the minimum of repeats."""
    torch.set_default_device("cuda")  # where the peers make their layers
    with torch.device("cpu"):  # one generator for all machines
        made = Setting.make(size)
    weights = {name: value.cuda() for name, value in made.weights.items()}
    setting = replace(made, inputs=made.inputs.cuda(), weights=weights, g=made.g.cuda())
    steps: dict[str, Step] = {
        "triton, with Ω": steady(setting, backend="triton"),
        "triton, without Ω": steady(setting, alpha=0.0, backend="triton"),
        "torch operations, with Ω": steady(setting, backend="torch"),
        "torch operations, without Ω": steady(setting, alpha=0.0, backend="torch"),
        "torch.nn.RNN": torch_rnn(setting),
    }
    return quickest({name: waiting(step) for name, step in steps.items()}, seconds)


def table(results: dict[str, dict[str, float]]) -> str:
    lines: list[str] = []
    for size, times in results.items():
        ours = times["triton, with Ω"]
        lines += [f"\n{size}: one step, forward + backward + all weight gradients, float32", f"{'':32}{'ms':>9}"]
        for name, value in sorted(times.items(), key=lambda item: item[1]):
            lines.append(f"{name:32}{value:9.3f}{f'{value / ours:.2f}× of triton, with Ω':>28}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each peer and size (default 3)")
    parser.add_argument("--write", type=Path, help="a JSON file to write the figures to")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("nothing was measured: torch finds no CUDA device on this machine")
        return
    results: dict[str, dict[str, float]] = {}
    for size in SIZES:
        print(f"measuring {size} …", file=sys.stderr)
        results[str(size)] = measure(size, args.seconds)
    print(table(results))
    if args.write:
        record = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "milliseconds": results}
        args.write.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

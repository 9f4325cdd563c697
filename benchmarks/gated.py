"""sg.GRU and sg.LSTM with Ω and recording, beside torch.nn.GRU and torch.nn.LSTM without; and what Ω costs them.

python benchmarks/gated.py [--seconds 3]          the same as a part of `make bench`
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import steadygrad as sg
from clock import in_turn, peak, quickest
from peers import LARGE, SMALL, Size, Step

KINDS = {"GRU": (sg.GRU, torch.nn.GRU), "LSTM": (sg.LSTM, torch.nn.LSTM)}


def step_of(layer: Any, size: Size) -> Step:
    """One training step of a layer: forward, and backward with all weight gradients."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(size.steps, size.batch, size.inputs, generator=generator)
    shape = (1, size.batch, size.hidden) if size.loss == "last" else (size.steps, size.batch, size.hidden)
    g, parameters = torch.randn(shape, generator=generator), list(layer.parameters())

    def step() -> Any:
        output, last = layer(inputs)
        last = last[0] if isinstance(last, tuple) else last
        return torch.autograd.grad(last if size.loss == "last" else output, parameters, g)

    return step


def layer_of(kind: str, which: str, size: Size) -> Any:
    """'torch', 'Ω' or 'plain', from the same weights: torch's own start."""
    ours, torchs = KINDS[kind]
    torch.manual_seed(0)
    if which == "torch":
        return torchs(size.inputs, size.hidden)
    return ours(size.inputs, size.hidden, alpha=1.0 if which == "Ω" else 0.0)


def products_at_peak(kind: str, size: Size) -> float:
    """Milliseconds of a step's products with Ω at the speed of one large product; kernel/gated_weights.hpp counts them."""
    rows = {"GRU": 3, "LSTM": 4}[kind] * size.hidden
    return 2 * size.steps * size.batch * rows * (5 * size.hidden + 2 * size.inputs) / peak()


def measure(kind: str, size: Size, seconds: float) -> dict[str, float]:
    steps = {which: step_of(layer_of(kind, which, size), size) for which in ("torch", "Ω", "plain")}
    best = quickest(steps, seconds)
    medians = in_turn({which: steps[which] for which in ("Ω", "plain")}, seconds)
    memory = {which: peak_bytes(kind, which, size) for which in ("torch", "Ω")}
    return {
        "torch_ms": best["torch"],
        "omega_ms": best["Ω"],
        "plain_ms": best["plain"],
        "times_quicker": best["torch"] / best["Ω"],
        "omega_on_off": medians["Ω"] / medians["plain"],
        "memory_of_torchs": memory["Ω"] / memory["torch"],
        "products_at_peak_ms": products_at_peak(kind, size),
    }


def measure_all(seconds: float) -> dict[str, dict[str, dict[str, float]]]:
    return {kind: {str(size): measure(kind, size, seconds) for size in (SMALL, LARGE)} for kind in KINDS}


def table(results: dict[str, dict[str, dict[str, float]]]) -> str:
    lines: list[str] = []
    for kind, sizes in results.items():
        for size, found in sizes.items():
            lines.append(
                f"sg.{kind} with Ω, {size}: {found['omega_ms']:.2f} ms, {found['times_quicker']:.2f}× as fast as "
                f"torch.nn.{kind} without ({found['torch_ms']:.2f} ms); Ω on / off {found['omega_on_off']:.2f}; "
                f"peak memory {found['memory_of_torchs']:.2f} of torch's; its products at the speed of a large one: "
                f"{found['products_at_peak_ms']:.2f} ms"
            )
    return "\n".join(lines)


def peak_bytes(kind: str, which: str, size: Size) -> int:
    """Bytes at the peak of a step, beyond what the process held before it; the least of three processes."""
    command = [sys.executable, __file__, "--peak", kind, which, "small" if size == SMALL else "large"]
    return min(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(3))


def _measure_peak(kind: str, which: str, size: Size) -> int:
    from memory import status

    # A step of one sequence loads all code; what the real step needs is then not yet in the process.
    tiny = Size(2, 1, size.hidden, size.inputs, size.loss)
    for _ in range(2):
        step_of(layer_of(kind, which, tiny), tiny)()
    step = step_of(layer_of(kind, which, size), size)
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    step()
    return status("VmHWM") - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each peer and size (default 3)")
    parser.add_argument("--peak", nargs=3, metavar=("KIND", "WHICH", "SIZE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:
        kind, which, size = args.peak
        print(_measure_peak(kind, which, SMALL if size == "small" else LARGE))
    else:
        print(table(measure_all(args.seconds)))


if __name__ == "__main__":
    main()

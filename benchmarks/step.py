"""The speed of a training step, beside what a user would pick instead. Ratios of one run; minimum of repeats.

After the plain layer come GRU and LSTM (gated.py), and two measurements of the whole training: what is around the layer
(overhead.py), the tokens a second of a character model (tokens.py), and what `sg.watch` costs (watch.py).

    python benchmarks/step.py [--seconds 3] [--write results/bench.json]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import torch

import gated
import overhead
import steadygrad as sg
import tokens
import watch
from clock import in_turn, peak, quickest
from memory import peak_bytes
from peers import LARGE, SMALL, Setting, Size, Step, naive_omega, optional_peers, steady, torch_rnn
from steadygrad import provenance
from steadygrad.recurrence import native


def products_at_peak(size: Size) -> float:
    """Milliseconds that the step's matrix products would take at the speed of one large product."""
    return 2 * size.steps * size.batch * size.hidden * (3 * size.hidden + 2 * size.inputs) / peak()


def measure(size: Size, seconds: float) -> dict[str, float]:
    setting = Setting.make(size)
    steps: dict[str, Step] = {
        "steadygrad with Ω": steady(setting),
        "steadygrad without Ω": steady(setting, alpha=0.0),
        "steadygrad without Ω, not recording": steady(setting, alpha=0.0, record=False),
        "steadygrad in torch operations, with Ω": steady(setting, backend="torch"),
        "torch.nn.RNN": torch_rnn(setting),
        "Ω by an RNNCell loop": naive_omega(setting),
    }
    more, left_out = optional_peers(setting)
    print(*left_out, sep="\n", file=sys.stderr)
    times = quickest(steps | more, seconds)
    scans = {name: times.pop(name) for name in more if name.startswith("JAX scan")}
    if scans:
        best = min(scans, key=lambda name: scans[name])
        print("; ".join(f"{name} {value:.3f} ms" for name, value in scans.items()), file=sys.stderr)
        times["JAX scan"] = scans[best]  # the best of its ways to unroll
    return times | {"the products alone, at this machine's peak": products_at_peak(size)}


def options(size: Size, seconds: float) -> dict[str, float]:
    """What Ω and the recording cost: times of a step with them, over one without."""
    setting = Setting.make(size)
    bare, omega, record = "neither", "Ω", "recording"
    times = in_turn(
        {
            bare: steady(setting, alpha=0.0, record=False),
            record: steady(setting, alpha=0.0),
            omega: steady(setting),
        },
        seconds,
    )
    return {"Ω on / off": times[omega] / times[record], "recording on / off": times[record] / times[bare]}


def environment() -> dict[str, str | int]:
    return {
        "cpu": provenance.machine()["cpu"],
        "cores": os.cpu_count() or 0,
        "threads": torch.get_num_threads(),
        "kernel": native.instruction_set() or "not built",
        "torch": torch.__version__,
        "steadygrad": sg.__version__,
        "commit": provenance.commit() or "",
    }


def table(
    results: dict[str, dict[str, float]], ratios: dict[str, dict[str, float]], memory: dict[str, dict[str, int]]
) -> str:
    lines: list[str] = []
    for size, times in results.items():
        ours = times["steadygrad with Ω"]
        lines += [
            f"\n{size}: one step, forward + backward + all weight gradients, float32",
            f"{'':44}{'ms':>9}{'steadygrad with Ω is':>24}",
        ]
        for name, value in sorted(times.items(), key=lambda item: item[1]):
            note = "" if name == "steadygrad with Ω" else f"{value / ours:.2f}× as fast"
            lines.append(f"{name:44}{value:9.3f}{note:>24}")
        lines += [f"{name + ', in turn, medians':44}{value:9.3f}" for name, value in ratios[size].items()]
        torchs, with_omega = memory[size]["torch.nn.RNN"], memory[size]["steadygrad with Ω"]
        lines += [
            f"{'peak memory of a step: torch.nn.RNN':44}{torchs / 2**20:9.2f} MiB",
            f"{'peak memory of a step: steadygrad with Ω':44}{with_omega / 2**20:9.2f} MiB, {with_omega / torchs:.2f} of it",
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each peer and size (default 3)")
    parser.add_argument("--write", type=Path, help="a JSON file to write the figures to")
    args = parser.parse_args()
    results, ratios, memory = {}, {}, {}
    for size in (SMALL, LARGE):
        print(f"measuring {size} …", file=sys.stderr)
        results[str(size)] = measure(size, args.seconds)
        ratios[str(size)] = options(size, args.seconds)
        memory[str(size)] = {name: peak_bytes(name, size) for name in ("torch.nn.RNN", "steadygrad with Ω")}
    print("measuring training updates …", file=sys.stderr)
    gates = gated.measure_all(args.seconds)
    around, text = overhead.measure(args.seconds), tokens.measure(2 * args.seconds)
    watching = watch.measure_all(args.seconds)
    print(table(results, ratios, memory), gated.table(gates), overhead.table(around), tokens.table(text), sep="\n")
    print(watch.table(watching))
    if args.write:
        usual = args.seconds == parser.get_default("seconds")
        command = "make bench" if usual else f"python benchmarks/step.py --seconds {args.seconds:g}"
        record = {"command": command, "environment": environment(), "milliseconds": results, "peak_bytes": memory}
        record |= {"ratios": ratios, "overhead": around, "tokens": text, "gated": gates, "watch": watching}
        args.write.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

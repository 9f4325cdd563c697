"""Timing side by side: peers take turns, so that a slow moment of the machine meets all of them."""

from __future__ import annotations

import statistics
import time

import torch

from peers import Step


def quickest(steps: dict[str, Step], seconds: float) -> dict[str, float]:
    """Milliseconds of each, the minimum of as many repeats as fit into the time."""
    best = dict.fromkeys(steps, float("inf"))
    for step in steps.values():  # compilation, first allocation
        step()
        step()
    end = time.perf_counter() + seconds * len(steps)
    while time.perf_counter() < end:
        for name, step in steps.items():
            # Threads of the peer before this one still look for work for a while, on the cores this one needs.
            time.sleep(0.05)
            turn = time.perf_counter() + 0.25
            while time.perf_counter() < turn:
                best[name] = min(best[name], once(step))
    return {name: 1e3 * value for name, value in best.items()}


def in_turn(steps: dict[str, Step], seconds: float) -> dict[str, float]:
    """Milliseconds of each, the median of repeats that alternate step by step: what differs by a few per cent shows."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    end = time.perf_counter() + seconds * len(steps)
    while time.perf_counter() < end:
        for name, step in steps.items():
            times[name].append(once(step))
    return {name: 1e3 * statistics.median(of_step) for name, of_step in times.items()}


def once(call: Step) -> float:
    """Seconds of one call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def peak() -> float:
    """Operations a millisecond of this machine: those of torch's product of two large matrices."""
    n = 2000
    a = torch.randn(n, n)
    return 2 * n**3 / (1e3 * min(once(lambda: a @ a) for _ in range(20)))

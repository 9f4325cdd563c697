"""A process of its own: `python fork_stress.py CELL THREADS` forks children while other threads are inside the layer.

Each child runs a training step. It prints how many of them did not end within their time. No random numbers are drawn while it
forks: torch's own generator is locked while it draws, and a child inherits that lock.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import torch

import steadygrad as sg

CHILDREN, BUSY, SECONDS = 30, 3, 30
X = torch.linspace(-1, 1, 20 * 8 * 8).view(20, 8, 8)


def step(layer: Any) -> None:
    layer.zero_grad()
    layer(X)[0].sum().backward()


def main(cell: str, threads: int) -> None:
    torch.set_num_threads(threads)
    layers = [getattr(sg, cell)(8, 64, alpha=0.5) for _ in range(BUSY + 1)]
    for layer in layers:
        step(layer)
    expected = layers[0].weight_hh_l0.grad.clone()
    stop = threading.Event()

    def busy(layer: Any) -> None:
        while not stop.is_set():
            step(layer)

    workers = [threading.Thread(target=busy, args=(layer,), daemon=True) for layer in layers[1:]]
    for worker in workers:
        worker.start()
    failed = 0
    for _ in range(CHILDREN):
        child = os.fork()
        if child == 0:
            signal.alarm(SECONDS)  # ends a child that hangs
            step(layers[0])
            os._exit(0 if torch.equal(layers[0].weight_hh_l0.grad, expected) else 1)
        failed += os.waitpid(child, 0)[1] != 0
    stop.set()
    for worker in workers:
        worker.join()
    print(f"{failed} of {CHILDREN} children failed")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

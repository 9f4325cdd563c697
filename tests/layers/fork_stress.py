"""A process of its own: `python fork_stress.py CELL THREADS` forks children while other threads are inside the layer.

Each child runs a training step. It prints how many of them failed or hung. A child hangs when all of its threads slept at every
look for SECONDS, or when it used SECONDS of processor time: a child that only gets no core on a loaded machine is ready to run
and is waited for. No random numbers are drawn while it forks: torch's own generator is locked while it draws, and a child
inherits that lock.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch

import steadygrad as sg

CHILDREN, BUSY, SECONDS = 30, 3, 15
HANGS = "hang"
"""In place of CELL and THREADS: one child waits for what never comes, to show that a hang is seen."""
X = torch.linspace(-1, 1, 20 * 8 * 8).view(20, 8, 8)


def step(layer: Any) -> None:
    layer.zero_grad()
    layer(X)[0].sum().backward()


def sleeps(child: int) -> bool:
    """Whether all threads of the child wait for something other than a core. (Where the system does not tell: True.)"""
    tasks = Path(f"/proc/{child}/task")
    try:
        return all((task / "stat").read_text().rpartition(")")[2].split()[0] == "S" for task in tasks.iterdir())
    except FileNotFoundError:  # not Linux, or a thread that has just ended
        return not Path("/proc/self/task").exists()


def ended_well(child: int, seconds: float) -> bool:
    """Waits for the child; ends it where it hangs."""
    last_seen_at_work = time.monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        if not sleeps(child):
            last_seen_at_work = time.monotonic()
        elif time.monotonic() - last_seen_at_work > seconds:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return False
        time.sleep(0.005)


def show_that_a_hang_is_seen() -> None:
    child = os.fork()
    if child == 0:
        threading.Event().wait()
    print("a hang was seen" if not ended_well(child, 1.0) else "a hang went unnoticed")


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
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))  # ends a child that turns in circles
            step(layers[0])
            os._exit(0 if torch.equal(layers[0].weight_hh_l0.grad, expected) else 1)
        failed += not ended_well(child, SECONDS)
    stop.set()
    for worker in workers:
        worker.join()
    print(f"{failed} of {CHILDREN} children failed")


if __name__ == "__main__":
    show_that_a_hang_is_seen() if sys.argv[1] == HANGS else main(sys.argv[1], int(sys.argv[2]))

"""Training in several processes at once on the same cores, as in a sweep: steps a second of all of them together.

Two processes of two threads each, on two cores, have twice as many threads as cores. They should get as much done as two
processes of one thread each; threads that wait by spinning would take the cores from those that have work.

    python benchmarks/busy.py [--seconds 5] [--processes 2]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import torch

from peers import LARGE, SMALL, Setting, Size, steady

SIZES = {"small": SMALL, "large": LARGE}


def steps_of_one(size: Size, threads: int, begin: float, seconds: float) -> float:
    """Steps a second of this process, between `begin` (seconds of the clock) and `seconds` later."""
    torch.set_num_threads(threads)
    step = steady(Setting.make(size))
    for _ in range(3):
        step()
    time.sleep(max(0.0, begin - time.time()))
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        step()
        done += 1
    return done / (time.perf_counter() - start)


def together(size: str, processes: int, threads: int, seconds: float) -> float:
    """Steps a second of all processes together."""
    begin = time.time() + 5.0  # by then all of them have imported torch
    command = [sys.executable, __file__, "--one", size, str(threads), str(begin), str(seconds)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return sum(float(process.communicate()[0]) for process in running)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="time for each measurement (default 5)")
    parser.add_argument("--processes", type=int, default=2, help="how many at once (default 2)")
    parser.add_argument("--size", choices=SIZES, help="only this one")
    parser.add_argument("--one", nargs=4, metavar=("SIZE", "THREADS", "BEGIN", "SECONDS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        size, threads, begin, seconds = args.one
        print(steps_of_one(SIZES[size], int(threads), float(begin), float(seconds)))
        return
    many = args.processes
    for size in [args.size] if args.size else SIZES:
        print(f"{SIZES[size]}, steps a second")
        found: dict[tuple[int, int], float] = {}
        for processes, threads in ((1, 1), (1, 2), (many, 1), (many, 2)):
            found[processes, threads] = together(size, processes, threads, args.seconds)
            print(f"  {processes} × {threads} threads {found[processes, threads]:10.1f}", flush=True)
        print(f"  {many} × 2 threads / {many} × 1 thread {found[many, 2] / found[many, 1]:6.2f}")


if __name__ == "__main__":
    main()

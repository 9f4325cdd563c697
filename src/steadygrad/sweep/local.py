"""One model per core of this machine: every core has a process of its own, made by joblib's loky.

A pool of many processes breaks as a whole when one of them dies. Here each slot is a pool of one, so a process that
is killed takes nothing with it but the cell it was running, and that cell is submitted again. The cell itself counts the
starts that never ended, and gives up (`steadygrad.sweep.cell`).
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from types import SimpleNamespace
from typing import Any

from steadygrad.checks import whole
from steadygrad.sweep.cell import DEATHS

GRACE = 20.0  # seconds that running cells get to write a checkpoint when the sweep is interrupted

# One thread for each model: several would fight over the cores the other models run on.
SINGLE_THREADED = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
WORKER = SimpleNamespace(stopped=False, busy=False)
"""In a worker's process: whether it got SIGINT, and whether it runs a cell."""


class Local:
    """Runs `workers` cells at once on this machine's cores; None means one for each core."""

    def __init__(self, workers: int | None = None) -> None:
        try:
            from joblib import cpu_count
        except ImportError:
            raise ImportError("a sweep needs joblib: pip install 'steadygrad[train]'") from None
        self.workers = cpu_count() if workers is None else whole("workers", workers)

    def run(self, function: Callable[[Any], Any], cells: Sequence[Any]) -> list[Any]:
        """`function` of every cell, in the order in which they end; it must not raise, and its result must be picklable."""
        waiting, idle = deque(cells), [_Slot() for _ in range(min(self.workers, len(cells)))]
        running: dict[Future[Any], tuple[_Slot, Any]] = {}
        outcomes: list[Any] = []
        deaths: Counter[int] = Counter()
        try:
            while waiting or running:
                while waiting and idle:
                    slot, cell = idle.pop(), waiting.popleft()
                    running[slot.submit(_interruptible, function, cell)] = (slot, cell)
                # A limit, so that Ctrl-C is heard on every platform.
                done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in done:
                    slot, cell = running.pop(future)
                    idle.append(slot)
                    if slot.died(future):
                        deaths[id(cell)] += 1
                        if deaths[id(cell)] > DEATHS:
                            raise ChildProcessError(f"processes die before a cell can begin ({future.exception()})")
                        waiting.appendleft(cell)
                    else:
                        outcomes.append(future.result())
        except KeyboardInterrupt:
            _stop(running)
            raise
        finally:
            for slot in (*idle, *(slot for slot, _ in running.values())):
                slot.close()
        return outcomes


class _Slot:
    """A pool of one process, replaced when its process dies."""

    def __init__(self) -> None:
        self._pool: Any = None
        self._process: Future[int] | None = None

    def submit(self, *call: Any) -> Future[Any]:
        from joblib.externals.loky import ProcessPoolExecutor

        if self._pool is None:
            self._pool = ProcessPoolExecutor(max_workers=1, initializer=_begin, env=SINGLE_THREADED)
            self._process = self._pool.submit(os.getpid)
        return self._pool.submit(*call)

    @property
    def process(self) -> int | None:
        """The process's id, once it is up."""
        up = self._process
        return up.result() if up is not None and up.done() and up.exception() is None else None

    def died(self, future: Future[Any]) -> bool:
        """Whether the process is gone; a new one is then made for the next cell."""
        from joblib.externals.loky import BrokenProcessPool

        if gone := isinstance(future.exception(), BrokenProcessPool):
            self.close()
        return gone

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(kill_workers=True)
            self._pool = None


def _begin() -> None:
    """What a process does first.

    It leaves the terminal's group: Ctrl-C reaches every process of that, and the sweep passes it on instead, once. And it ends
    with the sweep that started it: the next sweep would run the same cell beside it. What a cell needs is loaded here, since
    loky takes what its process grows by after the first call for a leak of memory, and replaces the process.
    """
    signal.signal(signal.SIGINT, _interrupt)
    if hasattr(os, "setsid"):
        os.setsid()
    sweep = os.getppid()

    def leave_with_it() -> None:
        while os.getppid() == sweep:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=leave_with_it, daemon=True).start()
    importlib.import_module("steadygrad.experiments.loop")


def _interruptible(function: Callable[[Any], Any], cell: Any) -> Any:
    """`function(cell)`, which raises KeyboardInterrupt once its process got SIGINT, be it before the call or while it lasts."""
    if WORKER.stopped:
        raise KeyboardInterrupt
    WORKER.busy = True
    try:
        return function(cell)
    finally:
        WORKER.busy = False


def _interrupt(number: int, frame: Any) -> None:
    WORKER.stopped = True
    if WORKER.busy:
        raise KeyboardInterrupt


def _stop(running: dict[Future[Any], tuple[_Slot, Any]]) -> None:
    """Pass Ctrl-C on to every process, as soon as it is up, and wait for their checkpoints."""
    words = f"stopping: {len(running)} running cells write a checkpoint (at most {GRACE:.0f} s)"
    print(words, file=sys.stderr, flush=True)
    told, deadline = set[int](), time.monotonic() + GRACE
    while time.monotonic() < deadline and not all(future.done() for future in running):
        for slot, _ in running.values():
            if slot.process is not None and slot.process not in told:
                told.add(slot.process)
                os.kill(slot.process, signal.SIGINT)
        wait(running, timeout=0.2)

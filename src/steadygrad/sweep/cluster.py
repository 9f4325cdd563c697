"""The same cells on an existing Dask or Ray cluster, through joblib's backends for them.

Both engines run a cell again by themselves when its worker is lost. Here the cluster is reached, or one sentence says why it
can't be. The folder of the sweep must be on a disk that every node sees.
"""

from __future__ import annotations

import importlib.util
import logging
import multiprocessing
import socket
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.pool import ThreadPool
from typing import Any
from urllib.parse import urlsplit

from steadygrad.sweep.cell import DEATHS

TIMEOUT, PATIENCE = 5.0, 6
"""Seconds to wait for a cluster's first answer, and how many times that for a full one: Ray is slow to begin."""
RESTARTS = DEATHS + 1
"""A cell gives up after `DEATHS` starts without an end: the engine must allow it one more to say so."""


class ClusterError(ValueError):
    """A cluster that can't be reached, or was lost."""


class _Cluster:
    """A cluster at an address that was reached once."""

    name = module = example = ""

    def __init__(self, address: str | None) -> None:
        if not address:
            needs = f"engine {self.name} needs the address of an existing cluster"
            raise ClusterError(f"{needs}: --address {self.example}")
        if importlib.util.find_spec(self.module) is None:
            raise ClusterError(f"engine {self.name} needs an extra: pip install 'steadygrad[{self.name}]'")
        self.address = address
        if address != "auto" or self.name != "ray":
            _reach(self.name, address)

    @abstractmethod
    def connected(self) -> AbstractContextManager[dict[str, Any]]:
        """The options of joblib's backend, while there is a connection."""

    def run(self, function: Callable[[Any], Any], cells: Sequence[Any]) -> list[Any]:
        """`function` of every cell, in their order."""
        from joblib import Parallel, delayed, parallel_config

        try:
            with self.connected() as options, parallel_config(self.name, **options):
                # One cell a batch, all of them handed over at once: the engine's own scheduler spreads them over its nodes.
                parallel: Any = Parallel(n_jobs=-1, batch_size=1, pre_dispatch="all")  # pyright: ignore[reportArgumentType]
                return list(parallel(delayed(_of)(function, cell) for cell in cells))
        except MemoryError:
            raise
        except Exception as reason:  # any error of the cluster is reported in one sentence
            first = str(reason).strip().splitlines()[:1] or [""]
            lost = f"the {self.name} cluster at {self.address} was lost ({type(reason).__name__}: {first[0]})"
            raise ClusterError(
                f"{lost}; finished cells are kept, and the same command goes on with the rest"
            ) from reason


class Dask(_Cluster):
    """Runs cells on the Dask cluster whose scheduler is at `address`, such as `tcp://10.0.0.1:8786`."""

    name, module, example = "dask", "distributed", "tcp://10.0.0.1:8786"

    @contextmanager
    def connected(self) -> Iterator[dict[str, Any]]:
        from distributed import Client

        with _in_time(lambda: Client(self.address, timeout=TIMEOUT, set_as_default=False)) as client:
            yield {"client": client, "wait_for_workers_timeout": TIMEOUT}


class Ray(_Cluster):
    """Runs cells on the Ray cluster at `address`: `10.0.0.1:6379`, `ray://10.0.0.1:10001`, `auto` for this machine's own."""

    name, module, example = "ray", "ray", "10.0.0.1:6379"

    @contextmanager
    def connected(self) -> Iterator[dict[str, Any]]:
        import ray
        from ray.util.joblib import register_ray

        register_ray()
        mine = not ray.is_initialized()
        if mine:
            _in_time(lambda: ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR))
        try:
            yield {"ray_remote_args": {"max_restarts": -1, "max_task_retries": RESTARTS}}
        finally:
            if mine:
                ray.shutdown()


def _of(function: Callable[[Any], Any], cell: Any) -> Any:
    # joblib's Dask backend wants a function that can be hashed, and not every callable can.
    return function(cell)


def _in_time(connect: Callable[[], Any]) -> Any:
    """`connect()`, unless it takes too long: both engines wait without end for something that is no cluster."""
    waiting = ThreadPool(1)  # its threads do not keep the process from ending
    answer = waiting.apply_async(connect)
    waiting.close()
    try:
        return answer.get(PATIENCE * TIMEOUT)
    except multiprocessing.TimeoutError:
        raise TimeoutError(f"no answer that a cluster would give in {PATIENCE * TIMEOUT:.0f} s") from None


def _reach(engine: str, address: str) -> None:
    """One attempt to connect, so that a wrong address costs seconds and not the engine's own minutes of patience."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or not port:
        raise ClusterError(f"address must be HOST:PORT of a {engine} cluster, such as 10.0.0.1:8786, not {address!r}")
    try:
        socket.create_connection((host, port), timeout=TIMEOUT).close()
    except OSError as reason:
        raise ClusterError(f"no {engine} cluster answers at {address} ({reason.strerror or reason})") from None

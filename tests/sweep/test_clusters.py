"""The same grid on real clusters of this machine, and what happens where there is none."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pretended import contents

from steadygrad import sweep
from steadygrad.sweep import ClusterError, Dask, Ray


def closed_port() -> int:
    """One that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize(("engine", "module"), [(Dask, "distributed"), (Ray, "ray")])
def test_an_address_where_no_cluster_answers_is_told_in_one_sentence_and_soon(engine: Any, module: str) -> None:
    pytest.importorskip(module)
    address = f"127.0.0.1:{closed_port()}"
    begin = time.monotonic()
    with pytest.raises(ClusterError, match=rf"^no {engine.name} cluster answers at {address} \(Connection refused\)$"):
        engine(address)
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize("engine", [Dask, Ray])
def test_a_missing_or_malformed_address_is_refused_by_name(engine: Any) -> None:
    with pytest.raises(
        ClusterError, match=f"^engine {engine.name} needs the address of an existing cluster: --address "
    ):
        engine(None)
    pytest.importorskip("distributed" if engine is Dask else "ray")
    for bad in ("nowhere", "tcp://host", "host:port", "tcp://:8786"):
        with pytest.raises(ClusterError, match=f"^address must be HOST:PORT of a {engine.name} cluster"):
            engine(bad)


@pytest.mark.parametrize(("engine", "module"), [(Dask, "distributed"), (Ray, "ray")])
def test_a_missing_extra_is_named_with_what_to_type(engine: Any, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == module else real(name, *rest))
    sentence = rf"^engine {engine.name} needs an extra: pip install 'steadygrad\[{engine.name}\]'$"
    with pytest.raises(ClusterError, match=sentence):
        engine("127.0.0.1:1")


def test_a_service_that_is_no_cluster_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("steadygrad.sweep.cluster.TIMEOUT", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"^the dask cluster at {address} was lost .* goes on with the rest$"):
            Dask(address).run(len, [[]])


def kill_once(out: Path, killed: list[int]) -> None:
    """Kills the first worker that is seen to have begun a cell."""
    while not killed:
        for path in out.glob("*/starts.json"):
            try:
                process = contents(path)["process"]
            except (FileNotFoundError, ValueError):
                continue
            os.kill(process, signal.SIGKILL)
            killed.append(process)
            return
        time.sleep(0.02)


@pytest.mark.filterwarnings("ignore")  # what the cluster's own packages deprecate is not ours
def test_a_grid_runs_on_a_dask_cluster_of_two_workers_and_outlives_one_of_them(tmp_path: Path, grid: Any) -> None:
    distributed = pytest.importorskip("distributed")
    out = tmp_path / "out"
    cells = grid(seeds=[1, 2], test_lengths=[11], max_updates=300, check_every=100, success=0.0)
    killed: list[int] = []
    # The logger of the scheduler tells of lost workers at length; here one is meant to be lost.
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": "CRITICAL"}
    with distributed.LocalCluster(host="127.0.0.1", **options) as cluster:
        killer = threading.Thread(target=kill_once, args=(out, killed), daemon=True)
        killer.start()
        outcomes = sweep.run(cells, out, engine=Dask(cluster.scheduler_address), progress="none")
        killer.join(timeout=10)
    assert killed
    assert [(outcome.id, outcome.status) for outcome in outcomes] == [(cell.id, "finished") for cell in cells.cells]
    assert len(sweep.collect(out)) == 4


@pytest.mark.filterwarnings("ignore")  # likewise
def test_a_grid_runs_on_a_ray_cluster_of_two_workers(tmp_path: Path, grid: Any) -> None:
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cells = grid(seeds=[1, 2], test_lengths=[11])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        outcomes = sweep.run(cells, tmp_path / "out", engine=Ray(cluster.address), progress="none")
    finally:
        cluster.shutdown()
    assert [(outcome.id, outcome.status) for outcome in outcomes] == [(cell.id, "finished") for cell in cells.cells]
    assert {record["machine"]["cpu"] for record in sweep.collect(tmp_path / "out")} != {None}

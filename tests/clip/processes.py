"""Several processes joined by gloo, each of which runs the same named cases and keeps what they return."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed

Case = Callable[[], dict[str, Any]]


def run(module: str, world: int, folder: Path) -> list[dict[str, Any]]:
    """What every rank found: for each case of `module.CASES` what it returned, or the text of its exception."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spawn = torch.multiprocessing.get_context("spawn").Process
    ranks = [spawn(target=_one_rank, args=(module, rank, world, port, str(folder))) for rank in range(world)]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
        environment.setenv("OMP_NUM_THREADS", "1")
        for rank in ranks:
            rank.start()
    try:
        for rank in ranks:
            rank.join(180)
            assert rank.exitcode == 0
    finally:
        for rank in ranks:
            rank.kill()
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(world)]


def _one_rank(module: str, rank: int, world: int, port: int, folder: str) -> None:
    cases: dict[str, Case] = __import__(module).CASES
    torch.distributed.init_process_group(
        "gloo", f"tcp://127.0.0.1:{port}", timeout=timedelta(seconds=60), world_size=world, rank=rank
    )
    found: dict[str, Any] = {}
    for name, case in cases.items():
        try:
            found[name] = case()
        except Exception:
            found[name] = traceback.format_exc()
        torch.distributed.barrier()
    torch.save(found, Path(folder) / f"{rank}.pt")
    torch.distributed.destroy_process_group()
    os._exit(0)  # gloo's threads have aborted an interpreter that came to its ordinary end beside them

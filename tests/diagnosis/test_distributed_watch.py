"""DistributedDataParallel: every process watches its own sequences, and the gradients are those without a watch."""

from __future__ import annotations

import os
import socket
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed
from torch import nn

import steadygrad as sg

STEPS, BATCH, INPUTS, HIDDEN = 10, 6, 3, 5
pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without distributed")


def layer() -> nn.GRU:
    torch.manual_seed(0)
    return nn.GRU(INPUTS, HIDDEN, num_layers=2)


def part(rank: int) -> torch.Tensor:
    whole = torch.randn(STEPS, 2 * BATCH, INPUTS, generator=torch.Generator().manual_seed(1))
    return whole.chunk(2, dim=1)[rank]


def one_of_two(rank: int, port: int, folder: str) -> None:
    address = f"tcp://127.0.0.1:{port}"
    torch.distributed.init_process_group("gloo", address, timeout=timedelta(seconds=60), world_size=2, rank=rank)
    for watched in (False, True):
        model = nn.parallel.DistributedDataParallel(layer())
        watch = sg.watch(model, every=1) if watched else None
        model(part(rank))[0].square().sum().backward()
        found = {name: p.grad for name, p in model.named_parameters()}
        torch.save(found, Path(folder) / f"{watched}-{rank}.pt")
        if watch is not None:
            watch.to_jsonl(Path(folder) / f"{rank}.jsonl")
    torch.distributed.barrier()  # neither takes its end of the connection away while the other still talks
    torch.distributed.destroy_process_group()


def the_other(port: int, folder: str) -> None:
    one_of_two(1, port, folder)
    os._exit(0)  # gloo's threads have aborted an interpreter that came to its ordinary end beside them


def test_every_process_sees_its_own_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    other = torch.multiprocessing.get_context("spawn").Process(target=the_other, args=(port, str(tmp_path)))
    other.start()
    try:
        one_of_two(0, port, str(tmp_path))
        other.join(60)
        assert other.exitcode == 0
    finally:
        other.kill()
    for rank in (0, 1):
        alone = layer()
        with sg.watch(alone, every=1) as watch:
            alone(part(rank))[0].square().sum().backward()
        (look,) = sg.diagnosis.read_jsonl(tmp_path / f"{rank}.jsonl")
        assert [cell.name for cell in look.cells] == ["l0", "l1"]
        for seen, expected in zip(look.cells, watch.looks[0].cells, strict=True):
            # float32: one process adds in another order than the other
            assert seen.norms == pytest.approx(expected.norms, rel=1e-4)
        without, with_it = (
            torch.load(tmp_path / f"{watched}-{rank}.pt", weights_only=True) for watched in (False, True)
        )
        assert all(torch.equal(without[name], with_it[name]) for name in without)

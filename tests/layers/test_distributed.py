"""DistributedDataParallel over two processes against one process that has the whole batch."""

from __future__ import annotations

import os
import socket
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed
from torch import Tensor

import steadygrad as sg

STEPS, BATCH, INPUTS, HIDDEN = 6, 8, 3, 5
pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without distributed")


def layer(alpha: float) -> sg.RNN:
    torch.manual_seed(0)
    return sg.RNN(INPUTS, HIDDEN, num_layers=2, alpha=alpha, dtype=torch.float64)


def batch() -> Tensor:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(STEPS, BATCH, INPUTS, dtype=torch.float64, generator=draw)


def gradients(rnn: torch.nn.Module, x: Tensor) -> dict[str, Tensor]:
    rnn.zero_grad()
    rnn(x)[0].square().mean().backward()
    return {name.removeprefix("module."): p.grad.clone() for name, p in rnn.named_parameters() if p.grad is not None}


def one_of_two(rank: int, port: int, folder: str) -> None:
    """What each process does: half of the batch, gradients averaged with the other's."""
    torch.distributed.init_process_group(
        "gloo", f"tcp://127.0.0.1:{port}", timeout=timedelta(seconds=60), world_size=2, rank=rank
    )
    x = batch().chunk(2, dim=1)[rank]
    for alpha in (0.0, 2.0):
        found = gradients(torch.nn.parallel.DistributedDataParallel(layer(alpha)), x)
        torch.save(found, Path(folder) / f"{alpha}-{rank}.pt")
    torch.distributed.barrier()  # neither takes its end of the connection away while the other still talks
    torch.distributed.destroy_process_group()


def the_other(port: int, folder: str) -> None:
    one_of_two(1, port, folder)
    os._exit(0)  # gloo's threads have aborted an interpreter that came to its ordinary end beside them


def test_two_processes_give_the_gradients_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    for alpha in (0.0, 2.0):
        expected = gradients(layer(alpha), batch())
        for rank in (0, 1):
            found = torch.load(tmp_path / f"{alpha}-{rank}.pt", weights_only=True)
            assert found.keys() == expected.keys()
            for name in expected:
                # Ω is a mean over active pairs: both halves have the same number of them, so the mean of means is the mean.
                torch.testing.assert_close(found[name], expected[name], rtol=1e-11, atol=1e-13)
    # Not the same numbers with and without Ω: otherwise the second comparison would be the first one again.
    with_omega, without = gradients(layer(2.0), batch()), gradients(layer(0.0), batch())
    assert not torch.allclose(with_omega["weight_hh_l0"], without["weight_hh_l0"])

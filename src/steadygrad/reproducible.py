"""What makes a run come out the same everywhere: a generator of its own for each purpose, and a fixed number of threads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch


def stream(seed: int, *purpose: object) -> torch.Generator:
    """A generator of its own for each purpose, so that no use of chance disturbs another.

    >>> bool(torch.rand(1, generator=stream(1, "init")) == torch.rand(1, generator=stream(1, "test", 0)))
    False
    """
    name = " ".join(map(str, (seed, *purpose)))
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1)


def threads(number: int | None) -> AbstractContextManager[None]:
    """Let torch use `number` threads while this lasts; None leaves them as they are.

    A run holds torch at one thread and gives more to the recurrent layer alone: torch's products and sums round differently on
    another number of threads, the layer's kernel does not. So results do not depend on the number of threads.
    """
    return _AS_THEY_ARE if number is None or number == torch.get_num_threads() else _changed(number)


_AS_THEY_ARE = nullcontext()


@contextmanager
def _changed(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)

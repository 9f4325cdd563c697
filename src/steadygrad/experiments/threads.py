"""How many threads compute what.

A run holds torch at one thread and gives more to the recurrent layer alone. torch's products and sums (the read-out, the
gradient's norm) round differently on another number of threads; the layer's kernel does not, so the results of a run do not
depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def threads(number: int | None) -> Iterator[None]:
    """Let torch use `number` threads while this lasts; None leaves them as they are."""
    before = torch.get_num_threads()
    if number is None or number == before:
        yield
        return
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)

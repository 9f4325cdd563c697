"""Whole numbers, each uniform over a range of its own, drawn all at once.

    k_rb uniform over {low_r, …, low_r + width_r − 1}     [R, B]
    k_rb = low_r + (m_rb mod width_r),  m_rb uniform over {0, …, M − 1},  M = lcm(width_1, …, width_R)

Every width divides M, so the remainder is exactly uniform. One draw for all ranges, rather than one for each, is what
keeps the making of a batch an order of magnitude cheaper than learning from it.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor


def uniform_over(ranges: tuple[range, ...], batch: int, generator: torch.Generator) -> Tensor:
    """`batch` whole numbers from each of R ranges: int64 [R, batch].

    >>> uniform_over((range(2, 3), range(7, 8)), 4, torch.Generator())
    tensor([[2, 2, 2, 2],
            [7, 7, 7, 7]])
    """
    multiple, low, width = _residues(ranges, generator.device)
    m = torch.randint(multiple, (len(ranges), batch), generator=generator, device=generator.device)
    return m.remainder_(width).add_(low)


@lru_cache(maxsize=4096)
def _residues(ranges: tuple[range, ...], device: torch.device) -> tuple[int, Tensor, Tensor]:
    low = torch.tensor([[r.start] for r in ranges], device=device)
    width = torch.tensor([[len(r)] for r in ranges], device=device)
    return math.lcm(*map(len, ranges)), low, width

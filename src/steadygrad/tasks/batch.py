"""A batch of sequences, and the steps of it at which an answer is asked for.

    u = inputs   [T, B] int64 tokens, or [T, B, C] float32 channels
    d = targets  [S, B] int64 classes, or [S, B, O] float32 values
    S            the number of steps that count, steps.stop − steps.start

The steps that count are one run of neighbours, the same for every sequence of the batch. Hence a slice, and not a
mask, is what a training loop needs: `readout(hidden[batch.steps])` reads the network out there and nowhere else.

Whole numbers, each uniform over a range of its own, are drawn all at once:

    k_rb uniform over {low_r, …, low_r + width_r − 1}     [R, B]
    k_rb = low_r + (m_rb mod width_r),  m_rb uniform over {0, …, M − 1},  M = lcm(width_1, …, width_R)

Every width divides M, so the remainder is exactly uniform. One draw for all ranges, rather than one for each, is what
keeps the making of a batch an order of magnitude cheaper than learning from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Sequences, their targets, and the steps at which the targets are due.

    Args:
        inputs: what the network sees, time first: tokens [T, B] int64, or channels [T, B, C] float32.
        targets: what it should answer at the steps that count: classes [S, B] int64, or values [S, B, O] float32.
        steps: the steps that count, `hidden[steps]` being [S, B, H] for hidden states [T, B, H].

    >>> batch = Batch(torch.zeros(4, 2, dtype=torch.int64), torch.zeros(1, 2, dtype=torch.int64), slice(3, 4))
    >>> torch.randn(4, 2, 50)[batch.steps].shape
    torch.Size([1, 2, 50])
    >>> batch.mask
    tensor([False, False, False,  True])
    """

    inputs: Tensor
    targets: Tensor
    steps: slice

    @property
    def mask(self) -> Tensor:
        """The steps that count as bool [T], the same for all sequences of the batch."""
        mask = torch.zeros(len(self.inputs), dtype=torch.bool, device=self.inputs.device)
        mask[self.steps] = True
        return mask


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

"""Temporal order: in which order did the symbols A and B come? (Pascanu et al. 2013, supplement.)

    u_t ∈ {A, B, c, d, e, f} = {0, …, 5}     [T, B]
    u_{p_k} = s_k ∈ {A, B} at n marked steps p_1 < … < p_n; a distractor, c to f, at all others
    d = Σ_k s_k 2^{n−k}                      [1, B], due at the last step: AA, AB, BA, BB = 0, 1, 2, 3

Steps are counted from 0. Marked step k is uniform over the whole numbers in its own range:

                    "paper"                                 "program"
    two symbols     [T/10, 2T/10], [4T/10, 5T/10]           [T/10, 2T/10), [5T/10, 6T/10)
    three           [T/10, 2T/10], [3T/10, 4T/10],          [T/10, 2T/10), [3T/10, 4T/10),
                    [6T/10, 7T/10]                          [6T/10, 7T/10)

The program rounds the lower end of a range and T/10, its width, down. The ranges never meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import ClassVar, Literal

import torch
from torch import Tensor

from steadygrad.checks import one_of
from steadygrad.tasks.task import Batch, Classification, uniform_over

DISTRACTORS = (2, 6)


@dataclass(frozen=True)
class TemporalOrder(Classification):
    """Two symbols of {A, B} lie among distractors; at the last step, say which they were, in order (4 classes).

    Args:
        positions: `"paper"`, the ranges of marked steps in the paper, or `"program"`, those of its authors' program.

    Sampled inputs are tokens [length, B] out of 6 and targets classes [1, B] out of 4.

    >>> task = TemporalOrder()
    >>> batch = task.sample(batch=3, length=20, generator=torch.Generator().manual_seed(0))
    >>> batch.inputs.shape, batch.targets.shape, batch.steps
    (torch.Size([20, 3]), torch.Size([1, 3]), slice(19, 20, None))
    >>> symbols = [token for token in batch.inputs[:, 0].tolist() if token in (0, 1)]
    >>> 2 * symbols[0] + symbols[1] == batch.targets[0, 0].item()
    True

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "Temporal order problem"; Hochreiter & Schmidhuber 1997,
    experiment 6a.
    """

    name = "temporal-order"
    input_size = 6
    output_size = 4
    hidden_size = 50
    minimum_length = 10  # below it, a tenth of the sequence is less than a step
    tenths: ClassVar[dict[str, tuple[int, ...]]] = {"paper": (1, 4), "program": (1, 5)}

    positions: Literal["paper", "program"] = "paper"

    def __post_init__(self) -> None:
        one_of("positions", self.positions, self.tenths)

    def position_ranges(self, length: int) -> tuple[range, ...]:
        """The steps, counted from 0, at which each of the symbols may lie."""
        T = self._check_length(length)
        if self.positions == "paper":
            # The whole numbers of the closed range: its lower end is rounded up, its upper end down.
            return tuple(range(-(-a * T // 10), (a + 1) * T // 10 + 1) for a in self.tenths["paper"])
        return tuple(range(a * T // 10, a * T // 10 + T // 10) for a in self.tenths["program"])

    def _draw(self, batch: int, length: int, generator: torch.Generator) -> Batch:
        ranges = _position_ranges(self, length)
        n = len(ranges)
        u = torch.randint(*DISTRACTORS, (length, batch), generator=generator, device=generator.device)
        drawn = uniform_over((*ranges, range(self.output_size)), batch, generator)
        p, d = drawn[:n], drawn[n:]
        u.scatter_(0, p, _spelling(n, u.device).index_select(1, d[0]))
        return Batch(u, d, slice(length - 1, length))


@lru_cache(maxsize=4096)
def _position_ranges(task: TemporalOrder, length: int) -> tuple[range, ...]:
    return task.position_ranges(length)


@cache
def _spelling(n: int, device: torch.device) -> Tensor:
    """The symbols s_1 … s_n of every class, int64 [n, 2^n]."""
    return torch.tensor(list(product((0, 1), repeat=n)), device=device).T.contiguous()


@dataclass(frozen=True)
class TemporalOrder3bit(TemporalOrder):
    """Temporal order with three symbols of {A, B}: 8 classes, AAA, AAB, …, BBB = 0, 1, …, 7.

    Args:
        positions: `"paper"` or `"program"`: here the same ranges, but for a step at their ends.

    Sampled inputs are tokens [length, B] out of 6 and targets classes [1, B] out of 8.

    >>> batch = TemporalOrder3bit().sample(batch=3, length=20, generator=torch.Generator().manual_seed(0))
    >>> sum(token in (0, 1) for token in batch.inputs[:, 0].tolist())
    3

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "3-bit temporal order problem"; Hochreiter & Schmidhuber
    1997, experiment 6b.
    """

    name = "temporal-order-3bit"
    output_size = 8
    hidden_size = 100
    tenths: ClassVar[dict[str, tuple[int, ...]]] = {"paper": (1, 3, 6), "program": (1, 3, 6)}

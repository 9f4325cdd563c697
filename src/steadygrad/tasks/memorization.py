"""Noiseless memorization: repeat a pattern after T blank steps. (Pascanu et al. 2013, supplement.)

    s_1, …, s_n ∈ {0, …, v − 1}              the pattern, uniform; blank = v, go = v + 1
    steps          0 … n−1     n … n+T−1     n+T      n+T+1 … 2n+T−1
    u  [2n+T, B]   s_1 … s_n   blank         go       blank
    d  [2n+T, B]   blank       blank         s_1      s_2 … s_n

    5 bits:  n = 5,  v = 2        20 bits:  n = 10,  v = 5 (23 bits)

This is the layout of the authors' program: the cue "go" comes with the first step of the recall. `counted="pattern"`
(the default) asks for an answer at the n steps of the recall alone: it is what the paper's text asks for ("after these
T steps the model needs to generate the pattern"), it reads the network out at n steps instead of 2n+T, and the mean
over counted steps is then not drowned in T+n blanks. `counted="all"` asks for blanks at all other steps too, as the
program does. In both a sequence is right only when every counted step is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from steadygrad.checks import one_of
from steadygrad.tasks.task import Batch, Classification


@dataclass(frozen=True)
class Memorization(Classification):
    """What both variants share: n symbols of v values each, T blanks, a cue, and the recall.

    The paper does not give the number of hidden units for these tasks. 100 is this library's choice, the size the
    paper takes for its other hard tasks.
    """

    hidden_size = 100
    minimum_length = 1
    pattern_length: ClassVar[int]
    values: ClassVar[int]

    counted: Literal["pattern", "all"] = "pattern"

    def __post_init__(self) -> None:
        one_of("counted", self.counted, ("pattern", "all"))

    def total_steps(self, length: int) -> int:
        """The steps of a batch: the pattern, `length` blanks, the recall."""
        return self._check_length(length) + 2 * self.pattern_length

    def _draw(self, batch: int, length: int, generator: torch.Generator) -> Batch:
        n, v, device = self.pattern_length, self.values, generator.device
        blank, go = v, v + 1
        recall = slice(n + length, 2 * n + length)
        s = torch.randint(v, (n, batch), generator=generator, device=device)
        u = torch.full((recall.stop, batch), blank, device=device)
        u[:n] = s
        u[recall.start] = go
        if self.counted == "pattern":
            return Batch(u, s, recall)
        d = torch.full_like(u, blank)
        d[recall] = s
        return Batch(u, d, slice(0, recall.stop))


@dataclass(frozen=True)
class Memorization5bit(Memorization):
    """Repeat five binary symbols after `length` blank steps.

    Args:
        counted: `"pattern"`, only the recall counts, or `"all"`, blanks must be predicted everywhere else.

    Sampled inputs are tokens [length + 10, B] out of 4 and targets classes out of 3, [5, B] (`"pattern"`) or
    [length + 10, B] (`"all"`).

    >>> task = Memorization5bit()
    >>> batch = task.sample(batch=3, length=20, generator=torch.Generator().manual_seed(0))
    >>> bool((batch.inputs[:5] == batch.targets).all()), batch.steps, task.total_steps(20)
    (True, slice(25, 30, None), 30)

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "Noiseless memorization problem".
    """

    name = "memorization-5bit"
    pattern_length = 5
    values = 2
    input_size = values + 2
    output_size = values + 1


@dataclass(frozen=True)
class Memorization20bit(Memorization):
    """Repeat ten symbols of five values after `length` blank steps.

    Args:
        counted: `"pattern"`, only the recall counts, or `"all"`, blanks must be predicted everywhere else.

    Sampled inputs are tokens [length + 20, B] out of 7 and targets classes out of 6, [10, B] (`"pattern"`) or
    [length + 20, B] (`"all"`).

    >>> batch = Memorization20bit(counted="all").sample(2, length=3, generator=torch.Generator().manual_seed(0))
    >>> batch.inputs[10:, 0].tolist()
    [5, 5, 5, 6, 5, 5, 5, 5, 5, 5, 5, 5, 5]
    >>> bool((batch.targets[13:] == batch.inputs[:10]).all())
    True

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "Noiseless memorization problem"; Martens & Sutskever 2011.
    """

    name = "memorization-20bit"
    pattern_length = 10
    values = 5
    input_size = values + 2
    output_size = values + 1

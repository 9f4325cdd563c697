"""Addition and multiplication of two marked numbers. (Pascanu et al. 2013, supplement.)

    u_t = (x_t, m_t)                         [T', B, 2] float32: x_t uniform on [0, 1), m_t = 1 at steps i and j, else 0
    T' uniform on {T, …, ⌊11T/10⌋}           one draw for the whole batch, whose sequences must end together
    d = (x_i + x_j)/2   addition             [1, B, 1], due at the last step
    d = x_i x_j         multiplication

The paper counts steps from 1 here: i ∈ [1, T'/10] and j ∈ [T'/10, T'/2]. The ranges share the step T'/10, where i and
j could fall together and leave one mark only; it is given to i alone. Counted from 0, as tensors are, this reads

    i ∈ {0, …, ⌊T'/10⌋ − 1},   j ∈ {⌊T'/10⌋, …, ⌊T'/2⌋ − 1},

which is, up to rounding, what the authors' program draws. The program, too, halves the sum and does not halve the product.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from steadygrad.tasks.task import Batch, Regression, uniform_over


@dataclass(frozen=True)
class MarkedNumbers(Regression):
    """What addition and multiplication share: random numbers, two of them marked, one answer at the last step."""

    input_size = 2
    output_size = 1
    hidden_size = 50
    minimum_length = 10  # below it, a tenth of the sequence is less than a step

    def total_steps(self, length: int) -> int:
        """The most steps a batch drawn for `length` can have: ⌊11/10 length⌋."""
        return 11 * self._check_length(length) // 10

    def position_ranges(self, steps: int) -> tuple[range, range]:
        """The steps, counted from 0, at which the first and the second mark may lie in sequences of T' = `steps`."""
        self._check_length(steps)
        return range(steps // 10), range(steps // 10, steps // 2)

    def _draw(self, batch: int, length: int, generator: torch.Generator) -> Batch:
        device = generator.device
        steps = int(torch.randint(length, self.total_steps(length) + 1, (), generator=generator, device=device))
        u = torch.zeros(steps, batch, self.input_size, dtype=torch.float32, device=device)
        x, m = u.unbind(dim=-1)
        x.uniform_(generator=generator)
        ij = uniform_over(self.position_ranges(steps), batch, generator)
        m.scatter_(0, ij, 1.0)
        d = self._combine(x.gather(0, ij)).view(1, batch, 1)
        return Batch(u, d, slice(steps - 1, steps))

    @abstractmethod
    def _combine(self, x_ij: Tensor) -> Tensor:
        """The targets [B] of the two marked numbers [2, B]."""


@dataclass(frozen=True)
class Addition(MarkedNumbers):
    """At the last step, give half the sum of the two marked numbers.

    Args:
        criterion: when an answer is right: `"absolute"` error < 0.04, or `"squared"` error < 0.04 (the program's).

    Sampled inputs are (number, mark) [T', B, 2] and targets [1, B, 1]; T' varies between batches, from `length` up to
    `total_steps(length)`.

    >>> task = Addition()
    >>> batch = task.sample(batch=3, length=20, generator=torch.Generator().manual_seed(0))
    >>> number, mark = batch.inputs.unbind(-1)
    >>> bool(torch.allclose((number * mark).sum(0) / 2, batch.targets[0, :, 0]))
    True

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "Addition problem"; Hochreiter & Schmidhuber 1997,
    experiment 4.
    """

    name = "addition"

    def _combine(self, x_ij: Tensor) -> Tensor:
        return x_ij.mean(dim=0)


@dataclass(frozen=True)
class Multiplication(MarkedNumbers):
    """At the last step, give the product of the two marked numbers.

    Args:
        criterion: when an answer is right: `"absolute"` error < 0.04, or `"squared"` error < 0.04 (the program's).

    Sampled inputs are (number, mark) [T', B, 2] and targets [1, B, 1], as in `Addition`.

    >>> batch = Multiplication().sample(batch=3, length=20, generator=torch.Generator().manual_seed(0))
    >>> number, mark = batch.inputs.unbind(-1)
    >>> bool(torch.allclose(number.where(mark == 1, torch.ones(())).prod(0), batch.targets[0, :, 0]))
    True

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "Multiplication problem"; Hochreiter & Schmidhuber 1997,
    experiment 5.
    """

    name = "multiplication"

    def _combine(self, x_ij: Tensor) -> Tensor:
        return x_ij.prod(dim=0)

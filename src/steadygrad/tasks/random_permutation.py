"""Random permutation: the last symbol repeats the first. (Pascanu et al. 2013, supplement.)

    z_0, …, z_T ∈ {0, …, 99}                 T + 1 symbols; the paper numbers them from 1
    z_0 = z_T ∈ {0, 1};  z_t ∈ {2, …, 99} for 0 < t < T
    u_t = z_t,  t = 0, …, T − 1              [T, B]
    d_t = z_{t+1}                            the next symbol; only d_{T−1} = z_T can be known

`predict="last"` asks for d_{T−1} alone, [1, B], as the authors' program trains; `predict="all"` asks for all of d,
[T, B], as the paper's text says ("the task is to do next symbol prediction"). Either way a sequence is right when its
last symbol is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from steadygrad.checks import one_of
from steadygrad.tasks.task import Batch, Classification

KEYS = (0, 2)
FILLERS = (2, 100)


@dataclass(frozen=True)
class RandomPermutation(Classification):
    """Predict the last symbol, which is the first one again, with noise of 98 other symbols between.

    Args:
        predict: `"last"`, the loss is that of the last step alone, or `"all"`, its mean over all steps, at all but
            the last of which there is nothing to learn but the symbols' frequencies.

    Sampled inputs are tokens [length, B] out of 100; targets are classes [1, B] (`"last"`) or [length, B] (`"all"`,
    sharing memory with the inputs) out of 100.

    >>> task = RandomPermutation()
    >>> batch = task.sample(batch=3, length=20, generator=torch.Generator().manual_seed(0))
    >>> bool((batch.inputs[0] == batch.targets[0]).all())
    True

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "Random permutation problem"; Hochreiter & Schmidhuber
    1997, experiment 2b.
    """

    name = "random-permutation"
    input_size = 100
    output_size = 100
    hidden_size = 100
    minimum_length = 1

    predict: Literal["last", "all"] = "last"

    def __post_init__(self) -> None:
        one_of("predict", self.predict, ("last", "all"))

    def _draw(self, batch: int, length: int, generator: torch.Generator) -> Batch:
        device = generator.device
        z = torch.randint(*FILLERS, (length + 1, batch), generator=generator, device=device)
        z[::length] = torch.randint(*KEYS, (batch,), generator=generator, device=device)
        first_counted = 0 if self.predict == "all" else length - 1
        return Batch(z[:length], z[first_counted + 1 :], slice(first_counted, length))

    def _right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return super()._right(outputs[-1:], targets[-1:])

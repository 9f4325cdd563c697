"""Recall: name the first token at the end, after a delay of distractors. No task of the paper.

    u_0 = s ∈ {0, …, 7}                      the token to recall
    u_t, 0 < t < T                           distractors: "other", t ∈ {8, …, 15}; "same", again of {0, …, 7}
    d = s                                    [1, B], due at the last step

With "same" distractors 8 tokens are all there is: the first is told from the others by its place alone, so a network must let
the first one in and keep all later ones out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from steadygrad.checks import one_of
from steadygrad.tasks.task import Batch, Classification

TOKENS = 8


@dataclass(frozen=True)
class Recall(Classification):
    """At the last step, name the first of 8 tokens.

    Args:
        distractors: `"other"`, of 8 tokens of their own, or `"same"`, of the tokens to recall.

    Sampled inputs are tokens [length, B] out of 16 and targets classes [1, B] out of 8.

    >>> batch = Recall().sample(batch=3, length=20, generator=torch.Generator().manual_seed(0))
    >>> bool((batch.inputs[0] == batch.targets[0]).all()), bool((batch.inputs[1:] >= 8).all())
    (True, True)
    """

    name = "recall"
    input_size = 2 * TOKENS
    output_size = TOKENS
    hidden_size = 50
    minimum_length = 2

    distractors: Literal["other", "same"] = "other"

    def __post_init__(self) -> None:
        one_of("distractors", self.distractors, ("other", "same"))

    def _draw(self, batch: int, length: int, generator: torch.Generator) -> Batch:
        first = TOKENS if self.distractors == "other" else 0
        u = torch.randint(first, first + TOKENS, (length, batch), generator=generator, device=generator.device)
        u[0].random_(0, TOKENS, generator=generator)
        return Batch(u, u[:1], slice(length - 1, length))

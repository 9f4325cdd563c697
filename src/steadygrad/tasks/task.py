"""What the synthetic tasks of Pascanu et al. 2013 (supplement, "The pathological synthetic tasks") share.

    y = outputs  [S, B, O], the linear read-out at the S steps that count
    d = targets  [S, B] classes, or [S, B, O] values

    classification   E = −1/(S B) Σ_s Σ_b log softmax(y_sb)[d_sb]      right where argmax y_sb = d_sb at every s
    regression       E = 1/(S B O) Σ_s Σ_b ‖y_sb − d_sb‖²              right where |y_sb − d_sb| < 0.04 throughout

Both losses are the mean over the batch *and* over the steps that count, as in the authors' program, so a gradient's
norm (and a clipping threshold) does not grow with the number of answers asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from steadygrad.checks import one_of, whole
from steadygrad.tasks.batch import Batch


@dataclass(frozen=True)
class Task(ABC):
    """One synthetic task: it draws batches, and says how wrong and whether right the answers to them are.

    Attributes:
        name: what `steadygrad.tasks.get` calls it.
        kind: `"classification"` or `"regression"`.
        tokens: whether inputs are integer tokens [T, B] (to be seen as one-hot vectors) or float channels [T, B, C].
        input_size: the number of tokens, or of channels C.
        output_size: the number of classes, or of values to predict: the width O of the read-out.
        hidden_size: the number of hidden units the paper uses.
        minimum_length: the shortest `length` that has room for the task.
    """

    name: ClassVar[str]
    kind: ClassVar[Literal["classification", "regression"]]
    tokens: ClassVar[bool]
    input_size: ClassVar[int]
    output_size: ClassVar[int]
    hidden_size: ClassVar[int]
    minimum_length: ClassVar[int]

    def sample(self, batch: int, length: int, generator: torch.Generator) -> Batch:
        """Draw a batch of new sequences.

        Args:
            batch: the number of sequences, B.
            length: the paper's T, at least `minimum_length`. How many steps that makes: `total_steps(length)`.
            generator: the only source of chance. The batch lives on its device, and a CPU generator in the same
                state gives the same batch on every machine.

        Returns:
            a `Batch` of inputs, targets and the steps that count.
        """
        whole("batch", batch)
        self._check_length(length)
        if not isinstance(generator, torch.Generator):
            raise TypeError(f"generator must be a torch.Generator, not {generator!r}")
        return self._draw(batch, length, generator)

    def total_steps(self, length: int) -> int:
        """The most steps a batch drawn for `length` can have."""
        return self._check_length(length)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The error E: the mean over the batch and over the steps that count.

        Args:
            outputs: the read-out at the steps that count, [S, B, output_size].
            batch: the batch they answer.

        Returns:
            a scalar.
        """
        self._check_outputs(outputs, batch)
        return self._error(outputs, batch.targets)

    def is_correct(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Which sequences are answered right. An answer that holds a NaN never is.

        Args:
            outputs: the read-out at the steps that count, [S, B, output_size].
            batch: the batch they answer.

        Returns:
            bool [B].
        """
        self._check_outputs(outputs, batch)
        return self._right(outputs, batch.targets).all(dim=0)

    def _draw(self, batch: int, length: int, generator: torch.Generator) -> Batch:
        """`sample`, its arguments already checked; a task has this one or its own `sample`."""
        raise NotImplementedError(f"{type(self).__name__} must have sample(batch, length, generator)")

    @abstractmethod
    def _error(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The scalar loss of outputs [S, B, O]."""

    @abstractmethod
    def _right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Which answers are right, step by step: bool [S, B]."""

    def _check_length(self, length: int) -> int:
        return whole(f"length of {self.name}", length, low=self.minimum_length)

    def _check_outputs(self, outputs: Tensor, batch: Batch) -> None:
        steps, sequences = batch.targets.shape[:2]
        expected = (steps, sequences, self.output_size)
        if outputs.shape != expected:
            raise ValueError(
                f"outputs of {self.name} must have the shape {expected} (steps that count, batch, output_size), "
                f"not {tuple(outputs.shape)}: read out hidden[batch.steps]"
            )


@dataclass(frozen=True)
class Classification(Task):
    """A task whose targets are classes [S, B]: cross-entropy, and right only if every step that counts is."""

    kind = "classification"
    tokens = True

    def _error(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def _right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # argmax takes a NaN for the largest entry: a network that diverged would otherwise be right by chance.
        return (outputs.argmax(dim=-1) == targets) & ~outputs.isnan().any(dim=-1)


@dataclass(frozen=True)
class Regression(Task):
    """A task whose targets are values [S, B, O]: mean squared error, and right within a tolerance of 0.04.

    Args:
        criterion: `"absolute"`, |y − d| < 0.04 (the paper's "the error is less than 0.04", and the older
            literature's), or `"squared"`, (y − d)² < 0.04, that is |y − d| < 0.2 (the authors' program).
    """

    tolerance: ClassVar[float] = 0.04
    kind = "regression"
    tokens = False

    criterion: Literal["absolute", "squared"] = "absolute"

    def __post_init__(self) -> None:
        one_of("criterion", self.criterion, ("absolute", "squared"))

    def _error(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(outputs, targets.to(outputs.dtype))

    def _right(self, outputs: Tensor, targets: Tensor) -> Tensor:
        difference = outputs - targets
        error = difference.square() if self.criterion == "squared" else difference.abs()
        return (error < self.tolerance).all(dim=-1)

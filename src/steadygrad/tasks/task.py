"""What the synthetic tasks of Pascanu et al. 2013 (supplement, "The pathological synthetic tasks") share.

    u = inputs   [T, B] int64 tokens, or [T, B, C] float32 channels
    d = targets  [S, B] int64 classes, or [S, B, O] float32 values
    y = outputs  [S, B, O], the linear read-out at the S steps that count: one run of neighbours, the same for every sequence
                 of a batch, so that a slice reads them, `readout(hidden[batch.steps])`, and no mask is needed

    classification   E = −1/(S B) Σ_s Σ_b log softmax(y_sb)[d_sb]      right where argmax y_sb = d_sb at every s
    regression       E = 1/(S B O) Σ_s Σ_b ‖y_sb − d_sb‖²              right where |y_sb − d_sb| < 0.04 throughout

    without autograd:   ∂E/∂y = (softmax(y) − onehot(d)) / (S B)  and  2 (y − d) / (S B O)

Both losses are the mean over the batch *and* over the steps that count, as in the authors' program, so a gradient's
norm (and a clipping threshold) does not grow with the number of answers asked for.

Whole numbers, each uniform over a range of its own, are drawn all at once:

    k_rb uniform over {low_r, …, low_r + width_r − 1}     [R, B]
    k_rb = low_r + (m_rb mod width_r),  m_rb uniform over {0, …, M − 1},  M = lcm(width_1, …, width_R)

Every width divides M, so the remainder is exactly uniform. One draw for all ranges, rather than one for each, is what
keeps the making of a batch an order of magnitude cheaper than learning from it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from steadygrad.checks import one_of, whole


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


def loss_by_hand(problem: object) -> Callable[[Tensor, Tensor], tuple[float, Tensor]] | None:
    """What works out E and ∂E/∂y of a drawn problem by hand; None where it has a loss of its own."""
    if not isinstance(problem, Task) or type(problem).loss is not Task.loss:
        return None
    by_hand = {Classification._error: _cross_entropy, Regression._error: _squared_error}
    return by_hand.get(type(problem)._error)


def _cross_entropy(y: Tensor, targets: Tensor) -> tuple[float, Tensor]:
    """Of y [S B, O] and classes [S, B]."""
    d = targets.reshape(-1)
    log_p = torch.log_softmax(y, 1)
    E = F.nll_loss(log_p, d).item()
    return E, log_p.exp_().scatter_add_(1, d.unsqueeze(1), _minus_ones(len(y), y.dtype, y.device)).div_(len(y))


@lru_cache(maxsize=64)
def _minus_ones(rows: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """[rows, 1], to be read alone."""
    return torch.full((rows, 1), -1.0, dtype=dtype, device=device)


def _squared_error(y: Tensor, targets: Tensor) -> tuple[float, Tensor]:
    """Of y [S B, O] and values [S, B, O]."""
    difference = y - targets.flatten(0, 1)
    return difference.square().mean().item(), difference.mul_(2 / difference.numel())

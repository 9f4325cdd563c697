"""What one backward pass saw, step by step: a by-product of it, read after `loss.backward()`.

    norms_k  = mean over the batch of ‖error of step k‖        the error is ∂E/∂x_k (∂E/∂h_k for leaky units or "program")
    ratios_k = mean over active pairs of ‖v_k‖ / ‖error_{k+1}‖ how much of its norm the error keeps from step k+1 to k
    horizon  = the largest n with the product of the last n ratios above 1 %
    growth   = the largest product of the last n ratios, over all n: how much the error grew on its way back, at least 1

Ratios are about the way through time alone: with a loss at every step the norms are topped up on the way, the ratios not.
The squared norms are kept as they came, [2, T, B]; everything else is worked out when it is asked for.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportPrivateUsage=false
# (much of what is used of torch here is not annotated)

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, overload

import torch
from torch import Tensor

from . import regularizer
from .recurrence.options import Options

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_T = TypeVar("_T")

KEPT = 0.01
"""The share of its norm below which the error counts as gone (`horizon`)."""
GROWN = 10.0
"""From this growth on, a flow says that its error grows."""


class Fault(NamedTuple):
    """Where a value was first not finite: in the forward pass, or, if that was sound, on the way back."""

    what: str
    """'input', 'state' or 'error'."""
    step: int

    def __str__(self) -> str:
        return f"not finite: the {self.what} of step {self.step}"


@dataclass(frozen=True)
class CellFlow:
    """One layer and direction. Steps are in the order of the input; a reversed direction sends its errors upwards."""

    name: str
    """As in the parameters' names: 'l0', 'l0_reverse', 'l1', …"""
    measured: Tensor
    """[2, T, B] float64: squared norms of the errors, and of what each step sends back to the one before it."""
    options: Options
    lengths: Tensor | None = None
    """[B], where the sequences were padded."""
    fault: Fault | None = None
    """Where a value was first not finite; None where all were. `omega` is then NaN, `active` and `horizon` 0."""

    @property
    def norms(self) -> Tensor:
        """[T]: the mean of the error's norm over the sequences that have this step."""
        running = self._running()
        return (self.measured[0].sqrt() * running).sum(1) / running.sum(1)

    @property
    def ratios(self) -> Tensor:
        """[T − 1]: entry k is the mean of ‖v_k‖ / ‖error_{k+1}‖ over active pairs; NaN where no pair is active."""
        ratio, active = (self._later(each) for each in self._pairs)
        return (ratio * active).sum(1) / active.sum(1)

    @property
    def omega(self) -> float:
        """Ω: 0 where the error keeps its norm, or where there is no error at all; NaN where an error is not finite."""
        is_finite = bool(self.measured.sum(0).isfinite().all())
        return regularizer.mean(*self._pairs, self.options.convention).item() if is_finite else math.nan

    @property
    def active(self) -> float:
        """The share of (step, sequence) pairs that Ω saw. Padded steps are no pairs."""
        _, active = self._pairs
        return (active.sum() / self._running()[1:].sum().clamp(min=1)).item()

    @property
    def horizon(self) -> int:
        """How many steps back the error keeps more than 1 % of its norm, counted from the last step that has one."""
        return int((self._left() > KEPT).long().cumprod(0).sum())

    @property
    def growth(self) -> float:
        """How many times larger the error became on its way back, at most: 1 where it never grew, infinite at a fault."""
        if self.fault is not None:
            return torch.inf
        return max(1.0, float(self._left().amax())) if len(self._left()) else 1.0

    def _left(self) -> Tensor:
        """The share of the error that is left 1, 2, … steps back, from the last step that has one."""
        ratios = self.ratios if self.options.reverse else self.ratios.flip(0)
        seen = torch.nonzero(~ratios.isnan()).flatten()
        return ratios[int(seen[0]) :].nan_to_num(0.0).log().cumsum(0).exp() if len(seen) else ratios[:0]

    @cached_property
    def _pairs(self) -> tuple[Tensor, Tensor]:
        """Ratio of every pair, and which are active: [T, B] each."""
        return regularizer.ratios(self.measured[0], self.measured[1], self.options.convention)

    def _running(self) -> Tensor:
        _, steps, batch = self.measured.shape
        lengths = torch.full((batch,), steps) if self.lengths is None else self.lengths
        return torch.arange(steps, device=lengths.device).unsqueeze(1) < lengths

    def _later(self, of_steps: Tensor) -> Tensor:
        # What travels between steps k and k+1 is stored with the one that sends it: the later, or in reverse the earlier.
        return of_steps[:-1] if self.options.reverse else of_steps[1:]

    def __str__(self) -> str:
        steps = self.measured.shape[1]
        if self.fault is not None:
            return f"{self.name}: {steps} steps, {self.fault}"
        grown = f", error grows {self.growth:.3g}-fold" if self.growth > GROWN else ""
        return f"{self.name}: {steps} steps, Ω {self.omega:.4g} over {self.active:.0%} of pairs, horizon {self.horizon}{grown}"


class GradientFlow(Sequence[CellFlow]):
    """The flow of every layer and direction, in the order of the layer's parameters.

    `flow[0].norms` is one of them. `flow.norms`, `.ratios`, `.omega`, `.active`, `.horizon` and `.growth` are all of them at
    once, along a leading axis; with a single layer and direction that axis is dropped. Before the first backward pass it is
    empty.

    Example:
        >>> import torch, steadygrad as sg
        >>> rnn = sg.RNN(3, 8)
        >>> output, _ = rnn(torch.randn(20, 4, 3))
        >>> output[-1].sum().backward()
        >>> rnn.flow.norms.shape, rnn.flow.active
        (torch.Size([20]), 1.0)
    """

    def __init__(self, cells: Sequence[CellFlow]) -> None:
        self._cells = tuple(cells)

    @overload
    def __getitem__(self, index: int) -> CellFlow: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[CellFlow]: ...
    def __getitem__(self, index: int | slice) -> CellFlow | Sequence[CellFlow]:
        return self._cells[index]

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[CellFlow]:
        return iter(self._cells)

    @property
    def norms(self) -> Tensor:
        return _joined([cell.norms for cell in self])

    @property
    def ratios(self) -> Tensor:
        return _joined([cell.ratios for cell in self])

    @property
    def omega(self) -> float | list[float]:
        return _single([cell.omega for cell in self])

    @property
    def active(self) -> float | list[float]:
        return _single([cell.active for cell in self])

    @property
    def horizon(self) -> int | list[int]:
        return _single([cell.horizon for cell in self])

    @property
    def growth(self) -> float | list[float]:
        return _single([cell.growth for cell in self])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws what is left of the last step's error 1, 2, … steps back: one line for each layer and direction.

        With a loss at every step this is not the norm, which is topped up on the way, but what one step's error becomes.

        Args:
            ax: where to draw; a new figure of pyplot if None. Needs matplotlib.

        Returns:
            The Axes.
        """
        _some(list(self))
        from . import plotting

        ax = plotting.axes(ax)
        for cell in self:
            left = torch.cat([torch.ones(1, dtype=cell.measured.dtype), cell._left().cpu()])
            label = f"{cell.name}: {cell.fault}" if cell.fault else f"{cell.name}, horizon {cell.horizon}"
            ax.plot(range(len(left)), plotting.powers(left.log()), label=label)
        ax.axhline(math.log10(KEPT), color=plotting.GREY, linestyle=":", linewidth=1, label=f"{KEPT:.0%} is left")
        ax.set(xlabel="lag: steps back from the last", ylabel="share of the error", title="What is left of the error")
        plotting.powers_of_ten(ax)
        plotting.whole_numbers(ax)
        plotting.legend_below(ax)
        return ax

    def __repr__(self) -> str:
        return "GradientFlow(" + ("; ".join(map(str, self)) or "no backward pass yet") + ")"


def _joined(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.stack(_some(values))


def _single(values: list[_T]) -> _T | list[_T]:
    return values[0] if len(values) == 1 else _some(values)


def _some(values: list[_T]) -> list[_T]:
    if not values:
        raise RuntimeError("flow is empty until loss.backward() has gone through this layer with record=True")
    return values


class Recorder:
    """Where a backward pass leaves what it measured. Holds numbers only: never a graph, never the layer.

    It keeps two tensors of the last shape and fills them in turn: a new one at every step would cost more than the
    measurement. What it gives away is therefore a copy.
    """

    _numbers = itertools.count()
    _alive: ClassVar[weakref.WeakValueDictionary[int, Recorder]] = weakref.WeakValueDictionary()

    def __init__(self, name: str) -> None:
        self.name = name
        self._seen: tuple[Tensor, Options, Tensor | None, Fault | Callable[[], Fault | None] | None] | None = None
        self._spare: Tensor | None = None
        number = next(self._numbers)
        self._alive[number] = self
        # A tensor: as a plain number it would be a constant of every compiled graph, which would then fit one layer alone.
        self.number = torch.tensor(number, device="cpu")

    @classmethod
    def numbered(cls, number: int) -> Recorder | None:
        """The recorder of that number, if it is still there: how a compiled graph refers to it."""
        return cls._alive.get(number)

    @property
    def last(self) -> CellFlow | None:
        """What the last backward pass left; None before the first."""
        if self._seen is None:
            return None
        measured, options, lengths, found = self._seen
        fault = found if found is None or isinstance(found, Fault) else found()
        return CellFlow(self.name, measured.transpose(1, 2).clone(), options, lengths, fault)

    def room(self, batch: int, steps: int) -> Tensor:
        """Where to write what is measured, [2, B, T] float64; the caller's alone until it is recorded."""
        room, self._spare = self._spare, None
        # what another backend or device left behind is laid out otherwise
        if room is None or room.shape != (2, batch, steps) or not (room.is_cpu and room.is_contiguous()):
            room = torch.empty(2, batch, steps, dtype=torch.float64)
        return room

    def record(
        self,
        measured: Tensor,
        options: Options,
        lengths: Tensor | None,
        fault: Fault | Callable[[], Fault | None] | None = None,
    ) -> None:
        """Take in [2, B, T]: squared norms of the errors, and of what each step sends back; and what was not finite.

        `fault` may be a function, which is asked when the flow is.
        """
        before, self._seen = self._seen, (measured, options, lengths, fault)
        self._spare = None if before is None else before[0]

    def __deepcopy__(self, memo: dict[int, Any]) -> Recorder:
        other = Recorder(self.name)
        if self._seen is not None:
            other._seen = (self._seen[0].clone(), *self._seen[1:])
        return other

    def __reduce__(self) -> tuple[type[Recorder], tuple[str]]:
        return Recorder, (self.name,)  # a saved model holds nothing of its gradients

"""Any cell as a layer over time, with Ω and the flow of its errors.

    s_{k+1} = cell(u_{k+1}, s_k)

The cell is a module of the user's, or torch's RNNCell, GRUCell, LSTMCell. It is called step by step (recurrence/stepwise.py).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportPrivateUsage=false
# (much of what is used of torch here is not annotated)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from .. import checks
from ..checks import WrongInputError, WrongTypeError
from ..flow import GradientFlow, Recorder
from ..recurrence import run as recurrence
from ..recurrence import stepwise
from ..recurrence.options import Options
from ..regularizer import CONVENTIONS

State = tuple[Tensor, ...]


class Recurrent(torch.nn.Module):
    """A layer over time made of one cell: `state = cell(input, state)`.

    Args:
        cell: a module called with the input of one step [B, …] and the state, a tensor [B, …] or a tuple of them. It returns
            the next state, of the same shapes. Sequences of a batch must not mix, and nothing may be changed in place.
        batch_first: input and output are [B, T, …].
        alpha: the factor of Ω, at least 0. An attribute: change it between steps for a schedule.
        omega: 'paper' compares norms; 'proceedings' and 'program' compare squared norms. The state is all that the cell hands
            on, as one vector.
        clip_error: each entry of the state's error is clipped to [−c, c] at every step on the way back.
        recurrent: names of the cell's parameters that get Ω's derivative. By default those called weight_hh; all of them where
            none is.

    Shapes:
        Input [T, B, …] or a PackedSequence. The initial state has the shape the cell takes; zeros if not given, where the
        cell says its `hidden_size` or has a method `initial_state(batch)`. Returns the (first part of the) state of every step,
        [T, B, …], and the last state.

    Ω is computed from one more call of the cell, on all steps at once; a cell with dropout or noise inside is refused there.

    Example:
        >>> import torch, steadygrad as sg
        >>> class Minimal(torch.nn.Module):
        ...     hidden_size = 8
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.gate, self.new = torch.nn.Linear(3 + 8, 8), torch.nn.Linear(3, 8)
        ...     def forward(self, input, state):
        ...         z = torch.sigmoid(self.gate(torch.cat([input, state], -1)))
        ...         return z * state + (1 - z) * torch.tanh(self.new(input))
        >>> layer = sg.Recurrent(Minimal(), alpha=1.0)
        >>> output, last = layer(torch.randn(20, 4, 3))
        >>> output[-1].sum().backward()
        >>> output.shape, layer.flow.active
        (torch.Size([20, 4, 8]), 1.0)
    """

    def __init__(
        self,
        cell: torch.nn.Module,
        *,
        batch_first: bool = False,
        alpha: float = 0.0,
        omega: str = "paper",
        clip_error: float | None = None,
        recurrent: Iterable[str] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(cell, torch.nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise WrongTypeError(f"cell must be a module called with (input, state), not a {type(cell).__name__}")
        if isinstance(cell, torch.nn.RNNBase):
            raise WrongTypeError(f"cell must compute one step; {type(cell).__name__} is a layer: use it as it is")
        self.cell = cell
        self.batch_first = checks.flag("batch_first", batch_first)
        self.alpha = alpha
        self.omega = checks.one_of("omega", omega, CONVENTIONS)
        self.clip_error = None if clip_error is None else checks.number("clip_error", clip_error, low=0, open_low=True)
        self.recurrent = _names(cell, recurrent)
        self.record = True
        self._recorder = Recorder("cell")
        self._is_checked = False

    @property
    def alpha(self) -> float:
        """The factor of Ω. Change it between steps for a schedule."""
        return self._alpha

    @alpha.setter
    def alpha(self, value: float) -> None:
        self._alpha = checks.number("alpha", value, low=0)

    @property
    def flow(self) -> GradientFlow:
        """What the last backward pass through this layer saw; empty before the first."""
        return GradientFlow([] if self._recorder.last is None else [self._recorder.last])

    def forward(self, input: Tensor | PackedSequence, state: Any = None) -> tuple[Any, Any]:
        """The state of every step (its first part) and the last state."""
        lengths: Tensor | None = None
        sequence = input
        if isinstance(input, PackedSequence):
            sequence, lengths = pad_packed_sequence(PackedSequence(input.data, input.batch_sizes))
            if state is not None and input.sorted_indices is not None:
                state = _each(state, lambda part: part.index_select(0, input.sorted_indices))
        elif self.batch_first:
            sequence = input.transpose(0, 1)
        assert isinstance(sequence, Tensor)
        if sequence.dim() < 2 or 0 in sequence.shape[:2]:
            raise WrongInputError(
                f"input must be [T, B, …] with a step and a sequence at least, not {tuple(sequence.shape)}"
            )
        if state is None:
            state = self._initial(sequence)
        self._check_cell(sequence[0], state)
        output, last = self._run(sequence, state, lengths)
        if isinstance(input, PackedSequence):
            assert lengths is not None
            data = pack_padded_sequence(output, lengths).data
            packed = PackedSequence(data, input.batch_sizes, input.sorted_indices, input.unsorted_indices)
            if input.unsorted_indices is not None:
                last = _each(last, lambda part: part.index_select(0, input.unsorted_indices))
            return packed, last
        return output.transpose(0, 1) if self.batch_first else output, last

    def _run(self, sequence: Tensor, state: Any, lengths: Tensor | None) -> tuple[Tensor, Any]:
        is_tensor, as_list = isinstance(state, Tensor), isinstance(state, list)
        plain = recurrence.is_exporting() or recurrence.is_transformed()
        if plain and (self.alpha > 0 or self.clip_error is not None) and not recurrence.is_exporting():
            raise RuntimeError(recurrence.NO_OMEGA_HERE)
        alpha, clip_error = (0.0, None) if plain else (self.alpha, self.clip_error)
        options = Options(alpha=alpha, convention=self.omega, clip_error=clip_error, mode="cell")
        names = self.recurrent if alpha > 0 else []

        def step(u: Tensor, before: State, recurrent: Sequence[Tensor]) -> State:
            given = before[0] if is_tensor else list(before) if as_list else before
            if recurrent:
                after = torch.func.functional_call(self.cell, dict(zip(names, recurrent, strict=True)), (u, given))
            else:
                after = self.cell(u, given)
            return self._checked(before, after)

        parameters = [self.cell.get_parameter(name) for name in names]
        recorder = self._recorder if self.record and not plain else None
        lengths = None if lengths is None else lengths.to(sequence.device)
        first = (state,) if is_tensor else tuple(state)
        run: Any = stepwise.run if plain else torch.compiler.disable(stepwise.run)
        output, last = run(step, sequence, first, parameters, options, recorder, lengths)
        return output, last[0] if is_tensor else list(last) if as_list else last

    def _initial(self, sequence: Tensor) -> Any:
        batch = sequence.shape[1]
        initial: Any = getattr(self.cell, "initial_state", None)
        if callable(initial):
            return initial(batch)
        units: Any = getattr(self.cell, "hidden_size", None)
        if not isinstance(units, int):
            raise WrongInputError(
                f"state must be given: {type(self.cell).__name__} has neither hidden_size nor initial_state(batch)"
            )
        like = next(self.cell.parameters(), sequence)
        zeros = torch.zeros(batch, units, dtype=like.dtype, device=like.device)
        return (zeros, zeros) if isinstance(self.cell, torch.nn.LSTMCell) else zeros

    @staticmethod
    def _checked(before: State, after: Any) -> State:
        parts: Any = (after,) if isinstance(after, Tensor) else after
        if not isinstance(parts, (tuple, list)) or not all(isinstance(part, Tensor) for part in parts):
            raise WrongTypeError(
                f"cell must return the next state, a tensor or a tuple of tensors, not a {type(after).__name__}"
            )
        came, given = [tuple(part.shape) for part in parts], [tuple(part.shape) for part in before]
        if came != given:
            raise WrongInputError(f"cell must return a state of the shapes it was given, {given}, not {came}")
        return tuple(parts)

    def _check_cell(self, u: Tensor, state: Any) -> None:
        """Once: one step of the cell changes nothing in place, and its result depends on the state."""
        if self._is_checked or recurrence.is_transformed() or torch.compiler.is_compiling():
            return
        devices = [u.device] if u.is_cuda else []
        with torch.enable_grad(), torch.random.fork_rng(devices):
            before = _each(state, lambda part: part.detach().clone().requires_grad_(part.is_floating_point()))
            handed = _each(before, lambda part: part * 1)
            probe = u.detach().clone()
            versions = [part._version for part in (probe, *_parts(handed))]
            after = self._checked(_parts(handed), self.cell(probe, handed))
            if [part._version for part in (probe, *_parts(handed))] != versions:
                raise RuntimeError(
                    "cell must not change its input or its state in place: the steps before need them as they were"
                )
            ends = [part for part in after if part.requires_grad]
            reached = (
                torch.autograd.grad([end.sum() for end in ends], _parts(before), allow_unused=True) if ends else [None]
            )
            if all(each is None for each in reached):
                raise ValueError("cell must compute its next state from the state before it, and it does not use that")
        self._is_checked = True

    def extra_repr(self) -> str:
        """The arguments that differ from their defaults."""
        usual = {"batch_first": False, "alpha": 0.0, "omega": "paper", "clip_error": None}
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in usual if getattr(self, name) != usual[name])


def _names(cell: torch.nn.Module, recurrent: Iterable[str] | None) -> list[str]:
    known = [name for name, _ in cell.named_parameters()]
    if recurrent is None:
        return [name for name in known if "weight_hh" in name] or known
    if isinstance(recurrent, str):
        raise WrongTypeError(f"recurrent must be a list of names, not the string {recurrent!r}")
    return [checks.one_of("recurrent", name, known) for name in recurrent]


def _parts(state: Any) -> State:
    return (state,) if isinstance(state, Tensor) else tuple(state)


def _each(state: Any, change: Any) -> Any:
    return change(state) if isinstance(state, Tensor) else tuple(change(part) for part in state)

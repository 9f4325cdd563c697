"""What RNN, GRU and LSTM share: arguments, sequences in every shape torch takes, layers and directions, Ω's options, the flow.

What is computed is in recurrence/; this file is what a user holds. A layer is a torch.nn.RNNBase, with torch's `mode`: other
libraries find recurrent layers by that. It is not a torch.nn.RNN, GRU or LSTM, which torch.compile refuses to look into.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportPrivateUsage=false
# (much of what is used of torch here is not annotated)

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from .. import checks
from ..checks import WrongInputError
from ..flow import GradientFlow, Recorder
from ..recurrence import run as recurrence
from ..recurrence.options import STATES, Given, Options
from ..regularizer import CONVENTIONS
from . import quick

State = tuple[Tensor, ...]


class RecurrentLayer(torch.nn.RNNBase):
    """A recurrent layer with torch's arguments, parameter names and outputs, and the regulariser Ω."""

    weight_hh_l0: torch.nn.Parameter
    cell: ClassVar[str]
    """'RNN', 'GRU' or 'LSTM': the name of its equations in recurrence/cells.py."""
    nonlinearity = "tanh"
    leak = 0.0

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        *,
        alpha: float,
        omega: str,
        clip_error: float | None,
        backend: str,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        if dtype is not None and not dtype.is_floating_point:
            raise ValueError(f"dtype must be a floating-point type, not {dtype}")
        super().__init__(
            mode,
            checks.whole("input_size", input_size),
            checks.whole("hidden_size", hidden_size),
            checks.whole("num_layers", num_layers),
            checks.flag("bias", bias),
            checks.flag("batch_first", batch_first),
            checks.number("dropout", dropout, low=0, high=1),
            checks.flag("bidirectional", bidirectional),
            device=device,
            dtype=dtype,
        )
        self.alpha = alpha
        self.omega = checks.one_of("omega", omega, CONVENTIONS)
        self.clip_error = None if clip_error is None else checks.number("clip_error", clip_error, low=0, open_low=True)
        self.backend = checks.one_of("backend", backend, recurrence.BACKENDS)
        self.record = True
        self._recorders = [Recorder(names[0].removeprefix("weight_ih_")) for names in self._all_weights]
        # An unavailable backend is refused here, not at the first step.
        recurrence.choose(self.backend, self.weight_hh_l0, self.cell)

    @property
    def alpha(self) -> float:
        """The factor of Ω. Change it between steps for a schedule."""
        return self._alpha

    @alpha.setter
    def alpha(self, value: float) -> None:
        self._alpha = checks.number("alpha", value, low=0)
        # For compiled graphs: a plain number would be a constant of the graph.
        self._alpha_tensor = torch.tensor(self._alpha, dtype=torch.float64, device="cpu")

    @property
    def flow(self) -> GradientFlow:
        """What the last backward pass through this layer saw; empty before the first."""
        cells = [cell for cell in (recorder.last for recorder in self._recorders) if cell is not None]
        return GradientFlow(cells)

    @property
    def computed_by(self) -> str:
        """What `backend` comes to for these parameters: 'reference', 'torch' (torch operations), 'native' or 'triton'.

        Where 'auto' comes to 'native' or 'torch', it may leave a pass of one or a few steps to the other of them, by its shapes
        (recurrence/run.py, inference.py); their results agree up to rounding. A backend asked for by name computes every pass.
        """
        return recurrence.choose(self.backend, self._weights(0)[1], self.cell)

    def flatten_parameters(self) -> None:
        """Does nothing; here because torch's layers have it."""

    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> Any:
        """Output of every step and the last states, shaped as torch's layer shapes them."""
        if not torch.compiler.is_compiling():
            found = quick.forward(self, input, hx)
            if found is not None:
                return found
        if recurrence.is_exporting():
            from . import portable

            portable.warn_of_what_is_left_out(self)
            if portable.is_torchs(self, input):
                return portable.forward(self, input, hx)
        weight = self._weights(0)[1]
        if recurrence.is_autocast(weight):
            # roundings would add up over time: it keeps its own dtype
            with torch.autocast(weight.device.type, enabled=False):
                return self.forward(self._own_dtype(input), self._own_dtype(hx))
        return self._forward(input, hx, weight)

    def _forward(self, input: Tensor | PackedSequence, hx: Any, weight: Tensor) -> Any:
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx, weight)
        tokens = not input.is_floating_point()
        self._check_input(input, weight, tokens)
        batched = input.dim() == (2 if tokens else 3)
        sequence = input if batched else input.unsqueeze(0 if self.batch_first else 1)
        if self.batch_first:
            sequence = sequence.transpose(0, 1)
        steps, batch = sequence.shape[:2]
        if steps == 0:
            raise WrongInputError(f"input must hold at least one step, not be of shape {tuple(input.shape)}")
        state = self._check_state(hx, batch, batched, weight)
        output, last = self._layers(sequence, state, None, None)
        if self.batch_first:
            output = output.transpose(0, 1)
        if not batched:
            output = output.squeeze(0 if self.batch_first else 1)
            last = tuple(part.squeeze(1) for part in last)
        return output, _alone(last)

    def _forward_packed(self, packed: PackedSequence, hx: Any, weight: Tensor) -> Any:
        tokens = not packed.data.is_floating_point()
        self._check_input(packed.data, weight, tokens, packed=True)
        padded, lengths = pad_packed_sequence(PackedSequence(packed.data, packed.batch_sizes))
        state = self._check_state(hx, padded.shape[1], True, weight)
        if state is not None and packed.sorted_indices is not None:
            state = tuple(part.index_select(1, packed.sorted_indices) for part in state)
        output, last = self._layers(padded, state, lengths.to(padded.device), lengths)
        if packed.unsorted_indices is not None:
            last = tuple(part.index_select(1, packed.unsorted_indices) for part in last)
        data = pack_padded_sequence(output, lengths).data
        result = PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        return result, _alone(last)

    def _layers(
        self, sequence: Tensor, state: State | None, lengths: Tensor | None, packed_lengths: Tensor | None
    ) -> tuple[Tensor, State]:
        directions = 2 if self.bidirectional else 1
        lasts: list[State] = []
        for layer in range(self.num_layers):
            outputs: list[Tensor] = []
            for cell in range(layer * directions, (layer + 1) * directions):
                first = None if state is None else tuple(part[cell] for part in state)
                output, last = self._cell(cell, sequence, first, lengths)
                outputs.append(output)
                lasts.append(last)
            sequence = outputs[0] if directions == 1 else torch.cat(outputs, -1)
            if self.dropout > 0 and self.training and layer + 1 < self.num_layers:
                sequence = self._drop(sequence, packed_lengths)
        if len(lasts) == 1:
            return sequence, lasts[0]
        return sequence, tuple(torch.cat(parts) for parts in zip(*lasts, strict=True))

    def _cell(self, cell: int, sequence: Tensor, state: State | None, lengths: Tensor | None) -> tuple[Tensor, State]:
        weight_ih, weight_hh, bias_ih, bias_hh = self._weights(cell)
        reverse = self.bidirectional and cell % 2 == 1
        alpha: Any = self._alpha_tensor if torch.compiler.is_compiling() else self._alpha
        options = Options(self.nonlinearity, self.leak, reverse, alpha, self.omega, self.clip_error, self.cell)
        recorder = self._recorders[cell] if self.record else None
        h0, c0 = (None, None) if state is None else (*state, None)[:2]
        given = Given(sequence, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, c0)
        return recurrence.run(given, options, recorder, self.backend)

    def _weights(self, cell: int) -> tuple[Any, ...]:
        """weight_ih, weight_hh, bias_ih and bias_hh of a layer and direction; None for biases it does not have."""
        # Looked up where torch keeps them, which is quicker than as attributes; not there where they are parametrized.
        kept = self._parameters
        found = [kept[name] if name in kept else getattr(self, name) for name in self._all_weights[cell]]
        return (*found, None, None)[:4]

    def _drop(self, sequence: Tensor, packed_lengths: Tensor | None) -> Tensor:
        if packed_lengths is None:
            return torch.nn.functional.dropout(sequence, self.dropout)
        # On the packed entries alone, as torch does it: the same seed then drops the same entries.
        packed = pack_padded_sequence(sequence, packed_lengths)
        dropped = torch.nn.functional.dropout(packed.data, self.dropout)
        return pad_packed_sequence(PackedSequence(dropped, packed.batch_sizes))[0]

    def _own_dtype(self, given: Any) -> Any:
        if isinstance(given, tuple) and not isinstance(given, PackedSequence):
            return tuple(self._own_dtype(part) for part in given)
        if given is None or not (given.data if isinstance(given, PackedSequence) else given).is_floating_point():
            return given
        return given.to(self._weights(0)[1].dtype)

    def _check_input(self, input: Tensor, weight: Tensor, tokens: bool, packed: bool = False) -> None:
        if input.layout is not torch.strided or input.is_nested:
            kind = "a nested tensor" if input.is_nested else f"of layout {input.layout}"
            raise WrongInputError(f"input must be a dense tensor, not {kind}: use to_dense() or a PackedSequence")
        if input.device != weight.device:
            raise WrongInputError(f"input must be on the layer's device, {weight.device}, not on {input.device}")
        if tokens:
            if input.dtype != torch.int64:
                raise WrongInputError(f"input must be {weight.dtype} or int64 tokens, not {input.dtype}")
            ranks = (1,) if packed else (1, 2)
        else:
            if input.dtype != weight.dtype:
                raise WrongInputError(f"input must have the layer's dtype, {weight.dtype}, not {input.dtype}")
            ranks = (2,) if packed else (2, 3)
        if input.dim() not in ranks:
            wanted = "[T, B] or [T] tokens" if tokens else "[T, B, input_size] or [T, input_size]"
            raise WrongInputError(f"input must be {wanted}, not of shape {tuple(input.shape)}")
        if not tokens and input.shape[-1] != self.input_size:
            raise WrongInputError(f"input must have {self.input_size} features (input_size), not {input.shape[-1]}")

    def _check_state(self, hx: Any, batch: int, batched: bool, weight: Tensor) -> State | None:
        if hx is None:
            return None
        parts = STATES[self.cell]
        if parts == 1:
            if not isinstance(hx, Tensor):
                raise checks.WrongTypeError(f"hx must be a tensor, not a {type(hx).__name__}")
            hx = (hx,)
        elif not isinstance(hx, (tuple, list)) or len(hx) != parts:
            raise checks.WrongTypeError(f"hx must be a pair of tensors (h0, c0), not {_described(hx)}")
        cells = len(self._recorders)
        wanted = (cells, batch, self.hidden_size) if batched else (cells, self.hidden_size)
        for name, part in zip(("hx",) if parts == 1 else ("h0", "c0"), hx, strict=True):
            if tuple(part.shape) != wanted:
                raise WrongInputError(f"{name} must be of shape {wanted} to fit the input, not {tuple(part.shape)}")
            if part.layout is not torch.strided:
                raise WrongInputError(f"{name} must be a dense tensor, not of layout {part.layout}: use to_dense()")
            if part.dtype != weight.dtype or part.device != weight.device:
                raise WrongInputError(
                    f"{name} must be {weight.dtype} on {weight.device}, not {part.dtype} on {part.device}"
                )
        return tuple(hx) if batched else tuple(part.unsqueeze(1) for part in hx)

    _defaults: ClassVar[dict[str, Any]] = {
        "num_layers": 1,
        "nonlinearity": "tanh",
        "bias": True,
        "batch_first": False,
        "dropout": 0.0,
        "bidirectional": False,
        "alpha": 0.0,
        "omega": "paper",
        "leak": 0.0,
        "clip_error": None,
        "backend": "auto",
    }

    def extra_repr(self) -> str:
        """The arguments that differ from their defaults, torch's first."""
        shown = [f"{self.input_size}, {self.hidden_size}"]
        for name, usual in self._defaults.items():
            if getattr(self, name) != usual:
                shown.append(f"{name}={getattr(self, name)!r}")
        return ", ".join(shown)


quick.PLAIN = RecurrentLayer.forward


def _alone(parts: State) -> Any:
    """The last state as torch's layer gives it: a tensor, or the LSTM's pair."""
    first, *rest = parts
    return parts if rest else first


def _described(value: Any) -> str:
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, (tuple, list)) else "")

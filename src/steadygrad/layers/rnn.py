"""The recurrent layer: parameters, options, state. A drop-in for torch.nn.RNN that keeps its gradients steady.

    h_k = λ h_{k−1} + (1 − λ) σ(W_ih u_k + b_ih + W_hh h_{k−1} + b_hh)

What is computed is in recurrence.py; this file is what a user holds.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from .. import checks
from ..flow import GradientFlow, Recorder
from ..recurrence import run as recurrence
from ..recurrence.nonlinearity import NONLINEARITIES
from ..recurrence.options import Given, Options
from ..regularizer import CONVENTIONS


class RNN(torch.nn.Module):
    """A recurrent layer with torch.nn.RNN's arguments, parameter names and outputs, and the paper's regulariser Ω.

    With `alpha > 0`, `loss.backward()` adds α ∂⁺Ω/∂W_rec to the gradient of every `weight_hh` and touches nothing else. Ω
    prefers recurrent matrices through which the error keeps its norm on the way back; it costs no matrix product.

    Args:
        input_size, hidden_size, num_layers, nonlinearity, bias, batch_first, dropout, bidirectional: as in torch.nn.RNN;
            `nonlinearity` may also be 'sigmoid' or 'identity'.
        alpha: the factor of Ω, at least 0. An attribute: change it between steps for a schedule.
        omega: 'paper' for the formula as printed, 'proceedings' for that of the final edition (squared norms), 'program' for
            what the authors' program computes (regularizer.py).
        leak: λ of leaky units, in [0, 1); 0 are plain units.
        clip_error: Mikolov's rule: each entry of the error is clipped to [−c, c] at every step on the way back.
        backend: 'auto', 'reference', 'torch' or 'native' (recurrence.py). 'native' is for float32 and float64 on the CPU;
            on other devices and with other dtypes it computes in torch operations too. Autocast leaves the layer alone.
        device, dtype: as in torch.nn.RNN.

    Shapes:
        Input [T, B, input_size] ([B, T, input_size] with `batch_first`, [T, input_size] unbatched), a PackedSequence, or
        integer tokens without the last axis in place of one-hot vectors. h0 as in torch.nn.RNN; zeros if not given.

    After a backward pass `flow` tells what it saw. `record = False` switches that off.

    Example:
        >>> import torch, steadygrad as sg
        >>> rnn = sg.RNN(88, 300, nonlinearity="sigmoid", alpha=0.5)
        >>> output, last = rnn(torch.rand(20, 4, 88))
        >>> output[-1].sum().backward()
        >>> output.shape, rnn.flow.active > 0
        (torch.Size([20, 4, 300]), True)

    Reference:
        Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural networks, 2013.
    """

    weight_hh_l0: torch.nn.Parameter

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        alpha: float = 0.0,
        omega: str = "paper",
        leak: float = 0.0,
        clip_error: float | None = None,
        backend: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.mode = "RNN"
        self.input_size = checks.whole("input_size", input_size)
        self.hidden_size = checks.whole("hidden_size", hidden_size)
        self.num_layers = checks.whole("num_layers", num_layers)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, NONLINEARITIES)
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        self.dropout = checks.number("dropout", dropout, low=0, high=1)
        self.alpha = alpha
        self.omega = checks.one_of("omega", omega, CONVENTIONS)
        self.leak = checks.number("leak", leak, low=0, high=1, open_high=True)
        self.clip_error = None if clip_error is None else checks.number("clip_error", clip_error, low=0, open_low=True)
        self.backend = checks.one_of("backend", backend, recurrence.BACKENDS)
        if dtype is not None and not dtype.is_floating_point:
            raise ValueError(f"dtype must be a floating-point type, not {dtype}")
        self.record = True
        self._recorders: list[Recorder] = []
        self._names: list[tuple[str, ...]] = []  # of the parameters of each layer and direction
        width = self.hidden_size * (2 if bidirectional else 1)
        for layer in range(self.num_layers):
            for suffix in ("", "_reverse") if bidirectional else ("",):
                name = f"l{layer}{suffix}"
                shapes = {
                    "weight_ih": (hidden_size, input_size if layer == 0 else width),
                    "weight_hh": (hidden_size, hidden_size),
                }
                if bias:
                    shapes |= {"bias_ih": (hidden_size,), "bias_hh": (hidden_size,)}
                for part, shape in shapes.items():
                    empty = torch.empty(shape, device=device, dtype=dtype)
                    self.register_parameter(f"{part}_{name}", torch.nn.Parameter(empty))
                self._names.append(tuple(f"{part}_{name}" for part in shapes))
                self._recorders.append(Recorder(name))
        recurrence.choose(
            self.backend, self.weight_hh_l0
        )  # an unavailable backend is refused here, not at the first step
        self.reset_parameters()

    @property
    def alpha(self) -> float:
        """The factor of Ω."""
        return self._alpha

    @alpha.setter
    def alpha(self, value: float) -> None:
        self._alpha = checks.number("alpha", value, low=0)

    @property
    def flow(self) -> GradientFlow:
        """What the last backward pass through this layer saw."""
        cells = [cell for cell in (recorder.last for recorder in self._recorders) if cell is not None]
        if not cells:
            raise RuntimeError("flow is empty until loss.backward() has gone through this layer with record=True")
        return GradientFlow(cells)

    @property
    def all_weights(self) -> list[list[torch.nn.Parameter]]:
        """The parameters of each layer and direction, as in torch.nn.RNN."""
        return [[getattr(self, name) for name in names] for names in self._names]

    def reset_parameters(self) -> None:
        """Every parameter uniform in ±1/√hidden_size, drawn in torch.nn.RNN's order: the same seed, the same weights."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            torch.nn.init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Does nothing; here because torch.nn.RNN has it."""

    def forward(
        self, input: Tensor | PackedSequence, hx: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        """Output of every step and the last states, shaped as torch.nn.RNN shapes them."""
        weight = self._weights(0)[1]
        if recurrence.is_autocast(weight):
            # roundings would add up over time: it keeps its own dtype
            with torch.autocast(weight.device.type, enabled=False):
                return self.forward(self._own_dtype(input), None if hx is None else self._own_dtype(hx))
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        tokens = not input.is_floating_point()
        self._check_input(input, weight, tokens)
        batched = input.dim() == (2 if tokens else 3)
        sequence = input if batched else input.unsqueeze(0 if self.batch_first else 1)
        if self.batch_first:
            sequence = sequence.transpose(0, 1)
        steps, batch = sequence.shape[:2]
        if steps == 0 or batch == 0:
            what = "step" if steps == 0 else "sequence"
            raise ValueError(f"input must hold at least one {what}, not be of shape {tuple(input.shape)}")
        state = self._check_state(hx, batch, batched)
        output, last = self._layers(sequence, state, None, None)
        if self.batch_first:
            output = output.transpose(0, 1)
        if not batched:
            output, last = output.squeeze(0 if self.batch_first else 1), last.squeeze(1)
        return output, last

    def _forward_packed(self, packed: PackedSequence, hx: Tensor | None) -> tuple[PackedSequence, Tensor]:
        tokens = not packed.data.is_floating_point()
        self._check_input(packed.data, self.weight_hh_l0, tokens, packed=True)
        padded, lengths = pad_packed_sequence(PackedSequence(packed.data, packed.batch_sizes))
        state = self._check_state(hx, padded.shape[1], True)
        if state is not None and packed.sorted_indices is not None:
            state = state.index_select(1, packed.sorted_indices)
        output, last = self._layers(padded, state, lengths.to(padded.device), lengths)
        if packed.unsorted_indices is not None:
            last = last.index_select(1, packed.unsorted_indices)
        data = pack_padded_sequence(output, lengths).data
        return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices), last

    def _layers(
        self, sequence: Tensor, state: Tensor | None, lengths: Tensor | None, packed_lengths: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        directions = 2 if self.bidirectional else 1
        lasts: list[Tensor] = []
        for layer in range(self.num_layers):
            outputs: list[Tensor] = []
            for cell in range(layer * directions, (layer + 1) * directions):
                h0 = None if state is None else state[cell]
                output, last = self._cell(cell, sequence, h0, lengths)
                outputs.append(output)
                lasts.append(last)
            sequence = outputs[0] if directions == 1 else torch.cat(outputs, -1)
            if self.dropout > 0 and self.training and layer + 1 < self.num_layers:
                sequence = self._drop(sequence, packed_lengths)
        return sequence, torch.cat(lasts) if len(lasts) > 1 else lasts[0]

    def _cell(self, cell: int, sequence: Tensor, h0: Tensor | None, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        weight_ih, weight_hh, bias_ih, bias_hh = self._weights(cell)
        reverse = self.bidirectional and cell % 2 == 1
        options = Options(self.nonlinearity, self.leak, reverse, self._alpha, self.omega, self.clip_error)
        recorder = self._recorders[cell] if self.record else None
        given = Given(sequence, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths)
        return recurrence.run(given, options, recorder, self.backend)

    def _weights(self, cell: int) -> tuple[Any, ...]:
        """weight_ih, weight_hh, bias_ih and bias_hh of a layer and direction; None for biases it does not have."""
        # Looked up where torch keeps them, which is quicker than as attributes; not there where they are parametrized.
        kept = self._parameters
        found = [kept[name] if name in kept else getattr(self, name) for name in self._names[cell]]
        return (*found, None, None)[:4]

    def _drop(self, sequence: Tensor, packed_lengths: Tensor | None) -> Tensor:
        if packed_lengths is None:
            return torch.nn.functional.dropout(sequence, self.dropout)
        # On the packed entries alone, as torch.nn.RNN does it: the same seed then drops the same entries.
        packed = pack_padded_sequence(sequence, packed_lengths)
        dropped = torch.nn.functional.dropout(packed.data, self.dropout)
        return pad_packed_sequence(PackedSequence(dropped, packed.batch_sizes))[0]

    def _own_dtype(self, given: Any) -> Any:
        floating = (given.data if isinstance(given, PackedSequence) else given).is_floating_point()
        return given.to(self.weight_hh_l0.dtype) if floating else given

    def _check_input(self, input: Tensor, weight: Tensor, tokens: bool, packed: bool = False) -> None:
        if input.device != weight.device:
            raise ValueError(f"input must be on the layer's device, {weight.device}, not on {input.device}")
        if tokens:
            if input.dtype != torch.int64:
                raise ValueError(f"input must be {weight.dtype} or int64 tokens, not {input.dtype}")
            ranks = (1,) if packed else (1, 2)
        else:
            if input.dtype != weight.dtype:
                raise ValueError(f"input must have the layer's dtype, {weight.dtype}, not {input.dtype}")
            ranks = (2,) if packed else (2, 3)
        if input.dim() not in ranks:
            wanted = "[T, B] or [T] tokens" if tokens else "[T, B, input_size] or [T, input_size]"
            raise ValueError(f"input must be {wanted}, not of shape {tuple(input.shape)}")
        if not tokens and input.shape[-1] != self.input_size:
            raise ValueError(f"input must have {self.input_size} features (input_size), not {input.shape[-1]}")

    def _check_state(self, hx: Tensor | None, batch: int, batched: bool) -> Tensor | None:
        if hx is None:
            return None
        cells, weight = len(self._recorders), self.weight_hh_l0
        wanted = (cells, batch, self.hidden_size) if batched else (cells, self.hidden_size)
        if tuple(hx.shape) != wanted:
            raise ValueError(f"hx must be of shape {wanted} to fit the input, not {tuple(hx.shape)}")
        if hx.dtype != weight.dtype or hx.device != weight.device:
            raise ValueError(f"hx must be {weight.dtype} on {weight.device}, not {hx.dtype} on {hx.device}")
        return hx if batched else hx.unsqueeze(1)

    def extra_repr(self) -> str:
        """The arguments that differ from their defaults, torch.nn.RNN's first."""
        shown = [f"{self.input_size}, {self.hidden_size}"]
        defaults: dict[str, Any] = {
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
        shown += [f"{name}={getattr(self, name)!r}" for name, usual in defaults.items() if getattr(self, name) != usual]
        return ", ".join(shown)

"""A call computed once more, apart from the model's graph, to see what torch's fused layers hide.

Gates and states come from the outputs that the layer gave (states.py); the outputs of its inner layers, which it does not give,
are computed again. Then the way back (sweep.py), from the gradients that the call's outputs received in the real pass.

Dropout between layers is repeated from the random state before the call; where the generator is not the CPU's, the mask can't
be known. Whether the re-run is the pass is not taken for granted: what it computes is compared with the layer's output.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ..recurrence.options import Given, Options, Saved
from ..recurrence.run import ENGINES, choose
from .calls import Call, sequences
from .cellrun import CellRun, run_back
from .states import of_output

SAME = 1e-3
"""A re-run whose output differs from the layer's by more than this share of its largest entry is called approximate."""
FUSED: dict[str, Any] = {"RNN_TANH": torch.rnn_tanh, "RNN_RELU": torch.rnn_relu, "GRU": torch.gru, "LSTM": torch.lstm}


@torch.no_grad()
def rerun(call: Call, rows: Tensor | None = None) -> list[CellRun]:
    """Every layer and direction of the call, in the order of the module's parameters; `rows` as in `calls.sequences`."""
    module: Any = call.module
    with torch.autocast(module.weight_hh_l0.device.type, enabled=False), torch.random.fork_rng(devices=[]):
        if call.random_state is not None:
            torch.set_rng_state(call.random_state)
        return _Rerun(call, rows).run()


class _Rerun:
    def __init__(self, call: Call, rows: Tensor | None) -> None:
        self.call, self.rows = call, rows
        self.module: Any = call.module
        self.directions = 1 + self.module.bidirectional
        self.weights = [_weights(self.module, cell) for cell in range(self.module.num_layers * self.directions)]
        self.given = sequences(call, self.weights[0][1].dtype, rows)
        self.approximate = ""

    def run(self) -> list[CellRun]:
        masks, saved = self._forward()
        return self._backward(masks, saved)

    def _forward(self) -> tuple[list[Tensor | None], list[Saved]]:
        module = self.module
        sequence, masks, saved = self.given.inputs, list[Tensor | None](), list[Saved]()
        for layer in range(module.num_layers):
            is_top = layer + 1 == module.num_layers
            outputs: list[Tensor] = []
            for direction in range(self.directions):
                cell = layer * self.directions + direction
                h0, c0 = (*(part[cell] for part in self.given.first), None, None)[:2]
                given = Given(sequence, h0, *self.weights[cell], self.given.lengths, c0)
                known = self.given.output if is_top and self.call.output_is_untouched else None
                saved.append(self._cell_forward(given, direction, known))
                outputs.append(saved[-1].output)
            sequence = outputs[0] if self.directions == 1 else torch.cat(outputs, -1)
            masks.append(None)
            if module.dropout > 0 and self.call.training and not is_top:
                masks[-1] = self._mask(sequence)
                sequence = sequence * masks[-1]
        return masks, saved

    def _cell_forward(self, given: Given, direction: int, known: Tensor | None) -> Saved:
        module, options = self.module, options_of(self.module, direction == 1)
        if known is None:
            output = self._again(given, options)
        else:
            output = known[..., direction * module.hidden_size : (direction + 1) * module.hidden_size]
        # what the lowest layer was given is known; what an inner layer gives the next may hang on a dropout mask
        saved, apart = of_output(given, options, output, check=known is not None and module.num_layers > 1)
        if apart > 0 and known is not None and apart > SAME * max(float(output.abs().nan_to_num(0.0).max()), 1e-30):
            dropped = module.dropout > 0 and self.call.training and module.num_layers > 1
            why = "its dropout between layers can't be repeated" if dropped else "its weights or inputs have changed"
            self.approximate = f"re-run to within {apart:.2g} of the layer's output: {why}"
        return saved

    def _again(self, given: Given, options: Options) -> Tensor:
        """[T, B, H], computed step by step, or by torch's fused operation where that is the very cell."""
        if (
            self.module.mode in FUSED
            and options.leak == 0
            and given.lengths is None
            and given.inputs.is_floating_point()
        ):
            inputs = given.inputs.flip(0) if options.reverse else given.inputs
            weights = [each for each in given[2:6] if each is not None]
            zeros = inputs.new_zeros(1, inputs.shape[1], given.weight_hh.shape[1])
            states = tuple(zeros if each is None else each.unsqueeze(0) for each in (given.h0, given.c0))
            hx = states if options.mode == "LSTM" else states[0]
            output = FUSED[self.module.mode](inputs, hx, weights, len(weights) == 4, 1, 0.0, False, False, False)[0]
            return output.flip(0) if options.reverse else output
        engine: Any = ENGINES[options.mode, choose("auto", given.weight_hh, options.mode)]
        return engine.forward(given, options)[0].output

    def _mask(self, sequence: Tensor) -> Tensor:
        """As the layer drew it, for the whole batch; then the rows that are re-run."""
        ones = sequence.new_ones(len(sequence), self.given.whole_batch, sequence.shape[2])
        lengths = self.given.whole_lengths
        if lengths is None:
            mask = dropout(ones, self.module.dropout)
        else:
            packed = pack_padded_sequence(ones, lengths.cpu())
            mask = pad_packed_sequence(PackedSequence(dropout(packed.data, self.module.dropout), packed.batch_sizes))[0]
        return mask if self.rows is None else mask.index_select(1, self.rows)

    def _backward(self, masks: list[Tensor | None], saved: list[Saved]) -> list[CellRun]:
        units, runs = self.module.hidden_size, list[CellRun]()
        grad = self.given.grad_output
        for layer in reversed(range(self.module.num_layers)):
            below: Tensor | None = None
            for direction in reversed(range(self.directions)):
                cell = layer * self.directions + direction
                own = None if grad is None else grad[..., direction * units : (direction + 1) * units]
                grad_last = tuple(None if part is None else part[cell : cell + 1] for part in self.given.grad_last)
                options, name = options_of(self.module, direction == 1), f"l{layer}" + ("_reverse" if direction else "")
                bias_ih = self.weights[cell][2]
                run, inputs = run_back(name, options, saved[cell], bias_ih, own, grad_last, layer > 0, self.approximate)
                runs.append(run)
                if inputs is not None:
                    below = inputs if below is None else below + inputs
            mask = masks[layer - 1] if layer else None
            grad = below if below is None or mask is None else below * mask
        return runs[::-1]


def options_of(module: Any, reverse: bool) -> Options:
    """How a layer of torch's or ours computes, without Ω."""
    mode: str = module.mode
    plain = mode.startswith("RNN_")
    return Options(
        nonlinearity=mode.removeprefix("RNN_").lower() if plain else "tanh",
        leak=getattr(module, "leak", 0.0),
        reverse=reverse,
        convention=getattr(module, "omega", "paper"),
        clip_error=getattr(module, "clip_error", None),
        mode="RNN" if plain else mode,
    )


def _weights(module: Any, cell: int) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    layer, reverse = divmod(cell, 1 + module.bidirectional)
    suffix = f"_l{layer}" + ("_reverse" if reverse else "")
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh") if module.bias else ("weight_ih", "weight_hh")
    found: list[Any] = [getattr(module, name + suffix).detach() for name in names]
    bias_ih, bias_hh = found[2:] if module.bias else (None, None)
    return found[0], found[1], bias_ih, bias_hh

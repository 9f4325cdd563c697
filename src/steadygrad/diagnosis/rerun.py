"""A call computed once more, step by step and apart from the model's graph, to see what torch's fused layers hide.

Forward through all layers and directions for gates and states, then backward, from the gradients that the call's outputs
received in the real pass, for the error of every step. The engines are those of recurrence/, where every derivative is tested.

Dropout between layers is repeated from the random state before the call; where the generator is not the CPU's, the mask can't
be known. Whether the re-run is the pass is not taken for granted: its output is compared with the layer's.
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
from .cellrun import CellRun, lasting, run_back

SAME = 1e-3
"""A re-run whose output differs from the layer's by more than this share of its largest entry is called approximate."""


@torch.no_grad()
def rerun(call: Call) -> list[CellRun]:
    """Every layer and direction of the call, in the order of the module's parameters."""
    module: Any = call.module
    weight = module.weight_hh_l0
    with torch.autocast(weight.device.type, enabled=False), torch.random.fork_rng(devices=[]):
        if call.random_state is not None:
            torch.set_rng_state(call.random_state)
        return _Rerun(call).run()


class _Rerun:
    def __init__(self, call: Call) -> None:
        self.call, self.module = call, call.module
        module: Any = call.module
        self.weights = [_weights(module, cell) for cell in range(module.num_layers * (1 + module.bidirectional))]
        self.given = sequences(call, self.weights[0][1].dtype)
        self.directions = 1 + module.bidirectional
        self.approximate = ""

    def run(self) -> list[CellRun]:
        module: Any = self.module
        mode = options_of(module, reverse=False).mode
        engine: Any = ENGINES[mode, choose("auto", self.weights[0][1], mode)]
        return self._backward(engine, *self._forward(engine))

    def _forward(self, engine: Any) -> tuple[list[Tensor | None], list[Saved]]:
        module: Any = self.module
        sequence, masks, saved = self.given.inputs, list[Tensor | None](), list[Saved]()
        for layer in range(module.num_layers):
            outputs: list[Tensor] = []
            for direction in range(self.directions):
                cell = layer * self.directions + direction
                weight_ih, weight_hh, bias_ih, bias_hh = self.weights[cell]
                h0, c0 = (*(part[cell] for part in self.given.first), None, None)[:2]
                given = Given(sequence, h0, weight_ih, weight_hh, bias_ih, bias_hh, self.given.lengths, c0)
                found, _ = engine.forward(given, options_of(module, direction == 1))
                saved.append(found)
                outputs.append(found.output)
            sequence = outputs[0] if self.directions == 1 else torch.cat(outputs, -1)
            masks.append(None)
            if module.dropout > 0 and self.call.training and layer + 1 < module.num_layers:
                masks[-1] = self._mask(sequence)
                sequence = sequence * masks[-1]
        self._compare(sequence)
        return masks, saved

    def _mask(self, sequence: Tensor) -> Tensor:
        module: Any = self.module
        ones = torch.ones_like(sequence)
        if self.given.lengths is None:
            return dropout(ones, module.dropout)
        packed = pack_padded_sequence(ones, self.given.lengths.cpu())
        return pad_packed_sequence(PackedSequence(dropout(packed.data, module.dropout), packed.batch_sizes))[0]

    def _compare(self, again: Tensor) -> None:
        if not self.call.output_is_untouched:
            return
        once = self.given.output
        running = _running(self.given.lengths, len(again))
        apart = ((again - once).abs() * (1 if running is None else running.unsqueeze(-1))).nan_to_num(0.0)
        if float(apart.max()) > SAME * max(float(once.abs().nan_to_num(0.0).max()), 1e-30):
            module: Any = self.module
            dropped = module.dropout > 0 and self.call.training and module.num_layers > 1
            why = "its dropout between layers can't be repeated" if dropped else "rounding grows over its steps"
            self.approximate = f"re-run to within {float(apart.max()):.2g} of the layer's output: {why}"

    def _backward(self, engine: Any, masks: list[Tensor | None], saved: list[Saved]) -> list[CellRun]:
        module: Any = self.module
        units, runs = module.hidden_size, list[CellRun]()
        grad = self.given.grad_output
        for layer in reversed(range(module.num_layers)):
            below: Tensor | None = None
            for direction in reversed(range(self.directions)):
                cell = layer * self.directions + direction
                own = None if grad is None else grad[..., direction * units : (direction + 1) * units].contiguous()
                run, to_inputs = self._cell(engine, cell, saved[cell], own, direction == 1, layer > 0)
                runs.append(run)
                if to_inputs is not None:
                    below = to_inputs if below is None else below + to_inputs
            mask = masks[layer - 1] if layer else None
            grad = below if below is None or mask is None else below * mask
        return runs[::-1]

    def _cell(
        self, engine: Any, cell: int, saved: Saved, grad: Tensor | None, reverse: bool, inner: bool
    ) -> tuple[CellRun, Tensor | None]:
        options = options_of(self.module, reverse)
        name = f"l{cell // self.directions}" + ("_reverse" if reverse else "")
        grad_last = tuple(None if part is None else part[cell : cell + 1].contiguous() for part in self.given.grad_last)
        found, measured, first = run_back(name, options, engine, saved, grad, grad_last, inner)
        only = lasting(name, options, engine, saved, grad, grad_last) or (measured, first)
        bias_ih = self.weights[cell][2]
        run = CellRun(
            *(name, options, engine, saved, bias_ih, grad, grad_last, measured, first, only[0], self.approximate)
        )
        return run, found.inputs


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


def _running(lengths: Tensor | None, steps: int) -> Tensor | None:
    return None if lengths is None else torch.arange(steps, device=lengths.device).unsqueeze(1) < lengths

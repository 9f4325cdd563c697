"""One call of a recurrent layer as its hooks see it, brought into the one shape that the re-run computes with.

    inputs [T, B, I]   grad_output [T, B, D H]   states and their gradients [layers × directions, B, H], sorted as packed

Everything kept is detached. What a hook reads it does not change: outputs and gradients stay bit-identical.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

Tensors = tuple[Tensor, ...]

SEQUENCES = 8
"""So many sequences of a batch are re-run: a mean over their steps needs no more, and a look must cost little."""


@dataclass
class Call:
    """A forward pass of one module, and the gradients that its outputs have received so far."""

    layer: str
    module: torch.nn.Module
    index: int
    given: Any
    """The input as it came, detached: a tensor or a PackedSequence."""
    hx: Tensors
    """The initial states as they came, detached; empty where none was given."""
    came_from: tuple[int, ...]
    """The ids of the initial states' tensors; those of `gave` of an earlier call where it goes on from that."""
    gave: Tensors
    """The last states. Kept, so that their ids stay theirs."""
    output: Tensor
    """Detached; of a PackedSequence its data."""
    version: int
    random_state: Tensor | None = None
    training: bool = True
    grad_output: Tensor | None = None
    grad_last: list[Tensor | None] = field(default_factory=list[Tensor | None])

    @property
    def reached(self) -> bool:
        """Whether an error has come to it."""
        return self.grad_output is not None or any(grad is not None for grad in self.grad_last)

    @property
    def output_is_untouched(self) -> bool:
        return self.output._version == self.version

    def goes_on_from(self, before: Call) -> bool:
        """Whether its initial state is the last state of `before`, with the graph between them."""
        return bool(self.came_from) and self.came_from == tuple(map(id, before.gave)) and self.module is before.module


def note_call(
    layer: str,
    module: torch.nn.Module,
    index: int,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
    delivered: Callable[[Call], None],
) -> Call | None:
    """The call, with hooks on its outputs; None where no gradient will come to them.

    Args:
        layer: the module's name.
        module: the layer.
        index: which call of the update it is.
        args, kwargs: what it was called with.
        result: what it returned: (output, last states).
        delivered: called in the backward pass, with every gradient that arrives.
    """
    given = args[0] if args else kwargs.get("input")
    hx = args[1] if len(args) > 1 else kwargs.get("hx")
    output, last = result[0], _parts(result[1])
    data: Tensor = output.data if isinstance(output, PackedSequence) else output
    if not data.requires_grad and not any(part.requires_grad for part in last):
        return None
    states = _parts(hx)
    call = Call(
        layer,
        module,
        index,
        _detached(given),
        tuple(part.detach() for part in states),
        tuple(map(id, states)) if any(part.requires_grad for part in states) else (),
        last,
        data.detach(),
        data._version,
        training=module.training,
        grad_last=[None] * len(last),
    )

    # A hook is given None where no gradient came to this output, but one to another of the same operation.
    def on_output(grad: Tensor | None) -> None:
        if grad is None:
            return
        call.grad_output = _added(call.grad_output, grad)
        delivered(call)

    def on_last(part: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor | None) -> None:
            if grad is None:
                return
            call.grad_last[part] = _added(call.grad_last[part], grad)
            delivered(call)

        return hook

    if data.requires_grad:
        data.register_hook(on_output)
    for part, state in enumerate(last):
        if state.requires_grad:
            state.register_hook(on_last(part))
    return call


@dataclass
class Sequences:
    """What the re-run computes with: time first, batched, and sorted as packed sequences are."""

    inputs: Tensor
    first: Tensors
    """[layers × directions, B, H] each; empty: zeros."""
    output: Tensor
    grad_output: Tensor | None
    grad_last: tuple[Tensor | None, ...]
    lengths: Tensor | None
    whole_batch: int
    """How many sequences there are without a choice of rows,"""
    whole_lengths: Tensor | None
    """and their lengths: a dropout mask is drawn for all of them."""


def sequences(call: Call, dtype: torch.dtype, rows: Tensor | None = None) -> Sequences:
    """The call in that shape.

    Args:
        call: the call.
        dtype: that of the layer's weights (autocast may have given it another input).
        rows: which sequences of the batch to keep, in the order of this shape; None: all.
    """
    module: Any = call.module
    given = call.given
    if isinstance(given, PackedSequence):
        sizes, order = given.batch_sizes, given.sorted_indices
        inputs, lengths = pad_packed_sequence(PackedSequence(given.data, sizes))

        def padded(data: Tensor) -> Tensor:
            return pad_packed_sequence(PackedSequence(data, sizes))[0]

        def sorted_(state: Tensor) -> Tensor:
            return state if order is None else state.index_select(1, order)

        lengths = lengths.to(inputs.device)
    else:
        batched = given.dim() == (3 if given.is_floating_point() else 2)
        lengths = None

        def padded(data: Tensor) -> Tensor:
            if batched:
                return data.transpose(0, 1) if module.batch_first else data
            return data.unsqueeze(1)

        def sorted_(state: Tensor) -> Tensor:
            return state if batched else state.unsqueeze(1)

        inputs = padded(given)

    def own(tensor: Tensor) -> Tensor:
        if rows is not None:
            tensor = tensor.index_select(1, rows)
        return (tensor.to(dtype) if tensor.is_floating_point() else tensor).contiguous()

    return Sequences(
        own(inputs),
        tuple(own(sorted_(part)) for part in call.hx),
        own(padded(call.output)),
        None if call.grad_output is None else own(padded(call.grad_output)),
        tuple(None if grad is None else own(sorted_(grad)) for grad in call.grad_last),
        lengths if lengths is None or rows is None else lengths[rows],
        inputs.shape[1],
        lengths,
    )


def chosen_rows(calls: list[Call]) -> Tensor | None:
    """At most `SEQUENCES` sequences of the batch, evenly; those with a value that is not finite first. None: all of them.

    Rows never meet in a recurrence, so the errors of those that are chosen are exact.
    """
    given = calls[0].given
    if isinstance(given, PackedSequence):
        batch = int(given.batch_sizes[0])
    else:
        is_batched = given.dim() == (3 if given.is_floating_point() else 2)
        module: Any = calls[0].module
        batch = given.shape[0 if module.batch_first else 1] if is_batched else 1
    if batch <= SEQUENCES:
        return None
    bad = torch.zeros(batch, dtype=torch.bool)
    for call in calls:
        data = call.given.data if isinstance(call.given, PackedSequence) else call.given
        seen = [each for each in (data, call.output, call.grad_output, *call.grad_last) if each is not None]
        if all(bool(each.sum().isfinite()) for each in seen):  # a sum is quick, and nearly always enough
            continue
        whole = sequences(call, call.output.dtype)
        for values in (whole.inputs, whole.output, whole.grad_output, *whole.grad_last):
            if values is not None and values.is_floating_point():
                bad |= ~values.transpose(0, 1).flatten(1).isfinite().all(1).cpu()
    even = [round(index * (batch - 1) / (SEQUENCES - 1)) for index in range(SEQUENCES)]
    # the longest sequences lie first where they are packed, and the first is always among the even ones
    first = torch.nonzero(bad).flatten().tolist()[: SEQUENCES - 1]
    rows = sorted([*first, *[row for row in even if row not in first][: SEQUENCES - len(first)]])
    return torch.tensor(rows, device=calls[0].output.device)


def _parts(states: Any) -> Tensors:
    if states is None:
        return ()
    return tuple(states) if isinstance(states, (tuple, list)) else (states,)


def _detached(given: Any) -> Any:
    if isinstance(given, PackedSequence):
        return PackedSequence(given.data.detach(), given.batch_sizes, given.sorted_indices, given.unsorted_indices)
    return given.detach()


def _added(before: Tensor | None, grad: Tensor) -> Tensor:
    # several backward passes through one graph: their errors add up, as their gradients do
    return grad.detach() if before is None else before + grad.detach()

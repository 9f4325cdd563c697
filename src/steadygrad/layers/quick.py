"""The layer's forward pass where no gradient is asked for (recurrence/inference.py), and the commonest one where some are
(recurrence/direct.py); for training loops that know ∂E/∂h_T, that pass and its way back without autograd (`last_state`).

All take what is certain to be plain and answer None for all else, errors among it: the general forward pass (base.py) then
does what it always did.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false
# (much of what is used of torch here is not annotated)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules import module as modules
from torch.nn.utils.rnn import PackedSequence

from ..recurrence import direct, inference
from ..recurrence.inference import Network, Sequences
from ..recurrence.options import STATES, Options
from ..recurrence.run import saved_tensors_are_kept_elsewhere

PLAIN: Any = None
"""`forward` of the layers (base.py), before anyone can put another in its place."""
_CALL = torch.nn.Module.__call__
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_compiled_call_impl")
_has_global_hook: Callable[[], bool] | None = getattr(modules, "_has_any_global_hook", None)
_is_profiling: Callable[[], bool] | None = getattr(torch.autograd, "_profiler_enabled", None)


def forward(layer: Any, input: Any, hx: Any) -> Any:
    """What `layer(input, hx)` returns, or None where that is for the general forward pass to say."""
    kept = layer._parameters
    graph = torch.is_grad_enabled()
    first = kept.get("weight_hh_l0")
    if graph and first is not None and first.requires_grad:  # the commonest case, seen soonest
        return _train(layer, input, hx) if layer.cell == "RNN" else None
    try:
        weights = [kept[name] for names in layer._all_weights for name in names]
    except KeyError:  # parametrized
        return None
    if graph and any(weight is None or weight.requires_grad for weight in weights):
        return None
    # 'native' by name gives the same bits with and without gradients.
    if layer.backend != "auto" or not inference.is_undisturbed():
        return None
    if layer.dropout > 0 and layer.training and layer.num_layers > 1:
        return None
    state = _parts(layer, hx)
    if state is None:
        return None
    if type(input) is Tensor:
        return _forward_dense(layer, input, state, weights)
    return _forward_packed(layer, input, state, weights) if type(input) is PackedSequence else None


def _train(layer: Any, input: Any, hx: Any) -> Any:
    """What a plain layer of one direction returns for dense sequences, with gradients; None for all else."""
    given = of_training(layer, input, hx)
    found = None if given is None else direct.run(*given)
    if found is None or not layer.batch_first:
        return found
    return found[0].transpose(0, 1), found[1]


def of_training(layer: Any, input: Any, hx: Any) -> tuple[Any, ...] | None:
    """What `direct.run` takes, of a plain layer of one direction, dense sequences and gradients; None for all else."""
    if type(input) is not Tensor or input.is_nested or layer.num_layers != 1 or layer.bidirectional:
        return None
    axes, tokens = input.dim(), input.dtype is torch.int64
    if axes != (2 if tokens else 3):
        return None
    sequence = input.transpose(0, 1) if layer.batch_first else input
    steps, batch, *widths = sequence.shape
    if steps == 0 or batch == 0 or (not tokens and widths[0] != layer.input_size):
        return None
    kept, (ih, hh, *biases), hidden = layer._parameters, layer._all_weights[0], layer.hidden_size
    if ih not in kept or hh not in kept or not direct.is_for(steps, hidden, layer.backend):
        return None
    if not inference.is_undisturbed():
        return None
    h0 = None
    if hx is not None:
        if type(hx) is not Tensor or hx.layout is not torch.strided or hx.shape != (1, batch, hidden):
            return None
        h0 = hx[0]
    if biases:
        weights = kept[ih], kept[hh], kept.get(biases[0]), kept.get(biases[1])
        if weights[2] is None or weights[3] is None:
            return None
    else:
        weights = kept[ih], kept[hh], None, None
    if layer.batch_first and input.is_cpu and input.layout is torch.strided:
        sequence = sequence.contiguous()  # out here, where autograd sees that the copy comes from the input
    options = Options(layer.nonlinearity, layer.leak, False, layer._alpha, layer.omega, layer.clip_error)
    return sequence, h0, weights, options, layer._recorders[0] if layer.record else None


def _parts(layer: Any, hx: Any) -> list[Tensor] | None:
    """The tensors of the first state, empty for None; None where they are not what they must be."""
    if hx is None:
        return []
    parts = [hx] if STATES[layer.cell] == 1 else hx
    if type(parts) not in (list, tuple) or len(parts) != STATES[layer.cell]:
        return None
    graph = torch.is_grad_enabled()
    for part in parts:
        if not isinstance(part, Tensor) or part.layout is not torch.strided or (graph and part.requires_grad):
            return None
    return list(parts)


def _is_plain(input: Tensor) -> bool:
    if input.layout is not torch.strided or input.is_nested or not input.is_cpu:
        return False
    return not (input.requires_grad and torch.is_grad_enabled())


def _forward_dense(layer: Any, input: Tensor, state: list[Tensor], weights: list[Any]) -> Any:
    if not _is_plain(input):
        return None
    token_axes, axes = (0 if input.is_floating_point() else 1), input.dim()
    if axes + token_axes not in (2, 3):
        return None
    batched = axes + token_axes == 3
    if not batched:
        input = input.unsqueeze(0 if layer.batch_first else 1)
        state = [part.unsqueeze(1) for part in state]
    sequence = input.transpose(0, 1) if layer.batch_first else input
    steps, batch = sequence.shape[:2]
    network = _network(layer)
    if not inference.is_for(network, steps * batch):
        return None
    given = Sequences(sequence.contiguous(), steps, batch, steps * batch)
    found = inference.run(network, given, [part.contiguous() for part in state], weights)
    if found is None:
        return None
    output, last = found
    if layer.batch_first:
        output = output.transpose(0, 1)
    if not batched:
        output = output.squeeze(0 if layer.batch_first else 1)
        last = [part.squeeze(1) for part in last]
    return output, last[0] if len(last) == 1 else tuple(last)


def _forward_packed(layer: Any, packed: PackedSequence, state: list[Tensor], weights: list[Any]) -> Any:
    values, reached = packed.data, packed.batch_sizes
    if type(values) is not Tensor or type(reached) is not Tensor or not _is_plain(values):
        return None
    if reached.dtype is not torch.int64 or not reached.is_cpu or not reached.is_contiguous():
        return None
    sizes: list[int] = reached.tolist()
    # The kernel goes where these numbers send it.
    if not sizes or sizes[-1] < 1 or sum(sizes) != len(values) or sizes != sorted(sizes, reverse=True):
        return None
    if packed.sorted_indices is not None:
        if any(part.dim() != 3 or part.shape[1] != sizes[0] for part in state):
            return None
        state = [part.index_select(1, packed.sorted_indices) for part in state]
    given = Sequences(values.contiguous(), len(sizes), sizes[0], len(values), reached)
    found = inference.run(_network(layer), given, [part.contiguous() for part in state], weights)
    if found is None:
        return None
    output, last = found
    if packed.unsorted_indices is not None:
        last = [part.index_select(1, packed.unsorted_indices) for part in last]
    result = PackedSequence(output, reached, packed.sorted_indices, packed.unsorted_indices)
    return result, last[0] if len(last) == 1 else tuple(last)


def _network(layer: Any) -> Network:
    directions = 2 if layer.bidirectional else 1
    sizes = layer.input_size, layer.hidden_size, layer.num_layers, directions
    return Network(layer.cell, layer.nonlinearity, layer.leak, *sizes)


def last_state(layer: Any, input: Tensor) -> tuple[Tensor, Callable[[Tensor], None]] | None:
    """The last state of a plain layer, and what takes ∂E/∂ of it and leaves the weights' gradients, without autograd.

        h_T = layer(u)[1]                                    [1, B, H]
        .grad of every weight ← ∂E/∂weight, given ∂E/∂h_T    as torch.autograd.backward(h_T, ∂E/∂h_T) where .grad was None

    For a training loop that works out ∂E/∂h_T by itself (experiments/network.py). The same functions are called on the same
    numbers, so all bits are the same. None where something is unusual: then the layer is to be called. A hook on the node by
    which autograd adds to a .grad is the one thing that cannot be seen from here.

    Args:
        layer: an RNN of one layer and direction, with gradients for its weights, but for the second bias.
        input: [T, B, I], or int64 tokens [T, B]; it gets no gradient.
    """
    if not torch.is_grad_enabled() or torch.compiler.is_compiling() or input.requires_grad or _is_hooked(layer):
        return None
    weights = layer._parameters.values()
    if any(weight is not None and not _is_bare(weight) for weight in weights):
        return None
    given = of_training(layer, input, None)
    if given is None:
        return None
    # a frozen W_hh may leave nothing to go back to; tied weights add up, and two biases would get one tensor
    first, second, bias, second_bias = taken = given[2]
    if first is second or not second.requires_grad:
        return None
    if second_bias is not None and (second_bias is bias or second_bias.requires_grad):
        return None
    found = direct.without_autograd(*given)
    if found is None:
        return None
    last, gradients = found

    def back(grad_last: Tensor) -> None:
        for weight, gradient in zip(taken, gradients(grad_last), strict=True):
            if gradient is not None:
                weight.grad = gradient

    return last, back


def _is_hooked(layer: Any) -> bool:
    """Whether a call of the layer may be more than its forward pass."""
    kind: Any = type(layer)
    if getattr(layer, "cell", None) != "RNN" or kind.forward is not PLAIN or kind.__call__ is not _CALL:
        return True
    held = vars(layer)
    if "forward" in held or any(held.get(name) for name in _HOOKS):
        return True
    if _has_global_hook is None or _is_profiling is None or _has_global_hook() or _is_profiling():
        return True
    return torch.is_anomaly_enabled() or saved_tensors_are_kept_elsewhere()


def _is_bare(weight: Tensor) -> bool:
    """Whether a gradient for this weight goes nowhere but into its .grad."""
    if not weight.requires_grad:
        return True
    return weight.is_leaf and not weight._backward_hooks and not getattr(weight, "_post_accumulate_grad_hooks", None)

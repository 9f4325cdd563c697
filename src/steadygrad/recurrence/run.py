"""One signature for the recurrence of one layer and direction, and the choice of who computes it.

reference   an autograd loop: (oracle.py): what the others are tested against
torch       forward and backward by hand in torch operations (bptt.py)
native      the same in the C++ kernel (native.py): CPU, float32 and float64
auto        native where it is built and quicker, else torch
"""

from __future__ import annotations

import contextlib
from typing import Any, cast

import torch
from torch import Tensor

from ..flow import Recorder
from . import bptt, native, op, oracle
from .options import Given, Gradients, Options, Saved, Wanted

BACKENDS = ("auto", "reference", "torch", "native")

NATIVE_UNITS = 1024
"""`auto` leaves larger layers to torch's own matrix products: measured by benchmarks/crossover.py, the kernel is quicker up
to here at batches of 1 to 32, and slower from 1,536 units on at batches of 32 and more."""


def choose(backend: str, weight_hh: Tensor) -> str:
    """The backend that computes: 'reference', 'torch' or 'native'."""
    fits = weight_hh.is_cpu and weight_hh.dtype in (torch.float32, torch.float64)
    if backend == "native" and not native.is_built():
        raise RuntimeError(native.HOW_TO_GET_IT)
    if backend in ("auto", "native"):
        small = backend == "native" or weight_hh.shape[0] <= NATIVE_UNITS
        return "native" if fits and small and native.is_built() else "torch"
    return backend


def is_autocast(tensor: Tensor) -> bool:
    """Whether torch would change dtypes of what is computed from this tensor."""
    if tensor.is_cpu:
        return torch.is_autocast_enabled("cpu")
    device = tensor.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def run(
    given: Given, options: Options, recorder: Recorder | None = None, backend: str = "auto"
) -> tuple[Tensor, Tensor]:
    """h_k for every step, and the last of them.

    Args:
        given: inputs, initial state, weights and lengths.
        options: how it is computed.
        recorder: where the backward pass leaves what it measured; None: it measures nothing.
        backend: one of `BACKENDS`.

    Returns:
        Output [T, B, H] and the last state [1, B, H]: of the last step, or of the first where `options.reverse`.
    """
    _check_fit(given)
    chosen = choose(backend, given.weight_hh)
    if chosen == "reference":
        return oracle.run(given, options, recorder)
    if torch.compiler.is_compiling():
        return op.run(given, options, recorder, chosen)
    if not given.inputs.is_contiguous():  # out here, where autograd sees that the copy comes from the input
        given = given._replace(inputs=given.inputs.contiguous())
    # One by one: autograd looks for tensors among the arguments, not inside them.
    return cast(Any, _Recurrence).apply(*given, options, recorder, native if chosen == "native" else bptt)


def _check_fit(given: Given) -> None:
    """The kernel reads memory as it is told to: parameters that were exchanged for others must still fit."""
    inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, _ = given
    units, dtype, device = weight_hh.shape[0], weight_hh.dtype, weight_hh.device
    for name, tensor, shape in (
        ("weight_hh", weight_hh, (units, units)),
        ("weight_ih", weight_ih, (units, weight_ih.shape[-1])),
        ("bias_ih", bias_ih, (units,)),
        ("bias_hh", bias_hh, (units,)),
    ):
        if tensor is not None and (tensor.shape != shape or tensor.dtype != dtype or tensor.device != device):
            raise ValueError(
                f"{name} must be {dtype} of shape {shape} on {device} to fit the layer, "
                f"not {tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}"
            )
    for name, tensor in (("the layer's input", inputs), ("h0", h0)):
        if tensor is not None and tensor.dtype != dtype and tensor.is_floating_point():
            raise ValueError(f"{name} must have the dtype of weight_hh, {dtype}, not {tensor.dtype}")


class _Recurrence(torch.autograd.Function):
    """BPTT by hand. `engine` is the module that computes: `native` or `bptt`."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        *tensors, options, recorder, engine = arguments
        saved, last = engine.forward(Given(*tensors), options)
        ctx.save_for_backward(*saved)
        ctx.options, ctx.recorder, ctx.engine = options, recorder, engine
        ctx.set_materialize_grads(False)  # a gradient of None is a whole tensor that need not be read
        return saved.output, last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        grad_output, grad_last = grads
        saved = Saved(*ctx.saved_tensors)
        needs = ctx.needs_input_grad
        wanted = Wanted(needs[0], needs[1], needs[2], needs[3], needs[4] or needs[5])
        options, recorder = ctx.options, ctx.recorder
        with _plainly(saved.output):
            found: Gradients = ctx.engine.backward(saved, grad_output, grad_last, options, wanted, recorder)
        if recorder is not None:
            recorder.record(found.measured, options, saved.lengths)
        inputs, h0, weight_ih, weight_hh, bias, _ = found
        gradients = (inputs, h0, weight_ih, weight_hh, bias if needs[4] else None, bias if needs[5] else None)
        if torch.is_grad_enabled():  # create_graph=True: whoever differentiates these again must hear that they can't
            gradients = cast(Any, _NotTwice).apply(gradients, grad_output, grad_last, *saved[:4])
        return (*gradients, None, None, None, None)


_NOTHING = contextlib.nullcontext()


def _plainly(tensor: Tensor) -> contextlib.AbstractContextManager[Any]:
    """Whatever backward() was called under: no graph of it is made, and its dtype stays."""
    if is_autocast(tensor):
        both = contextlib.ExitStack()
        both.enter_context(torch.no_grad())
        both.enter_context(torch.autocast(tensor.device.type, enabled=False))
        return both
    return torch.no_grad() if torch.is_grad_enabled() else _NOTHING


class _NotTwice(torch.autograd.Function):
    """Passes gradients on; refuses to be differentiated, where silence would mean wrong numbers."""

    @staticmethod
    def forward(ctx: Any, gradients: tuple[Tensor | None, ...], *came_from: Tensor | None) -> Any:
        # What they came from makes them depend on it, which is all that autograd needs to know to come here.
        return tuple(None if each is None else each.clone() for each in gradients)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "steadygrad.RNN can't be differentiated twice with backend 'torch' or 'native'; "
            "use backend='reference' for that"
        )

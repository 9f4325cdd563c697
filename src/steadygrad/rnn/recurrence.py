"""One signature for the recurrence of one layer and direction, and the choice of who computes it.

reference   an autograd loop: the oracle (reference.py)
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
from . import bptt, native, op, reference
from .options import Options, Saved, Wanted

BACKENDS = ("auto", "reference", "torch", "native")

NATIVE_UNITS = 1024
"""`auto` leaves larger layers to torch's own matrix products: measured by benchmarks/crossover.py, the kernel is quicker up
to here at batches of 1 to 32, and slower from 1,536 units on at batches of 32 and more."""


def choose(backend: str, weight_hh: Tensor) -> str:
    """The backend that computes: 'reference', 'torch' or 'native'."""
    fits = weight_hh.device.type == "cpu" and weight_hh.dtype in (torch.float32, torch.float64)
    if backend == "native" and not native.is_built():
        raise RuntimeError(native.HOW_TO_GET_IT)
    if backend in ("auto", "native"):
        small = backend == "native" or weight_hh.shape[0] <= NATIVE_UNITS
        return "native" if fits and small and native.is_built() else "torch"
    return backend


def run(
    inputs: Tensor,
    h0: Tensor | None,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    lengths: Tensor | None,
    options: Options,
    recorder: Recorder | None = None,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """h_k for every step, and the last of them.

    Args:
        inputs: [T, B, I], or integer tokens [T, B] in place of one-hot vectors.
        h0: [B, H]; None is zeros.
        weight_ih, weight_hh, bias_ih, bias_hh: [H, I], [H, H], [H], [H] or both None.
        lengths: [B] int64: the steps past a sequence's length hold its state.
        options: how it is computed.
        recorder: where the backward pass leaves what it measured; None: it measures nothing.
        backend: one of `BACKENDS`.

    Returns:
        Output [T, B, H] and the last state [B, H]: of the last step, or of the first where `options.reverse`.
    """
    arguments = (inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, options, recorder)
    _check_fit(inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh)
    chosen = choose(backend, weight_hh)
    if chosen == "reference":
        return reference.run(*arguments)
    if torch.compiler.is_compiling():
        return op.run(*arguments, chosen)
    return cast(Any, _Recurrence).apply(*arguments, native if chosen == "native" else bptt)


def _check_fit(
    inputs: Tensor,
    h0: Tensor | None,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
) -> None:
    """The kernel reads memory as it is told to: parameters that were exchanged for others must still fit."""
    units = weight_hh.shape[0]
    for name, given, shape in (
        ("weight_hh", weight_hh, (units, units)),
        ("weight_ih", weight_ih, (units, weight_ih.shape[-1])),
        ("bias_ih", bias_ih, (units,)),
        ("bias_hh", bias_hh, (units,)),
    ):
        if given is not None and (
            given.shape != shape or given.dtype != weight_hh.dtype or given.device != weight_hh.device
        ):
            raise ValueError(
                f"{name} must be {weight_hh.dtype} of shape {shape} on {weight_hh.device} to fit the layer, "
                f"not {given.dtype} of shape {tuple(given.shape)} on {given.device}"
            )
    for name, given in (("the layer's input", inputs), ("h0", h0)):
        if given is not None and given.dtype != weight_hh.dtype and given.is_floating_point():
            raise ValueError(f"{name} must have the dtype of weight_hh, {weight_hh.dtype}, not {given.dtype}")


class _Recurrence(torch.autograd.Function):
    """BPTT by hand. `engine` is the module that computes: `native` or `bptt`."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        h0: Tensor | None,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor | None,
        bias_hh: Tensor | None,
        lengths: Tensor | None,
        options: Options,
        recorder: Recorder | None,
        engine: Any,
    ) -> tuple[Tensor, Tensor]:
        saved: Saved = engine.forward(inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, options)
        ctx.save_for_backward(*saved)
        ctx.options, ctx.recorder, ctx.engine = options, recorder, engine
        ctx.set_materialize_grads(False)  # a gradient of None is a whole tensor that need not be read
        return saved.output, saved.output[0 if options.reverse else -1].clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        grad_output, grad_last = grads
        saved = Saved(*ctx.saved_tensors)
        needs = ctx.needs_input_grad
        wanted = Wanted(needs[0], needs[1], needs[2], needs[3], needs[4] or needs[5])
        task = (saved, grad_output, grad_last, ctx.options, wanted, ctx.recorder is not None)
        device = saved.output.device.type
        autocast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        if autocast or torch.is_grad_enabled():  # whatever backward() was called under
            with torch.no_grad(), torch.autocast(device, enabled=False) if autocast else contextlib.nullcontext():
                found = ctx.engine.backward(*task)
        else:
            found = ctx.engine.backward(*task)
        if ctx.recorder is not None:
            ctx.recorder.record(found.measured, ctx.options, saved.lengths)
        gradients = (
            found.inputs,
            found.h0,
            found.weight_ih,
            found.weight_hh,
            found.bias if needs[4] else None,
            found.bias if needs[5] else None,
        )
        if torch.is_grad_enabled():  # create_graph=True: whoever differentiates these again must hear that they can't
            gradients = cast(Any, _NotTwice).apply(gradients, grad_output, grad_last, *saved[:4])
        return (*gradients, None, None, None, None)


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

"""One signature for the recurrence of one layer and direction, and the choice of who computes it.

reference   an autograd loop (oracle.py): what the others are tested against
torch       forward and backward by hand in torch operations (bptt.py, gated_bptt.py)
native      the same in the C++ kernel (native.py): CPU, float32 and float64
triton      the plain layer's loops in one launch each (triton.py): CUDA, up to 128 units; never timed on a device
auto        native where it is built and quicker, else torch; never triton

Hand-written derivatives are for ordinary tensors, differentiated once. All else is done in operations that torch itself can
differentiate, trace or transform: tensor subclasses, dispatch modes, torch.func and forward-mode derivatives (`oracle`
without what it watches), a second derivative and batched gradients (the backward pass is computed by the oracle).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportPrivateUsage=false
# (much of what is used of torch here is not annotated)

from __future__ import annotations

import contextlib
import functools
import importlib
import math
from types import ModuleType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from ..checks import WrongInputError
from ..flow import Recorder
from . import native, strange
from .options import GATES, Given, Gradients, Options, Saved, Wanted

BACKENDS = ("auto", "reference", "torch", "native", "triton")
_FILES = {
    ("RNN", "torch"): "bptt",
    ("RNN", "native"): "native",
    ("RNN", "single"): "single",
    ("RNN", "triton"): "triton",
    ("GRU", "torch"): "gated_bptt",
    ("GRU", "native"): "native_gated",
    ("LSTM", "torch"): "gated_bptt",
    ("LSTM", "native"): "native_gated",
}


class _Engines(dict[tuple[str, str], ModuleType]):
    """The module that computes a cell by a backend; it is loaded when it is first asked for."""

    def __missing__(self, key: tuple[str, str]) -> ModuleType:
        self[key] = _module(_FILES[key])
        return self[key]


@functools.cache
def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__package__}.{name}")


ENGINES = _Engines()
_CHECK_ADDRESSES = (f"{__package__}.native", f"{__package__}.native_gated")
"""These look at every address themselves before the kernel reads it."""
_AT_HAND = (*_CHECK_ADDRESSES, f"{__package__}.single")
"""What these measure is in memory when they return; that of torch operations may still be computed, on a GPU."""

NO_OMEGA_HERE = (
    "alpha must be 0 and clip_error None under torch.func, vmap and forward-mode derivatives: Ω is a part of backward(), "
    "which they do not call"
)

NATIVE_UNITS = 1024
"""`auto` leaves larger layers to torch's own matrix products: measured by benchmarks/crossover.py, the kernel is quicker up
to here at batches of 1 to 32, and slower from 1,536 units on at batches of 32 and more."""

ONE_STEP_UNITS, FIRST_STEP_UNITS = 256, 1024
"""With gradients, `auto` leaves one step of plain layers from the first width on to single.py, or from the second on where the
state before it is zero: the kernel lays W_hh out first, which one product does not repay; without a state it need not."""

FEW_STEPS_UNITS, FEW_STEPS = 768, 4
"""With gradients, `auto` leaves up to so many steps of layers from this width on to torch's products, for the same reason."""


def choose(backend: str, weight_hh: Tensor, mode: str = "RNN") -> str:
    """The backend that computes: 'reference', 'torch', 'native' or 'triton'. Refuses what is not there."""
    if backend == "triton":
        from . import triton

        triton.check_mode(mode)
        return "triton" if triton.fits(weight_hh) else "torch"
    if backend == "native" and not native.is_built():
        raise RuntimeError(native.HOW_TO_GET_IT)
    if backend in ("auto", "native"):
        fits = weight_hh.is_cpu and weight_hh.dtype in (torch.float32, torch.float64)
        small = backend == "native" or weight_hh.shape[1] <= NATIVE_UNITS
        return "native" if fits and small and native.is_built() else "torch"
    return backend


def quickest(given: Given, options: Options, usual: ModuleType) -> ModuleType:
    """Who computes this call under `auto`, on a CPU with the kernel. It goes by shapes alone: threads must not change results.

    Args:
        given, options: the call.
        usual: who computes longer sequences of a layer of this width: the kernel, or torch's products.
    """
    steps, units = given.inputs.shape[0], given.weight_hh.shape[1]
    least = FIRST_STEP_UNITS if given.h0 is None else ONE_STEP_UNITS
    if units >= least and (single := ENGINES["RNN", "single"]).fits(given, options):
        return single
    return ENGINES[options.mode, "torch"] if units >= FEW_STEPS_UNITS and steps <= FEW_STEPS else usual


def is_autocast(tensor: Tensor) -> bool:
    """Whether torch would change dtypes of what is computed from this tensor."""
    if tensor.is_cpu:
        return torch.is_autocast_enabled("cpu")
    device = tensor.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def is_exporting() -> bool:
    """Whether the layer is being exported or traced, so that a program of torch's own operations is wanted."""
    exporting: Any = getattr(torch.compiler, "is_exporting", None)
    return cast(Any, torch.jit).is_tracing() or (exporting is not None and exporting())


def run(
    given: Given, options: Options, recorder: Recorder | None = None, backend: str = "auto"
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """h_k for every step, and the last state.

    Args:
        given: inputs, initial state, weights and lengths.
        options: how it is computed.
        recorder: where the backward pass leaves what it measured; None: it measures nothing.
        backend: one of `BACKENDS`.

    Returns:
        Output [T, B, H] and the last state, each part [1, B, H]: of the last step, or of the first where `options.reverse`.
    """
    _check_fit(given, options)
    chosen = choose(backend, given.weight_hh, options.mode)
    if is_exporting() or given.inputs.shape[1] == 0:  # an empty batch: no error to measure, gradients of 0
        return _by_autograd(given, options._replace(alpha=0.0, clip_error=None), None)
    if backend == "triton":  # only now: a layer is often made on the CPU and moved
        from . import triton

        triton.check_device(given.weight_hh)
    if torch.compiler.is_compiling():
        if chosen == "reference":
            return _by_oracle_uncompiled(given, options, recorder)
        from . import op

        return op.run(given, options, recorder, chosen)
    if is_transformed():
        if options.alpha > 0 or options.clip_error is not None:
            raise RuntimeError(NO_OMEGA_HERE)
        return _by_autograd(given, options, None)
    if not strange.are_ordinary(given):
        return _by_autograd(given, *strange.what_is_left(given, options, recorder))
    if chosen != "native":  # which looks at every address itself
        strange.check_storage(given)
    if chosen == "reference" or strange.is_watched():
        return _by_autograd(given, options, recorder)
    if not given.inputs.is_contiguous():  # out here, where autograd sees that the copy comes from the input
        given = given._replace(inputs=given.inputs.contiguous())
    engine = ENGINES[options.mode, chosen]
    if backend == "auto" and native.is_built() and choose("native", given.weight_hh) == "native":
        engine = quickest(given, options, engine)
        if engine.__name__ not in _CHECK_ADDRESSES:
            strange.check_storage(given)
    # One by one: autograd looks for tensors among the arguments, not inside them.
    output, *last = cast(Any, _Recurrence).apply(*given, options, recorder, engine)
    return output, tuple(last)


_functorch: Any = getattr(torch._C, "_functorch", None)  # pyright: ignore[reportPrivateUsage]


@cast(Any, torch)._disable_dynamo
def _by_oracle_uncompiled(
    given: Given, options: Options, recorder: Recorder | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The reference is a loop with hooks, which no compiler looks into: the graph is cut here."""
    return _by_autograd(given, options._replace(alpha=float(options.alpha)), recorder)


def _by_autograd(given: Given, options: Options, recorder: Recorder | None) -> tuple[Tensor, tuple[Tensor, ...]]:
    from . import oracle  # a statement, and no cached function: compilers trace it

    return oracle.run(given, options, recorder)


def is_transformed() -> bool:
    """Whether torch.func, vmap or forward-mode differentiation is at work."""
    if _functorch is not None and _functorch.peek_interpreter_stack() is not None:
        return True
    return torch.autograd.forward_ad._current_level >= 0  # pyright: ignore[reportPrivateUsage]


def _is_batched(grads: tuple[Tensor | None, ...]) -> bool:
    """Whether these are the gradients of several losses at once (`is_grads_batched`, vmap over backward)."""
    if _functorch is None:
        return False
    # `is_grads_batched` has a kind of batched tensor of its own, apart from vmap's.
    inside_vmap = _functorch.peek_interpreter_stack() is not None
    return any(
        grad is not None
        and (_functorch.is_legacy_batchedtensor(grad) or (inside_vmap and _functorch.is_batchedtensor(grad)))
        for grad in grads
    )


def _check_fit(given: Given, options: Options) -> None:
    """The kernel reads memory as it is told to: parameters that were exchanged for others must still fit."""
    inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, _, c0 = given
    dtype, device, units = weight_hh.dtype, weight_hh.device, weight_hh.shape[-1]
    rows = GATES[options.mode] * units
    for name, tensor, shape in (
        ("weight_hh", weight_hh, (rows, units)),
        ("weight_ih", weight_ih, (rows, weight_ih.shape[-1])),
        ("bias_ih", bias_ih, (rows,)),
        ("bias_hh", bias_hh, (rows,)),
    ):
        if tensor is not None and (tensor.shape != shape or tensor.dtype != dtype or tensor.device != device):
            raise WrongInputError(
                f"{name} must be {dtype} of shape {shape} on {device} to fit the layer, "
                f"not {tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}"
            )
    if inputs.dim() == 3 and inputs.shape[2] != weight_ih.shape[1]:
        raise WrongInputError(
            f"weight_ih must have {inputs.shape[2]} columns to fit the input, not {weight_ih.shape[1]}"
        )
    for name, tensor in (("the layer's input", inputs), ("h0", h0), ("c0", c0)):
        if tensor is not None and tensor.dtype != dtype and tensor.is_floating_point():
            raise WrongInputError(f"{name} must have the dtype of weight_hh, {dtype}, not {tensor.dtype}")


class _Recurrence(torch.autograd.Function):
    """BPTT by hand. `engine` is the module that computes."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        *tensors, options, recorder, engine = arguments
        given = Given(*tensors)
        saved: Saved
        saved, last = engine.forward(given, options)
        # The user may change the output in place. An alias shares its version counter and no graph: a changed output is
        # noticed, and computed again. Where hooks keep saved tensors elsewhere (checkpoints, off-loading), it goes with them.
        keeps_itself = not saved_tensors_are_kept_elsewhere()
        ctx.output = saved.output.detach() if keeps_itself else None
        ctx.version = None if saved.output.is_inference() else saved.output._version
        ctx.save_for_backward(*given, saved.activation, saved.memory, None if keeps_itself else saved.output)
        ctx.options, ctx.recorder, ctx.engine = options, recorder, engine
        ctx.set_materialize_grads(False)  # a gradient of None is a whole tensor that need not be read
        return (saved.output, *last)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        *tensors, activation, memory, output = ctx.saved_tensors
        if output is None:
            output, ctx.output = ctx.output, None  # freed with the graph's other tensors
        kept = Kept(output, ctx.version, activation, memory)
        needs = ctx.needs_input_grad[: len(tensors)]
        return (
            *go_back(ctx.engine, Given(*tensors), kept, grads, ctx.options, ctx.recorder, needs),
            *(None, None, None),
        )


class Kept(NamedTuple):
    """What a pass keeps for its way back, beside what it was given."""

    output: Tensor | None
    """None in a second backward pass."""
    version: int | None
    """The output's when it was made."""
    activation: Tensor | None
    memory: Tensor | None = None


def go_back(
    engine: Any,
    given: Given,
    kept: Kept,
    grads: tuple[Tensor | None, ...],
    options: Options,
    recorder: Recorder | None,
    needs: tuple[bool, ...],
) -> tuple[Tensor | None, ...]:
    """The gradients of what was given, in that order; None where not needed.

    Args:
        engine: the module that computed the forward pass.
        given, kept: what it computed from, and what it kept.
        grads: of the output and of each part of the last state; None for zeros.
        options, recorder: as in `run`.
        needs: which of `given` need a gradient.
    """
    batched = _is_batched(grads)
    if batched and options.alpha > 0:
        raise RuntimeError(
            "alpha must be 0 for batched gradients (is_grads_batched, vmap): Ω is about the errors of one loss"
        )
    if batched or torch.is_grad_enabled():
        return tuple(_by_oracle(given, options, None if batched else recorder, grads, needs))
    output, version, activation, memory = kept
    wanted = Wanted(needs[0], needs[1], needs[2], needs[3], needs[4] or needs[5], needs[7])
    with _plainly(given.weight_hh):
        if engine.__name__ not in _CHECK_ADDRESSES:
            strange.check_storage(given)
        # A second backward pass; or the output was changed in place, or its storage freed, by whoever got it.
        if output is None or output._version != version or not strange.holds_its_numbers(output):
            output = cast(Tensor, engine.forward(given, options)[0].output)
        inputs, h0, weight_ih, weight_hh, _, _, lengths, c0 = given
        saved = Saved(inputs, h0, weight_ih, weight_hh, lengths, output, activation, c0, memory)
        found: Gradients = engine.backward(saved, grads[0], grads[1:], options, wanted, recorder)
        if recorder is not None and found.measured is not None:
            at_fault = _look(engine, found.measured, options, inputs, output)
            recorder.record(found.measured, options, lengths, at_fault)
    bias_hh = found.bias if found.bias_hh is None else found.bias_hh
    biases = (found.bias if needs[4] else None, bias_hh if needs[5] else None)
    return found.inputs, found.h0, found.weight_ih, found.weight_hh, *biases, None, found.c0


def _look(engine: ModuleType, measured: Tensor, options: Options, inputs: Tensor, output: Tensor) -> Any:
    """Where a value of the pass was first not finite (fault.py), or what finds it later."""
    if engine.__name__ not in _AT_HAND:
        return _module("fault").later(measured, options, inputs, output)
    if math.isfinite(measured.sum().item()):  # most passes
        return None
    return _module("fault").find(measured, options, inputs, output)


def saved_tensors_are_kept_elsewhere() -> bool:
    """Whether hooks pack what autograd saves: checkpoints, off-loading."""
    ask: Any = getattr(cast(Any, torch._C)._autograd, "_top_saved_tensors_default_hooks", None)
    return ask is None or ask(False) is not None


def _by_oracle(
    given: Given, options: Options, recorder: Recorder | None, grads: tuple[Tensor | None, ...], needs: Any
) -> list[Tensor | None]:
    """The gradients of `given`, as functions of it and of `grads` that can be differentiated again."""
    again, needs = torch.is_grad_enabled(), needs[: len(given)]
    with torch.enable_grad():
        # Aliases: where one of them was computed from another, the way between them is not a part of this pass.
        tensors: Any = [
            each if each is None or not need else each.view_as(each) for each, need in zip(given, needs, strict=True)
        ]
        aliases = Given(*tensors)
        output, last = _by_autograd(aliases, options, recorder)
        reached = [index for index, grad in enumerate(grads) if grad is not None]
        results, leaves = (output, *last), [each for each, need in zip(tensors, needs, strict=True) if need]
        if not reached:
            return [None] * len(given)
        found: Any = torch.autograd.grad(
            [results[index] for index in reached],
            leaves,
            cast(Any, [grads[index] for index in reached]),
            create_graph=again,
            allow_unused=True,
        )
    each_found = iter(found)
    return [next(each_found) if need else None for need in needs]


_NOTHING = contextlib.nullcontext()


def _plainly(tensor: Tensor) -> contextlib.AbstractContextManager[Any]:
    """Whatever backward() was called under: its dtype stays."""
    return torch.autocast(tensor.device.type, enabled=False) if is_autocast(tensor) else _NOTHING

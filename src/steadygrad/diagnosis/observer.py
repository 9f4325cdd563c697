"""Sees the updates of a model: its hooks count them, keep what is needed of one in `every`, and make a `Look` of it.

    forward pass     counted; of an update to look at, a layer's detached inputs are kept
    backward pass    the gradients that its outputs receive are kept; at its end the layer is re-run from both (rerun.py)
    optimizer.step   the norm of the gradient that was used

In every other update the hooks count and return. Nothing of the model's graph, numbers or random state is touched.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from ..clip import NormClipper
from . import layers, measures
from .calls import Call, chosen_rows, note_call
from .cellrun import joined
from .look import CellLook, Clipping, Look
from .rerun import rerun

CALLS = 8
"""So many calls of a layer are looked at in one update; calls that go on from each other's state count as one."""


@dataclass
class _Pending:
    """An update that is being looked at."""

    update: int
    calls: dict[str, list[list[Call]]] = field(default_factory=dict[str, list[list[Call]]])
    """By layer: chains of calls, each call of a chain going on from the last state of the one before."""
    touched: set[int] = field(default_factory=set[int])
    cells: dict[tuple[str, int], list[CellLook]] = field(default_factory=dict[tuple[str, int], list[CellLook]])
    is_queued: bool = False
    notes: dict[str, None] = field(default_factory=dict[str, None])


class _Hook:
    """A hook that is not copied with the model, nor saved with it: a copy is another model, which nobody watches."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Nothing:
        return Nothing()

    def __reduce__(self) -> tuple[type[Nothing], tuple[()]]:
        return Nothing, ()


class Nothing:
    """What a copied or saved model has in place of a hook."""

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        pass


class Observer:
    """The hooks on a model and what they have seen.

    Attributes:
        looks: what was seen, oldest first; at most `keep`: beyond, every second of the older ones is dropped.
        weights: the recurrent matrix of every cell at the last look, by the cell's name without its call; a copy.
        seen: the layers that were looked at.
        gave_none: the layers through which no error flows.
    """

    def __init__(
        self,
        model: nn.Module,
        found: Mapping[str, nn.Module],
        every: int,
        keep: int,
        optimizer: Optimizer | None,
        clipper: NormClipper | None,
    ) -> None:
        self.model, self.every, self.keep = model, every, keep
        self.optimizer, self.clipper = optimizer, clipper
        self.looks: list[Look] = []
        self.weights: dict[str, torch.Tensor] = {}
        self.seen: set[str] = set()
        self.gave_none: set[str] = set()
        self._layers = found
        self._pending: _Pending | None = None
        self._passes = self._steps = self._inside = 0
        self._own_calls: Counter[str] = Counter()
        self._hooks: list[Any] = []
        self._attach()

    @property
    def updates(self) -> int:
        """How many updates were counted so far."""
        return max(self._counted(), *self._own_calls.values(), 0)

    @property
    def is_idle(self) -> bool:
        """Whether nothing was called in training mode yet."""
        return not self._passes and not self._own_calls and not self.looks

    def detach(self) -> None:
        """Takes all hooks away. What was seen stays."""
        self.settle()
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._pending = [], None

    def _attach(self) -> None:
        for name, module in self._layers.items():
            if getattr(module, "dropout", 0) and getattr(module, "num_layers", 1) > 1:
                before = _Hook(lambda module, args, name=name: self._before_layer(name))
                self._hooks.append(module.register_forward_pre_hook(before))
            after = _Hook(
                lambda module, args, kwargs, result, name=name: self._after_layer(name, module, args, kwargs, result)
            )
            self._hooks.append(module.register_forward_hook(after, with_kwargs=True))
        model, before = self.model, _Hook(lambda module, args: self._enter(module))
        # First in, last out: where the model is itself the layer, its own hook lies between these.
        self._hooks.append(model.register_forward_pre_hook(before, prepend=True))
        self._hooks.append(model.register_forward_hook(_Hook(lambda *_: self._leave()), always_call=True))
        if self.optimizer is not None:
            self._hooks.append(self.optimizer.register_step_post_hook(_Hook(lambda *_: self._after_step())))

    def _counted(self) -> int:
        if self.clipper is not None:
            return self.clipper.stats.steps  # also the updates that it skipped, which the optimizer never sees
        return self._passes if self.optimizer is None else self._steps

    def _enter(self, module: nn.Module) -> None:
        if torch.compiler.is_compiling():
            return
        self._inside += 1
        if module.training and torch.is_grad_enabled():
            self._begin(self._counted())
            self._passes += 1

    def _leave(self) -> None:
        if not torch.compiler.is_compiling():
            self._inside = max(0, self._inside - 1)

    def _begin(self, update: int) -> None:
        if update % self.every:
            if self._pending is not None:
                self.settle()
                self._pending = None
        elif self._pending is None or self._pending.update != update:
            self.settle()
            self._pending = _Pending(update)

    def _before_layer(self, name: str) -> None:
        if not torch.compiler.is_compiling() and (self._pending is not None or not self._inside):
            self._random_state = torch.get_rng_state()

    def _after_layer(self, name: str, module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        if torch.compiler.is_compiling() or not (self.model.training and torch.is_grad_enabled()):
            return
        if not self._inside and torch._C._current_graph_task_id() == -1:  # else: a checkpoint's second forward pass
            if self.optimizer is None:
                self._begin(self._own_calls[name])
                self._own_calls[name] += 1
            else:
                self._begin(self._counted())
        pending = self._pending
        if pending is not None:
            self._note(pending, name, module, args, kwargs, result)

    def _note(self, pending: _Pending, name: str, module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        def delivered(call: Call) -> None:
            pending.touched.add(id(call))
            if not pending.is_queued:
                pending.is_queued = True
                torch.autograd.Variable._execution_engine.queue_callback(lambda: self._after_backward(pending))  # pyright: ignore

        chains = pending.calls.setdefault(name, [])
        call = note_call(name, module, len(chains), args, kwargs, result, delivered)
        if call is None:
            self.gave_none.add(name)
            return
        if getattr(module, "dropout", 0) and getattr(module, "num_layers", 1) > 1:
            call.random_state = self._random_state
        if chains and _joins(call, chains[-1][-1]):
            call.index = len(chains) - 1
            chains[-1].append(call)
        elif len(chains) < CALLS:
            chains.append([call])
        else:
            pending.notes[
                f"{name or 'The model'} is called more than {CALLS} times in an update: the rest is not seen."
            ] = None

    # ------------------------------------------------------------------------------------------------- after a backward pass

    def _after_backward(self, pending: _Pending) -> None:
        pending.is_queued = False
        touched, pending.touched = pending.touched, set()
        for name, chains in pending.calls.items():
            for index, chain in enumerate(chains):
                if any(id(call) in touched for call in chain):
                    try:
                        pending.cells[name, index] = self._cells(name, index, chain)
                        self.seen.add(name)
                    except Exception as error:
                        # Training goes on: what only looks must not stop it.
                        said = f"{name or 'The model'} could not be looked at: {type(error).__name__}: {error}"
                        pending.notes[said] = None
                        warnings.warn(said, stacklevel=2)
        self._enter_look(pending)

    def _cells(self, name: str, index: int, chain: list[Call]) -> list[CellLook]:
        module = chain[0].module
        if not layers.can_be_run_again(module):
            return _from_flow(name, index, chain[-1])
        reached = [call for call in chain if call.reached]
        rows = chosen_rows(reached)
        runs = [rerun(call, rows) for call in reached]
        cells = [joined(list(parts)) for parts in zip(*runs, strict=True)]
        for cell in cells:
            self.weights[f"{name} {cell.name}".strip()] = cell.saved.weight_hh.clone()
        return [measures.cell_look(name, index, cell) for cell in cells]

    def _enter_look(self, pending: _Pending) -> None:
        gradients = layers.gradient_norms(self.model)
        order = {name: rank for rank, name in enumerate(self._layers)}
        keys = sorted(pending.cells, key=lambda key: (order[key[0]], key[1]))
        cells = tuple(cell for key in keys for cell in pending.cells[key])
        norms = [norm for norm in gradients.values() if norm is not None]
        approximate = dict.fromkeys(f"{cell.name} is {cell.approximate}." for cell in cells if cell.approximate)
        look = Look(
            pending.update,
            cells,
            gradients if norms else {},  # torch.autograd.grad leaves none anywhere: no parameter is to blame
            math.hypot(*norms) if norms else math.nan,
            notes=(*approximate, *pending.notes),
        )
        if self.looks and self.looks[-1].update == pending.update:
            self.looks[-1] = look
        else:
            self.looks.append(look)
        if len(self.looks) > self.keep:
            newest = len(self.looks) - 1
            self.looks = [each for index, each in enumerate(self.looks) if index % 2 == 0 or index == newest]

    def _after_step(self) -> None:
        if self._pending is not None and self.looks and self.looks[-1].update == self._pending.update:
            norms = [norm for norm in layers.gradient_norms(self.model).values() if norm is not None]
            self.looks[-1] = replace(self.looks[-1], norm_used=math.hypot(*norms) if norms else math.nan)
        self._steps += 1

    def settle(self) -> None:
        """Adds what the clipper has done by now to the last look."""
        if self.clipper is None or not self.looks:
            return
        stats = self.clipper.stats
        before = self.looks[-2].clipping if len(self.looks) > 1 else None
        new = stats.steps - (0 if before is None else before.steps)
        history = stats.history[len(stats.history) - min(new, len(stats.history)) :]
        clipping = Clipping(
            stats.threshold, stats.steps, stats.clipped, stats.skipped, stats.shrunk, stats.last_skipped, history
        )
        self.looks[-1] = replace(self.looks[-1], clipping=clipping)


def _joins(call: Call, before: Call) -> bool:
    module: Any = call.module
    is_one_way = layers.can_be_run_again(module) and not module.bidirectional
    same = getattr(call.given, "shape", None) is not None and getattr(before.given, "shape", None) is not None
    return is_one_way and same and call.goes_on_from(before)


def _from_flow(name: str, index: int, call: Call) -> list[CellLook]:
    module: Any = call.module
    found: list[CellLook] = []
    for flow in module.flow:
        _, steps, batch = flow.measured.shape
        numbers: Any = measures.of_flow(flow)
        fault = None if flow.fault is None else measures.Fault(flow.fault.what, flow.fault.step)
        kind, units = type(getattr(module, "cell", module)).__name__, call.output.shape[-1]
        found.append(CellLook(name, flow.name, index, kind, steps, batch, units, fault=fault, **numbers))
    return found

"""`sg.watch(model)`: looks at every 100th update, says what the gradients do there, and what to change.

When it does not look, its hooks count and return. When it looks, they keep a layer's detached inputs and the gradients that
its outputs receive; at the end of the backward pass the layer is re-run from these (rerun.py). Nothing of the model's graph,
numbers or random state is touched.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.optim import Optimizer

from .. import checks
from ..clip import NormClipper
from . import layers, measures
from .calls import Call, chosen_rows, note_call
from .cellrun import joined
from .look import CellLook, Clipping, Look
from .rerun import rerun

if TYPE_CHECKING:
    from .findings import Finding

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


class Watch:
    """Watches the recurrent layers of a model while it trains. `sg.watch(model)` makes one.

    An update is an `optimizer.step()` where `optimizer` or `clipper` is given; without them every forward pass of the model in
    training mode counts as one, and a layer that is called outside of the model's own forward pass counts its own calls.

    Args:
        model: any module with recurrent layers in it: torch.nn.RNN, GRU, LSTM, those of steadygrad, `sg.Recurrent`.
        every: look at one update in so many; the first is looked at.
        optimizer: whose steps are counted, and beside whose gradients before clipping those after it are shown.
        clipper: an `sg.NormClipper`, for how often it clipped and what it skipped; brings its optimizer with it.
        keep: at most so many looks are kept; beyond, every second of the older ones is dropped.
    """

    def __init__(
        self,
        model: nn.Module,
        every: int = 100,
        *,
        optimizer: Optimizer | None = None,
        clipper: NormClipper | None = None,
        keep: int = 256,
    ) -> None:
        if not isinstance(model, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise checks.WrongTypeError(f"model must be a torch.nn.Module, not a {type(model).__name__}")
        if optimizer is not None and not isinstance(optimizer, Optimizer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise checks.WrongTypeError(f"optimizer must be a torch.optim.Optimizer, not a {type(optimizer).__name__}")
        if clipper is not None and not isinstance(clipper, NormClipper):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise checks.WrongTypeError(f"clipper must be a steadygrad.NormClipper, not a {type(clipper).__name__}")
        if clipper is not None and optimizer is not None and clipper.optimizer is not optimizer:
            raise ValueError("optimizer must be the one that clipper clips for, not another")
        self.model = model
        self.every = checks.whole("every", every)
        self.keep = checks.whole("keep", keep, low=4)
        self.clipper = clipper
        self.optimizer = clipper.optimizer if clipper is not None else optimizer
        self._layers, self._notes = layers.find(model)
        if not self._layers:
            said = " ".join(self._notes) or f"it is made of {layers.kinds_inside(model)}"
            raise ValueError(f"model must have a recurrent layer (RNN, GRU, LSTM, sg.Recurrent) in it: {said}")
        self._looks: list[Look] = []
        self._pending: _Pending | None = None
        self._passes = self._steps = self._inside = 0
        self._own_calls: Counter[str] = Counter()
        self._seen: set[str] = set()
        self._gave_none: set[str] = set()
        self.weights: dict[str, torch.Tensor] = {}
        """The recurrent matrix of every cell at the last look, by the cell's name without its call; a copy."""
        self.written: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        """By writer: the last update that was written to TensorBoard."""
        self._hooks: list[Any] = []
        self._attach()

    # ------------------------------------------------------------------------------------------------- what the user reads

    @property
    def looks(self) -> Sequence[Look]:
        """What was seen, oldest first."""
        self._settle()
        return tuple(self._looks)

    def has_look_after(self, update: int) -> bool:
        """Whether something newer than this update was seen."""
        return bool(self._looks) and self._looks[-1].update > update

    @property
    def updates(self) -> int:
        """How many updates were counted so far."""
        return max(self._counted(), *self._own_calls.values(), 0)

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be seen and why, one sentence each."""
        notes = dict.fromkeys(self._notes)
        if not self._passes and not self._own_calls and not self._looks:
            notes[
                "No forward pass in training mode was seen yet (torch.compile leaves hooks out, so compiled models are not)."
            ] = None
            return tuple(notes)
        for name in (name for name in self._layers if name not in self._seen):
            called = name or "the model"
            if name in self._gave_none:
                notes[f"No error flows through {called}: nothing in it or before it is trained."] = None
            elif layers.is_compiled(self.model):
                notes[
                    f"{called} is not seen: torch.compile leaves hooks out; watch an uncompiled copy of the model."
                ] = None
            else:
                notes[f"{called} was not called in the updates that were looked at, or no error came to it."] = None
        for look in self._looks[-8:]:
            notes.update(dict.fromkeys(look.notes))
        return tuple(notes)

    @property
    def findings(self) -> list[Finding]:
        """What is wrong, the most important first; each a sentence with its number and what to change."""
        return [each for each in self.examined() if each.is_ill]

    def examined(self) -> list[Finding]:
        """Every question that was asked with its number, also where all is well; the most important first."""
        from .findings import examine

        alphas = {name: getattr(module, "alpha", None) for name, module in self._layers.items()}
        return examine(self.looks, self.weights, alphas)

    def __str__(self) -> str:
        from .table import text_of

        return text_of(self.looks, self.findings, self.weights, self.notes, self.updates)

    def page(self, path: str | Path) -> Path:
        """Writes one self-contained HTML page: the error over layers, steps and updates, findings, gradient norms."""
        from .page import page_of

        path = Path(path)
        page = page_of(self.looks, self.findings, weights=self.weights, notes=self.notes, updates=self.updates)
        path.write_text(page, encoding="utf-8")
        return path

    def to_jsonl(self, path: str | Path) -> Path:
        """Writes one line of JSON for every look; `diagnosis.read_jsonl` reads them."""
        from .records import write_jsonl

        return write_jsonl(self.looks, Path(path))

    def to_tensorboard(self, writer: Any) -> None:
        """Writes the looks that were not yet written to a torch.utils.tensorboard.SummaryWriter."""
        from .board import write_board

        write_board(self, writer)

    def scalars(self, look: Look) -> dict[str, float]:
        """The numbers of a look by name, as loggers take them: 'encoder.rnn l0/horizon', 'gradient_norm', …"""
        from .records import scalars

        return scalars(look)

    # ------------------------------------------------------------------------------------------------- hooks

    def detach(self) -> None:
        """Takes all hooks away. What was seen stays. Once is enough; again does nothing."""
        self._settle()
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._pending = [], None

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

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
                self._settle()
                self._pending = None
        elif self._pending is None or self._pending.update != update:
            self._settle()
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
            self._gave_none.add(name)
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
                        self._seen.add(name)
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
        if self._looks and self._looks[-1].update == pending.update:
            self._looks[-1] = look
        else:
            self._looks.append(look)
        if len(self._looks) > self.keep:
            newest = len(self._looks) - 1
            self._looks = [each for index, each in enumerate(self._looks) if index % 2 == 0 or index == newest]

    def _after_step(self) -> None:
        if self._pending is not None and self._looks and self._looks[-1].update == self._pending.update:
            norms = [norm for norm in layers.gradient_norms(self.model).values() if norm is not None]
            self._looks[-1] = replace(self._looks[-1], norm_used=math.hypot(*norms) if norms else math.nan)
        self._steps += 1

    def _settle(self) -> None:
        """Adds what the clipper has done by now to the last look."""
        if self.clipper is None or not self._looks:
            return
        stats = self.clipper.stats
        before = self._looks[-2].clipping if len(self._looks) > 1 else None
        new = stats.steps - (0 if before is None else before.steps)
        history = stats.history[len(stats.history) - min(new, len(stats.history)) :]
        clipping = Clipping(
            stats.threshold, stats.steps, stats.clipped, stats.skipped, stats.shrunk, stats.last_skipped, history
        )
        self._looks[-1] = replace(self._looks[-1], clipping=clipping)


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


def watch(
    model: nn.Module,
    every: int = 100,
    *,
    optimizer: Optimizer | None = None,
    clipper: NormClipper | None = None,
    keep: int = 256,
) -> Watch:
    """Watches the recurrent layers of a model while it trains: where the error dies or explodes, and what to change.

    Looks at one update in `every`; in between its hooks only count. The model's outputs, gradients and random numbers stay
    what they are without it, to the last bit.

    Args:
        model, every, optimizer, clipper, keep: see `Watch`.

    Returns:
        A `Watch`: `print(watch)`, `watch.findings`, `watch.page("gradients.html")`, `watch.to_jsonl(path)`,
        `watch.to_tensorboard(writer)`, `watch.detach()`. It is a context manager, too.

    Example:
        >>> import torch, steadygrad as sg
        >>> model = torch.nn.LSTM(3, 8)
        >>> with sg.watch(model, every=1) as watch:
        ...     output, _ = model(torch.randn(100, 4, 3))
        ...     output[-1].sum().backward()
        >>> watch.looks[0].cells[0].horizon < 50
        True
        >>> watch.findings[0].kind
        'forgets'
    """
    return Watch(model, every, optimizer=optimizer, clipper=clipper, keep=keep)

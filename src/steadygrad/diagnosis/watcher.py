"""`sg.watch(model)`: looks at every 100th update, says what the gradients do there, and what to change.

This is what a user holds; observer.py has the hooks that look, findings.py the questions that are asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.optim import Optimizer

from .. import checks
from ..clip import NormClipper
from . import layers
from .look import Look
from .observer import Observer

if TYPE_CHECKING:
    from .findings import Finding


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
        self._observer = Observer(model, self._layers, self.every, self.keep, self.optimizer, clipper)
        self.written: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        """By writer: the last update that was written to TensorBoard."""

    # ------------------------------------------------------------------------------------------------- what the user reads

    @property
    def looks(self) -> Sequence[Look]:
        """What was seen, oldest first."""
        self._observer.settle()
        return tuple(self._observer.looks)

    def has_look_after(self, update: int) -> bool:
        """Whether something newer than this update was seen."""
        looks = self._observer.looks
        return bool(looks) and looks[-1].update > update

    @property
    def updates(self) -> int:
        """How many updates were counted so far."""
        return self._observer.updates

    @property
    def weights(self) -> Mapping[str, torch.Tensor]:
        """The recurrent matrix of every cell at the last look, by the cell's name without its call; a copy."""
        return self._observer.weights

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be seen and why, one sentence each."""
        notes = dict.fromkeys(self._notes)
        if self._observer.is_idle:
            notes[
                "No forward pass in training mode was seen yet (torch.compile leaves hooks out, so compiled models are not)."
            ] = None
            return tuple(notes)
        for name in (name for name in self._layers if name not in self._observer.seen):
            called = name or "the model"
            if name in self._observer.gave_none:
                notes[f"No error flows through {called}: nothing in it or before it is trained."] = None
            elif layers.is_compiled(self.model):
                notes[
                    f"{called} is not seen: torch.compile leaves hooks out; watch an uncompiled copy of the model."
                ] = None
            else:
                notes[f"{called} was not called in the updates that were looked at, or no error came to it."] = None
        for look in self._observer.looks[-8:]:
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

    # ------------------------------------------------------------------------------------------------- its end

    def detach(self) -> None:
        """Takes all hooks away. What was seen stays. Once is enough; again does nothing."""
        self._observer.detach()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()


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

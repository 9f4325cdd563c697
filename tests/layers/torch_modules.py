"""PyTorch's own module database, with our layer in the place of torch's: samples, error inputs, how two layers are compared.

The database (torch.testing._internal.common_modules) is what PyTorch tests its modules with, and ships in its wheel.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

import steadygrad as sg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own imports
    pytest.importorskip("expecttest", reason="torch's module database needs the package expecttest")
    from torch.testing._internal import common_modules

CELLS = ("RNN", "GRU", "LSTM")
OURS: dict[str, Any] = {"RNN": sg.RNN, "GRU": sg.GRU, "LSTM": sg.LSTM}
TORCHS: dict[str, Any] = {"RNN": torch.nn.RNN, "GRU": torch.nn.GRU, "LSTM": torch.nn.LSTM}
# In float64 two orders of summation differ by rounding alone.
CLOSE: dict[str, Any] = {"rtol": 1e-11, "atol": 1e-12}


@dataclass(frozen=True)
class Sample:
    """How a layer is made, and what it is called with."""

    name: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    given: tuple[Any, ...]

    @property
    def projects(self) -> bool:
        return self.options.get("proj_size", 0) > 0

    def layer(self, cell: str, ours: bool, **more: Any) -> Any:
        """From a fixed seed: ours and torch's have the same weights."""
        torch.manual_seed(1)
        made = (OURS if ours else TORCHS)[cell](*self.arguments, **self.options, **more)
        return made.double()

    def inputs(self, batch: int | None = None) -> tuple[Any, ...]:
        """Fresh leaves with the same numbers: unbatched as in the database, or that sequence times 1, 2, 3 … as a batch."""
        if batch is None:
            return _fresh(self.given)
        sequence, *states = self.given
        first = 0 if self.options.get("batch_first") else 1

        def several(tensor: Any, axis: int) -> Any:
            if not isinstance(tensor, Tensor):
                return tuple(several(each, axis) for each in tensor)
            return torch.stack([tensor / (1 + number) for number in range(batch)], axis)

        return _fresh((several(sequence, first), *(several(state, 1) for state in states)))


def _fresh(given: Any) -> Any:
    if isinstance(given, Tensor):
        return given.detach().clone().requires_grad_(given.is_floating_point())
    if isinstance(given, tuple) and not isinstance(given, PackedSequence):
        return tuple(map(_fresh, given))
    return given


@functools.cache
def _info(cell: str) -> Any:
    return next(info for info in common_modules.module_db if info.module_cls is TORCHS[cell])


def _asked(function: Any, cell: str) -> list[Any]:
    torch.manual_seed(0)
    return list(function(_info(cell), device="cpu", dtype=torch.float64, requires_grad=True, training=True))


@functools.cache
def samples(cell: str) -> list[Sample]:
    """Every sample of the database."""
    found: list[Sample] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, each in enumerate(_asked(_info(cell).module_inputs_func, cell)):
            made, given = each.constructor_input, each.forward_input
            options = dict(made.kwargs)
            for name in ("device", "dtype"):
                options.pop(name, None)
            shown = "-".join(f"{name}={value}" for name, value in options.items() if value not in (False, None))
            found.append(Sample(f"{number}-{shown}", made.args, options, tuple(given.args)))
    return found


def errors(cell: str) -> Iterator[tuple[str, Any]]:
    """Every error input of the database that is about this cell."""
    for number, each in enumerate(_asked(_info(cell).module_error_inputs_func, cell)):
        yield f"{number}-{each.error_regex[:40]}", each


def tensors(given: Any) -> list[Tensor]:
    """All tensors inside, in order."""
    if isinstance(given, PackedSequence):
        return [given.data]
    if isinstance(given, Tensor):
        return [given]
    return [tensor for each in given or () for tensor in tensors(each)]


def loss(result: Any) -> Tensor:
    """A sum in which every entry of every output counts differently."""
    parts = tensors(result)
    weighed = [(part * torch.linspace(-1, 2, part.numel(), dtype=part.dtype).view(part.shape)).sum() for part in parts]
    return torch.stack(weighed).sum()


def computed(layer: Any, given: tuple[Any, ...]) -> list[Tensor]:
    """Outputs, and the gradients of parameters and inputs."""
    torch.manual_seed(7)  # the dropout's
    result = layer(*given)
    leaves = [*layer.parameters(), *(each for each in tensors(given) if each.is_leaf and each.requires_grad)]
    return [*tensors(result), *torch.autograd.grad(loss(result), leaves, allow_unused=True)]


def assert_same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, **CLOSE)

"""The constant input under which fixed points are searched: u [1, D], or [1, …] for a cell of the user's."""

from __future__ import annotations

import torch
from torch import Tensor

from .gated import GatedLayer
from .layer import Layer
from .plain import PlainLayer
from .reading import Source


def constant_input(source: Source, layer: Layer, input: Tensor | int | None) -> Tensor:
    """The input as a float64 batch of one; a token as a one-hot vector, or as it is for a cell of the user's."""
    if isinstance(layer, (PlainLayer, GatedLayer)):
        return _vector(layer.weight_ih.shape[1], input)
    name = type(source.module).__name__
    if input is None:
        size = getattr(source.module, "input_size", None)
        if not isinstance(size, int):
            raise ValueError(f"input must be given: {name} has no input_size")
        return torch.zeros(1, size, dtype=torch.float64)
    value = torch.as_tensor(input).detach().to("cpu")
    if not value.is_floating_point():
        return value.unsqueeze(0)
    if not value.isfinite().all():
        raise ValueError(f"input must be finite, not {input!r}")
    return value.double().unsqueeze(0)


def _vector(size: int, input: Tensor | int | None) -> Tensor:
    u = torch.zeros(1, size, dtype=torch.float64)
    if input is None:
        return u
    if isinstance(input, Tensor) and input.is_floating_point():
        if list(input.shape) != [size] or not input.isfinite().all():
            raise ValueError(f"input must be a finite vector [{size}], not {input!r}")
        return input.detach().to("cpu", torch.float64).unsqueeze(0)
    if isinstance(input, Tensor) and input.numel() == 1 and not input.is_complex() and input.dtype != torch.bool:
        input = int(input)
    if isinstance(input, (Tensor, bool)) or not isinstance(input, int) or not 0 <= input < size:
        raise ValueError(f"input must be a vector of floats [{size}] or a token from 0 to {size - 1}, not {input!r}")
    u[0, input] = 1.0
    return u

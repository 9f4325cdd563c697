"""Parameters with gradients, clippers and states to compare, shared by the tests of clipping."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

from steadygrad.clip import NormClipper


def parameters(*gradients: Any, dtype: torch.dtype = torch.float64) -> list[Any]:
    """One parameter of ones for each gradient."""
    made = []
    for gradient in gradients:
        tensor = gradient if isinstance(gradient, Tensor) else torch.tensor(gradient, dtype=dtype)
        parameter = Parameter(torch.ones_like(tensor))
        parameter.grad = tensor.clone()
        made.append(parameter)
    return made


def random_parameters(scale: float = 1.0, dtype: torch.dtype = torch.float64) -> list[Any]:
    generator = torch.Generator().manual_seed(7)
    shapes = [(5, 5), (5, 2), (5,), (3, 5), ()]
    return parameters(*[scale * torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes])


def flat(tensors: list[Parameter]) -> Tensor:
    return torch.cat([p.grad.to(torch.float64).flatten() for p in tensors if p.grad is not None])


def gradients(steps: int, scale: float = 3.0) -> Iterator[list[Tensor]]:
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        yield [scale * torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((3, 3), (3,))]


def fresh() -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    return [Parameter(torch.randn(shape, generator=generator, dtype=torch.float64)) for shape in ((3, 3), (3,))]


def give(tensors: list[Parameter], values: list[Tensor]) -> None:
    for parameter, value in zip(tensors, values, strict=True):
        parameter.grad = value.clone()


def frozen(tensors: list[Parameter], optimizer: Optimizer) -> bytes:
    """Parameters and optimizer state, to the bit."""
    return pickle.dumps([[p.detach().numpy().tobytes() for p in tensors], plain(optimizer.state_dict())])


def plain(tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return (str(tree.dtype), tuple(tree.shape), tree.detach().numpy().tobytes())
    if isinstance(tree, dict):
        return [(str(key), plain(value)) for key, value in tree.items()]
    if isinstance(tree, list):
        return [plain(value) for value in tree]
    return repr(tree)


def recurrent_model() -> Any:
    torch.manual_seed(0)
    return nn.ModuleDict({"rnn": nn.RNN(2, 4), "readout": nn.Linear(4, 1)}).double()


def explode(model: Any, name: str, value: float) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    model.get_parameter(name).grad.view(-1)[0] = value


def feed(clipper: NormClipper, norms: Any) -> list[float]:
    """One step for each norm; returns the thresholds they met."""
    (tensor,) = clipper.optimizer.param_groups[0]["params"]
    met = []
    for norm in norms:
        met.append(clipper.threshold)
        tensor.grad = torch.tensor([float(norm)], dtype=torch.float64)
        clipper.optimizer.step()
    return met


def clipper_of(threshold: Any, **options: Any) -> NormClipper:
    return NormClipper(torch.optim.SGD(parameters([0.0]), lr=0.0), threshold, **options)


def lognormal(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(size=count)

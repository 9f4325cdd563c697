"""A process of its own: `python strange_tensors.py BACKEND` gives one layer each strange tensor in turn.

It prints one line of JSON per cell and tensor: "right" where numbers (or, where there are none, shapes) are torch's, otherwise
the sentence. Where the process dies, the lines end: test_strange_tensors.py sees which came last.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.masked import masked_tensor
from torch.testing._internal.logging_tensor import LoggingTensor, LoggingTensorMode
from torch.testing._internal.two_tensor import TwoTensor

import steadygrad as sg

T, B, I, H = 5, 2, 3, 4


class Pair:
    """Our layer and torch's with the same weights, and an input for both."""

    def __init__(self, cell: str, backend: str) -> None:
        torch.manual_seed(0)
        self.ours: Any = getattr(sg, cell)(I, H, backend=backend, dtype=torch.float64)
        self.torchs: Any = getattr(torch.nn, cell)(I, H, dtype=torch.float64)
        self.torchs.load_state_dict(self.ours.state_dict())
        self.x = torch.randn(T, B, I, dtype=torch.float64)
        self.grad = torch.randn(T, B, H, dtype=torch.float64)

    def expected(self, x: Tensor | None = None, grad: Tensor | None = None) -> list[Tensor]:
        output = self.torchs(self.x if x is None else x)[0]
        output.backward(self.grad if grad is None else grad)
        return [output, *(parameter.grad for parameter in self.torchs.parameters())]

    def found(self, x: Any, grad: Any = None, of: Callable[[Any], Tensor] = lambda tensor: tensor) -> list[Tensor]:
        output = self.ours(x)[0]
        output.backward(self.grad if grad is None else grad)
        return [of(each) for each in (output, *(parameter.grad for parameter in self.ours.parameters()))]

    def exchange(self, wrap: Callable[[Tensor], Tensor]) -> None:
        for name, parameter in list(self.ours.named_parameters()):
            setattr(self.ours, name, torch.nn.Parameter(wrap(parameter.detach())))


def compare(found: list[Tensor], expected: list[Tensor]) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


def two(tensor: Tensor) -> Tensor:
    return TwoTensor(tensor, tensor.clone())


def freed(tensor: Tensor) -> Tensor:
    tensor.untyped_storage().resize_(0)
    return tensor


def fake_mode(pair: Pair) -> None:
    with FakeTensorMode():
        layer = type(pair.ours)(I, H, alpha=0.5, backend=pair.ours.backend)
        output = layer(torch.randn(T, B, I))[0]
        output.sum().backward()
    assert output.shape == (T, B, H)
    assert layer.weight_hh_l0.grad.shape == layer.weight_hh_l0.shape


def fake_input(pair: Pair) -> None:
    output = pair.ours(FakeTensorMode(allow_non_fake_inputs=True).from_tensor(pair.x))[0]
    output.sum().backward()
    assert output.shape == (T, B, H)


def two_input(pair: Pair) -> None:
    compare(pair.found(two(pair.x), two(pair.grad), lambda tensor: tensor.b), pair.expected())


def two_parameters(pair: Pair) -> None:
    pair.exchange(two)
    compare(pair.found(pair.x, two(pair.grad), lambda tensor: tensor.a), pair.expected())


def logging_input(pair: Pair) -> None:
    output = pair.ours(LoggingTensor(pair.x))[0]
    output.backward(LoggingTensor(pair.grad))
    compare([output.elem], pair.expected()[:1])


def logging_mode(pair: Pair) -> None:
    with LoggingTensorMode():
        found = pair.found(pair.x)
    compare(found, pair.expected())
    assert len(pair.ours.flow) == 1


def masked(pair: Pair) -> None:
    pair.ours(masked_tensor(pair.x, torch.ones_like(pair.x, dtype=torch.bool)))


def zero_gradient(pair: Pair) -> None:
    zero = torch._efficientzerotensor(pair.grad.shape, dtype=torch.float64)
    compare(pair.found(pair.x, zero), pair.expected(grad=torch.zeros_like(pair.grad)))


def zero_input(pair: Pair) -> None:
    zero = torch._efficientzerotensor(pair.x.shape, dtype=torch.float64)
    compare(pair.found(zero), pair.expected(torch.zeros_like(pair.x)))


def negated_input(pair: Pair) -> None:
    assert torch._neg_view(pair.x).is_neg()
    compare(pair.found(torch._neg_view(pair.x)), pair.expected(-pair.x))


def negated_gradient(pair: Pair) -> None:
    compare(pair.found(pair.x, torch._neg_view(pair.grad)), pair.expected(grad=-pair.grad))


def freed_input(pair: Pair) -> None:
    pair.ours(freed(pair.x.clone()))


def freed_tokens(pair: Pair) -> None:
    pair.ours(freed(torch.zeros(T, B, dtype=torch.int64)))


def freed_weight(pair: Pair) -> None:
    freed(pair.ours.weight_hh_l0.data)
    pair.ours(pair.x)


def freed_weight_before_backward(pair: Pair) -> None:
    output = pair.ours(pair.x)[0]
    freed(pair.ours.weight_hh_l0.data)
    output.sum().backward()


def freed_output_before_backward(pair: Pair) -> None:
    output = pair.ours(pair.x)[0]
    loss = (output * pair.grad).sum()
    freed(output.data)
    loss.backward()
    compare([each.grad for each in pair.ours.parameters()], pair.expected()[1:])


def distributed(pair: Pair) -> Any:
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    mesh = init_device_mesh("cpu", (1,))
    pair.exchange(lambda tensor: distribute_tensor(tensor, mesh, [Shard(0)]))
    return lambda tensor: distribute_tensor(tensor, mesh, None)


def distributed_parameters(pair: Pair) -> None:
    copied = distributed(pair)
    found = pair.found(copied(pair.x), copied(pair.grad), lambda tensor: tensor.full_tensor())
    compare(found, pair.expected())


def distributed_parameters_and_omega(pair: Pair) -> None:
    copied = distributed(pair)
    pair.ours.alpha = 0.5
    pair.ours(copied(pair.x))


def sparse_input(pair: Pair) -> None:
    pair.ours(pair.x.to_sparse())


def nested_input(pair: Pair) -> None:
    pair.ours(torch.nested.nested_tensor([pair.x[:, 0], pair.x[:2, 1]]))


CASES: dict[str, Callable[[Pair], None]] = {
    each.__name__: each
    for each in (
        *(fake_mode, fake_input, two_input, two_parameters, logging_input, logging_mode, masked, zero_gradient),
        *(zero_input, negated_input, negated_gradient, freed_input, freed_tokens, freed_weight),
        *(freed_weight_before_backward, freed_output_before_backward, distributed_parameters),
        *(distributed_parameters_and_omega, sparse_input, nested_input),
    )
}
CELLS = ("RNN", "GRU", "LSTM")

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for cell in CELLS:
        for name, case in CASES.items():
            try:
                case(Pair(cell, sys.argv[1]))
                outcome = "right"
            except Exception as refusal:
                outcome = f"{type(refusal).__name__}: {refusal}"
            print(json.dumps([cell, name, outcome]), flush=True)

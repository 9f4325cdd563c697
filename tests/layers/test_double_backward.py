"""Second derivatives: gradient penalties, MAML and Hessian-vector products give torch's numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.utils.rnn import pack_padded_sequence

import steadygrad as sg

T, B, I, H = 4, 3, 2, 3
CELLS = ("RNN", "GRU", "LSTM")
each_cell = pytest.mark.parametrize("cell", CELLS)


def both(cell: str, backend: str, **arguments: Any) -> tuple[Any, Any]:
    """Our layer and torch's, from the same seed."""
    torch.manual_seed(1)
    ours = getattr(sg, cell)(I, H, backend=backend, dtype=torch.float64, **arguments)
    torchs = getattr(torch.nn, cell)(I, H, dtype=torch.float64, **arguments)
    torchs.load_state_dict(ours.state_dict())
    return ours, torchs


def sequence() -> Tensor:
    draw = torch.Generator().manual_seed(2)
    return torch.randn(T, B, I, dtype=torch.float64, generator=draw, requires_grad=True)


def loss(layer: Any, x: Tensor, parameters: dict[str, Tensor] | None = None) -> Tensor:
    output, last = layer(x) if parameters is None else functional_call(layer, parameters, (x,))
    parts = last if isinstance(last, tuple) else (last,)
    return output.square().sum() + sum(part.sin().sum() for part in parts)


def assert_same(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@each_cell
def test_gradient_penalty_equals_torch(backend: str, cell: str) -> None:
    found: list[Any] = []
    for layer in both(cell, backend, num_layers=2):
        x = sequence()
        (of_input,) = torch.autograd.grad(loss(layer, x), x, create_graph=True)
        found.append(torch.autograd.grad(of_input.square().sum(), list(layer.parameters())))
    assert_same(*found)


@each_cell
def test_gradient_through_an_inner_step_equals_torch(backend: str, cell: str) -> None:
    # MAML: the loss after one step of gradient descent, differentiated in where that step began.
    found: list[Any] = []
    for layer in both(cell, backend, bidirectional=True):
        start = dict(layer.named_parameters())
        gradients = torch.autograd.grad(loss(layer, sequence(), start), list(start.values()), create_graph=True)
        moved = {name: start[name] - 0.1 * gradient for name, gradient in zip(start, gradients, strict=True)}
        outer = loss(layer, sequence().flip(0), moved)
        found.append(torch.autograd.grad(outer, list(start.values())))
    assert_same(*found)


@each_cell
def test_hessian_vector_product_equals_torch(backend: str, cell: str) -> None:
    found: list[Any] = []
    for layer in both(cell, backend):
        parameters = list(layer.parameters())
        gradients = torch.autograd.grad(loss(layer, sequence()), parameters, create_graph=True)
        along = sum(
            (gradient * torch.linspace(-1, 1, gradient.numel()).view_as(gradient)).sum() for gradient in gradients
        )
        found.append(torch.autograd.grad(along, parameters))
    assert_same(*found)


@each_cell
def test_packed_sequences_have_second_derivatives(backend: str, cell: str) -> None:
    found: list[Any] = []
    for layer in both(cell, backend):
        x = sequence()
        packed = pack_padded_sequence(x, torch.tensor([2, 4, 1]), enforce_sorted=False)
        (gradient,) = torch.autograd.grad(layer(packed)[0].data.square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(gradient.square().sum(), list(layer.parameters())))
    assert_same(*found)


@pytest.mark.parametrize("only", ["bias_ih_l0", "bias_hh_l0", "weight_hh_l0", "weight_ih_l0"])
@each_cell
def test_only_one_parameter_that_requires_a_gradient_loses_no_term(backend: str, cell: str, only: str) -> None:
    # A weight that is not contiguous: autograd must see through the copy that is made of it.
    found: list[Any] = []
    for layer in both(cell, backend):
        layer.requires_grad_(False)
        parameter = layer.get_parameter(only)
        if parameter.dim() == 2:
            parameter.data = parameter.data.T.contiguous().T
            assert not parameter.is_contiguous()
        parameter.requires_grad_()
        (gradient,) = torch.autograd.grad(loss(layer, sequence().detach()), parameter, create_graph=True)
        found.append(torch.autograd.grad(gradient.square().sum(), parameter))
    assert_same(*found)


@each_cell
def test_create_graph_gives_the_gradients_and_the_flow_of_a_plain_pass(fast_backend: str, cell: str) -> None:
    ours, _ = both(cell, fast_backend)
    ours.alpha = 0.5
    leaves = list(ours.parameters())
    plain, norms = torch.autograd.grad(loss(ours, sequence()), leaves), ours.flow.norms
    ours(2 * sequence())[0].sum().backward()
    assert_same(torch.autograd.grad(loss(ours, sequence()), leaves, create_graph=True), plain)
    torch.testing.assert_close(ours.flow.norms, norms)


@each_cell
def test_with_omega_what_does_not_come_from_it_is_still_differentiated(backend: str, cell: str) -> None:
    ours, torchs = both(cell, backend)
    ours.alpha = 0.5
    found: list[Any] = []
    for layer in (ours, torchs):
        x = sequence()
        (gradient,) = torch.autograd.grad(loss(layer, x), x, create_graph=True)
        inputs_and_biases = [layer.weight_ih_l0, layer.bias_ih_l0, layer.bias_hh_l0, x]
        found.append(torch.autograd.grad(gradient.square().sum(), inputs_and_biases))
    assert_same(*found)


@each_cell
def test_omegas_part_of_a_gradient_is_not_differentiated_again(backend: str, cell: str) -> None:
    ours, _ = both(cell, backend)
    ours.alpha = 0.5
    (gradient,) = torch.autograd.grad(loss(ours, sequence()), ours.weight_hh_l0, create_graph=True)
    with pytest.raises(
        RuntimeError, match=r"^Ω's part of the gradient of weight_hh can't be differentiated again; set alpha = 0"
    ):
        gradient.square().sum().backward()

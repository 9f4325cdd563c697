"""What the tests of the core share: the backends, and every error of every step from a loop written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import steadygrad as sg
from steadygrad.rnn import native

needs_kernel = pytest.mark.skipif(native.library() is None, reason="the C++ kernel is not built")
NATIVE = pytest.param("native", marks=needs_kernel)


@pytest.fixture(params=["reference", "torch", NATIVE])
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend in turn."""
    return request.param


@pytest.fixture(params=["torch", NATIVE])
def fast_backend(request: pytest.FixtureRequest) -> str:
    """Each backend whose derivatives are written by hand."""
    return request.param


@dataclass(frozen=True)
class CellErrors:
    """Of one layer and direction, all [T, B, H]: states, slopes and total errors, steps in the order of the input."""

    weight_hh: Tensor
    before: Tensor  # a_k
    after: Tensor  # h_k
    slope: Tensor  # σ'(a_k)
    error_before: Tensor  # ∂E/∂a_k
    error_after: Tensor  # ∂E/∂h_k


ErrorsByHand = Callable[..., list[CellErrors]]
SIGMA: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x * 1,
}


@pytest.fixture
def errors_by_hand() -> ErrorsByHand:
    """`errors_by_hand(rnn, input, loss, lengths=None)`: a plain loop over the layer's parameters, read with retain_grad."""
    return _errors_by_hand


def _errors_by_hand(
    rnn: sg.RNN, sequence: Tensor, loss: Callable[[Tensor], Tensor], lengths: Tensor | None = None
) -> list[CellErrors]:
    sigma = SIGMA[rnn.nonlinearity]
    steps, batch, _ = sequence.shape
    kept: list[tuple[Tensor, list[Tensor], list[Tensor]]] = []
    for layer in range(rnn.num_layers):
        outputs: list[Tensor] = []
        for suffix in ("", "_reverse") if rnn.bidirectional else ("",):
            parameters = {
                part: getattr(rnn, f"{part}_l{layer}{suffix}").detach() for part in ("weight_ih", "weight_hh")
            }
            bias = sum(getattr(rnn, f"{part}_l{layer}{suffix}").detach() for part in ("bias_ih", "bias_hh"))
            before, after, states = ([torch.empty(0)] * steps for _ in range(3))
            state = sequence.new_zeros(batch, rnn.hidden_size).requires_grad_()
            for k in reversed(range(steps)) if suffix else range(steps):
                before[k] = sequence[k] @ parameters["weight_ih"].T + state @ parameters["weight_hh"].T + bias
                after[k] = rnn.leak * state + (1 - rnn.leak) * sigma(before[k])
                before[k].retain_grad()
                after[k].retain_grad()
                state = after[k] if lengths is None else torch.where((k < lengths).unsqueeze(1), after[k], state)
                states[k] = state
            kept.append((parameters["weight_hh"], before, after))
            outputs.append(torch.stack(states))
        sequence = torch.cat(outputs, -1)
    loss(sequence).backward()
    return [_cell(sigma, *cell) for cell in kept]


def _cell(
    sigma: Callable[[Tensor], Tensor], weight_hh: Tensor, before: list[Tensor], after: list[Tensor]
) -> CellErrors:
    a = torch.stack(before).detach().requires_grad_()
    (slope,) = torch.autograd.grad(sigma(a).sum(), a)
    return CellErrors(weight_hh, a.detach(), torch.stack(after).detach(), slope, _grads(before), _grads(after))


def _grads(tensors: list[Tensor]) -> Tensor:
    return torch.stack([torch.zeros_like(each) if each.grad is None else each.grad for each in tensors])

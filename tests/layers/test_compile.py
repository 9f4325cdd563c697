"""The layer under torch.compile, and the operator it is compiled to."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import steadygrad as sg
from steadygrad.recurrence.cells import GATES

needs_op = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own compiler, on import
T, B, I, H = 6, 4, 3, 5

LAYERS: dict[str, dict[str, Any]] = {
    "deep-bidirectional": {"num_layers": 2, "bidirectional": True, "alpha": 0.5},
    "leaky-program-clipped": {"leak": 0.3, "omega": "program", "clip_error": 0.1, "alpha": 0.5, "bias": False},
}


@needs_op
@pytest.mark.parametrize("arguments", LAYERS.values(), ids=LAYERS.keys())
def test_compiled_layer_equals_eager(arguments: dict[str, Any]) -> None:
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    torch.manual_seed(0)
    rnn = sg.RNN(I, H, dtype=torch.float64, backend="torch", **arguments)
    x = torch.randn(T, B, I, dtype=torch.float64, requires_grad=True)
    h0 = torch.randn(len(rnn.all_weights), B, H, dtype=torch.float64, requires_grad=True)

    def loss(x: Tensor, h0: Tensor) -> Tensor:
        output, last = rnn(x, h0)
        return output.square().sum() + last.sin().sum()

    leaves = [x, h0, *rnn.parameters()]
    value = loss(x, h0)
    gradients = torch.autograd.grad(value, leaves)
    norms, omega = rnn.flow.norms, rnn.flow.omega
    loss(2 * x, h0).backward()  # so that what the compiled pass leaves can be told from what the eager one left
    assert not torch.equal(rnn.flow.norms, norms)

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    again = compiled(x, h0)
    found = torch.autograd.grad(again, leaves)
    torch.testing.assert_close(again, value, rtol=1e-14, atol=0)
    for gradient, expected in zip(found, gradients, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(rnn.flow.norms, norms, rtol=1e-13, atol=0)
    assert rnn.flow.omega == pytest.approx(omega, rel=1e-12)


@needs_op
def test_compiled_tokens_equal_eager() -> None:
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    torch.manual_seed(0)
    rnn = sg.RNN(I, H, dtype=torch.float64, backend="torch", alpha=0.5)
    tokens = torch.randint(I, (T, B))
    eager = torch.autograd.grad(rnn(tokens)[0].square().sum(), list(rnn.parameters()))
    compiled = torch.compile(lambda tokens: rnn(tokens)[0].square().sum(), backend="aot_eager", fullgraph=True)
    for found, expected in zip(torch.autograd.grad(compiled(tokens), list(rnn.parameters())), eager, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-14)


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


# alpha; nonlinearity, leak, reverse, convention, clip_error, mode
OPTIONS: dict[str, tuple[float, tuple[Any, ...]]] = {
    "plain": (0.0, ("tanh", 0.0, False, "paper", None, "RNN")),
    "reverse-omega": (0.5, ("sigmoid", 0.0, True, "paper", None, "RNN")),
    "leaky-program-clipped": (0.5, ("relu", 0.3, False, "program", 0.1, "RNN")),
    "gru": (0.5, ("tanh", 0.0, True, "paper", None, "GRU")),
    "lstm": (0.5, ("tanh", 0.0, False, "proceedings", 0.1, "LSTM")),
}


@needs_op
@pytest.mark.parametrize("given", ["everything", "tokens-lengths"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_operator_keeps_the_rules_of_torch_library(
    fast_backend: str, options: tuple[float, tuple[Any, ...]], given: str
) -> None:
    torch.manual_seed(0)
    alpha, spelled = options
    mode = spelled[-1]
    rows = GATES[mode] * H
    c0 = leaf(B, H) if mode == "LSTM" else None
    tensors: tuple[Any, ...] = (
        leaf(T, B, I),
        leaf(B, H),
        leaf(rows, I),
        leaf(rows, H),
        leaf(rows),
        leaf(rows),
        None,
        c0,
    )
    if given == "tokens-lengths":
        tokens, lengths = torch.randint(I, (T, B)), torch.tensor([6, 2, 1, 4])
        tensors = (tokens, None, leaf(rows, I), leaf(rows, H), None, None, lengths, None)
    settings = (torch.tensor(alpha, dtype=torch.float64), torch.tensor(-1))
    # Raises where the schema, the fake tensors or the gradient's registration break a rule.
    torch.library.opcheck(torch.ops.steadygrad.recurrence.default, (*tensors, *settings, *spelled, fast_backend))

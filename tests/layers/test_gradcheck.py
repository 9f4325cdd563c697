"""Derivatives against finite differences, over shapes and options drawn at random."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

import steadygrad as sg

# A fixture that only names the backend may be shared by all examples; no deadline, since the machine may be busy. The
# examples are as small as they can usefully be: shrinking them would take minutes and tell nothing.
EXAMPLES = settings(
    max_examples=20,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@st.composite
def layers(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a small layer. 'relu' is left to the reference: finite differences don't see its kink."""
    return {
        "input_size": draw(st.integers(1, 3)),
        "hidden_size": draw(st.integers(1, 4)),
        "num_layers": draw(st.integers(1, 2)),
        "nonlinearity": draw(st.sampled_from(["tanh", "sigmoid", "identity"])),
        "bias": draw(st.booleans()),
        "batch_first": draw(st.booleans()),
        "bidirectional": draw(st.booleans()),
        "leak": draw(st.sampled_from([0.0, 0.4])),
        "omega": draw(st.sampled_from(["paper", "proceedings", "program"])),
    }


def function_of_leaves(
    arguments: dict[str, Any], steps: int, batch: int, packed: bool, with_state: bool, seed: int
) -> tuple[Any, tuple[Tensor, ...]]:
    """A function of input, h0 and parameters that gives the layer's output and last states; and where to evaluate it."""
    torch.manual_seed(seed)
    rnn = sg.RNN(**arguments, dtype=torch.float64)
    names = [name for name, _ in rnn.named_parameters()]
    shape = (batch, steps) if rnn.batch_first else (steps, batch)
    x = torch.randn(*shape, rnn.input_size, dtype=torch.float64, requires_grad=True)
    h0 = torch.randn(rnn.num_layers * (1 + rnn.bidirectional), batch, rnn.hidden_size, dtype=torch.float64)
    lengths = torch.randint(1, steps + 1, (batch,)) if packed else None

    def call(x: Tensor, h0: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        sequence = x
        if lengths is not None:
            sequence = pack_padded_sequence(x, lengths, batch_first=rnn.batch_first, enforce_sorted=False)
        given = (sequence, h0) if with_state else (sequence,)
        output, last = torch.func.functional_call(rnn, dict(zip(names, parameters, strict=True)), given)
        return (output if lengths is None else output.data), last

    leaves = [parameter.detach().clone().requires_grad_() for parameter in rnn.parameters()]
    return call, (x, h0.requires_grad_(with_state), *leaves)


@EXAMPLES
@given(
    arguments=layers(),
    steps=st.integers(1, 4),
    batch=st.integers(1, 3),
    packed=st.booleans(),
    with_state=st.booleans(),
    seed=st.integers(0, 2**20),
)
def test_first_derivatives_equal_finite_differences(
    backend: str, arguments: dict[str, Any], steps: int, batch: int, packed: bool, with_state: bool, seed: int
) -> None:
    call, leaves = function_of_leaves(arguments | {"backend": backend}, steps, batch, packed, with_state, seed)
    # Central differences with a step of 1e-6 are right to 1e-9 or so; gradcheck's own tolerances (1e-5, 1e-3) are wider.
    # The reference's hooks need a gradient at every step, so an undefined one is only tried on the others.
    defined = backend == "reference"
    assert torch.autograd.gradcheck(
        call, leaves, atol=1e-6, rtol=1e-5, fast_mode=True, check_undefined_grad=not defined
    )


@pytest.mark.parametrize("leak", [0.0, 0.4])
def test_each_entry_of_the_jacobian_equals_finite_differences(backend: str, leak: float) -> None:
    # The test above looks along random directions; this one at every entry, for one layer.
    arguments = {"input_size": 2, "hidden_size": 3, "leak": leak, "backend": backend}
    call, leaves = function_of_leaves(arguments, steps=3, batch=2, packed=True, with_state=True, seed=0)
    assert torch.autograd.gradcheck(call, leaves, atol=1e-6, rtol=1e-5, check_undefined_grad=False)


@pytest.mark.parametrize("leak", [0.0, 0.4])
@pytest.mark.parametrize("nonlinearity", ["tanh", "sigmoid"])
def test_reference_has_second_derivatives(nonlinearity: str, leak: float) -> None:
    arguments = {"input_size": 2, "hidden_size": 2, "nonlinearity": nonlinearity, "leak": leak, "backend": "reference"}
    call, leaves = function_of_leaves(arguments, steps=3, batch=2, packed=False, with_state=True, seed=0)
    assert torch.autograd.gradgradcheck(call, leaves, check_undefined_grad=False)


def test_create_graph_alone_gives_the_same_gradients(fast_backend: str) -> None:
    rnn = sg.RNN(2, 3, backend=fast_backend, alpha=0.5)
    x = torch.randn(4, 2, 2, requires_grad=True)
    leaves = [x, *rnn.parameters()]
    plain = torch.autograd.grad(rnn(x)[0].square().sum(), leaves)
    with_graph = torch.autograd.grad(rnn(x)[0].square().sum(), leaves, create_graph=True)
    for found, expected in zip(with_graph, plain, strict=True):  # float32, by another path
        torch.testing.assert_close(found.detach(), expected, rtol=1e-4, atol=1e-5)

"""Bad input is answered by one sentence that names the argument, what is allowed and what came; and changes nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

import steadygrad as sg

ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"input_size": 0}, "input_size must be a whole number of at least 1, not 0"),
    ({"hidden_size": 0}, "hidden_size must be a whole number of at least 1, not 0"),
    ({"hidden_size": -3}, "hidden_size must be a whole number of at least 1, not -3"),
    ({"hidden_size": 2.5}, "hidden_size must be a whole number of at least 1, not 2.5"),
    ({"num_layers": 0}, "num_layers must be a whole number of at least 1, not 0"),
    ({"num_layers": True}, "num_layers must be a whole number of at least 1, not True"),
    ({"nonlinearity": "tahn"}, "nonlinearity must be one of .*, not 'tahn' .did you mean 'tanh'?"),
    ({"nonlinearity": "gelu"}, "nonlinearity must be one of 'tanh', 'relu', 'sigmoid', 'identity', not 'gelu'"),
    (
        {"omega": "papers"},
        "omega must be one of 'paper', 'proceedings', 'program', not 'papers' .did you mean 'paper'?",
    ),
    ({"backend": "nativ"}, "backend must be one of .*, not 'nativ' .did you mean 'native'?"),
    ({"alpha": -0.1}, "alpha must be a finite number of at least 0, not -0.1"),
    ({"alpha": math.nan}, "alpha must be a finite number of at least 0, not nan"),
    ({"alpha": math.inf}, "alpha must be a finite number of at least 0, not inf"),
    ({"alpha": "2"}, "alpha must be a finite number of at least 0, not '2'"),
    ({"leak": 1.0}, r"leak must be a number in \[0, 1\), not 1.0"),
    ({"leak": -0.1}, r"leak must be a number in \[0, 1\), not -0.1"),
    ({"leak": math.nan}, r"leak must be a number in \[0, 1\), not nan"),
    ({"dropout": 1.5}, r"dropout must be a number in \[0, 1\], not 1.5"),
    ({"dropout": -0.5}, r"dropout must be a number in \[0, 1\], not -0.5"),
    ({"clip_error": 0}, "clip_error must be a finite number above 0, not 0"),
    ({"clip_error": -1.0}, "clip_error must be a finite number above 0, not -1.0"),
    ({"clip_error": math.nan}, "clip_error must be a finite number above 0, not nan"),
    ({"dtype": torch.int64}, "dtype must be a floating-point type, not torch.int64"),
]


@pytest.mark.parametrize(("arguments", "sentence"), ARGUMENTS, ids=[str(arguments) for arguments, _ in ARGUMENTS])
def test_arguments_outside_what_is_allowed_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    usual: dict[str, Any] = {"input_size": 3, "hidden_size": 5}
    with pytest.raises(ValueError, match=f"^{sentence}") as refused:
        sg.RNN(**(usual | arguments))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, None])
def test_a_refused_alpha_leaves_the_old_one(value: Any) -> None:
    rnn = sg.RNN(3, 5, alpha=0.5)
    with pytest.raises(ValueError, match=r"^alpha must be"):
        rnn.alpha = value
    assert rnn.alpha == 0.5


def packed(tensor: torch.Tensor) -> Any:
    return pack_padded_sequence(tensor, torch.tensor([4, 2]), enforce_sorted=False)


CALLS: dict[str, tuple[Callable[[], tuple[Any, ...]], type[Exception], str]] = {
    "rank 1": (lambda: (torch.ones(3),), ValueError, r"input must be \[T, B, input_size\] or .*, not of shape (3,)"),
    "rank 4": (lambda: (torch.ones(4, 2, 1, 3),), ValueError, r"input must be \[T, B, input_size\] or .*, not of shape"),
    "features": (lambda: (torch.ones(4, 2, 7),), ValueError, r"input must have 3 features \(input_size\), not 7"),
    "packed features": (lambda: (packed(torch.ones(4, 2, 7)),), ValueError, "input must have 3 features .*, not 7"),
    "tokens rank 3": (
        lambda: (torch.ones(4, 2, 3).long(),), ValueError, r"input must be \[T, B\] or \[T\] tokens, not of shape"
    ),
    "tokens int32": (
        lambda: (torch.ones(4, 2).int(),), ValueError, "input must be torch.float32 or int64 tokens, not torch.int32"
    ),
    "dtype": (
        lambda: (torch.ones(4, 2, 3).double(),),
        ValueError,
        "input must have the layer's dtype, torch.float32, not torch.float64",
    ),
    "device": (
        lambda: (torch.ones(4, 2, 3, device="meta"),),
        ValueError,
        "input must be on the layer's device, cpu, not on meta",
    ),
    "no steps": (lambda: (torch.ones(0, 2, 3),), ValueError, r"input must hold at least one step, .* (0, 2, 3)"),
    "no tokens": (lambda: (torch.ones(0, 2).long(),), ValueError, "input must hold at least one step"),
    "hx shape": (
        lambda: (torch.ones(4, 2, 3), torch.ones(1, 3, 5)),
        ValueError,
        r"hx must be of shape (1, 2, 5) to fit the input, not (1, 3, 5)",
    ),
    "hx cells": (lambda: (torch.ones(4, 2, 3), torch.ones(2, 2, 5)), ValueError, "hx must be of shape (1, 2, 5)"),
    "hx unbatched": (lambda: (torch.ones(4, 3), torch.ones(1, 1, 5)), ValueError, "hx must be of shape (1, 5) to fit"),
    "hx packed": (lambda: (packed(torch.ones(4, 2, 3)), torch.ones(1, 4, 5)), ValueError, "hx must be of shape (1, 2, 5)"),
    "hx dtype": (
        lambda: (torch.ones(4, 2, 3), torch.ones(1, 2, 5).double()),
        ValueError,
        "hx must be torch.float32 on cpu, not torch.float64 on cpu",
    ),
    "hx device": (
        lambda: (torch.ones(4, 2, 3), torch.ones(1, 2, 5, device="meta")),
        ValueError,
        "hx must be torch.float32 on cpu, not torch.float32 on meta",
    ),
}  # fmt: skip


def refuse(rnn: sg.RNN, given: tuple[Any, ...], kind: type[Exception], sentence: str) -> None:
    """The call is refused with that sentence, and parameters, gradients and flow are what they were."""
    rnn(torch.ones(4, 2, 3))[0].sum().backward()
    before = [
        (parameter.clone(), parameter.grad.clone()) for parameter in rnn.parameters() if parameter.grad is not None
    ]
    flow = rnn.flow.norms.clone()
    # Shapes are written as they are printed; their parentheses are no groups.
    pattern = re.sub(r"\((\d.*?)\)", r"\\(\1\\)", sentence)
    with pytest.raises(kind, match=f"^{pattern}") as refused:
        rnn(*given)
    assert "\n" not in str(refused.value)
    assert len(before) == 4
    for parameter, (value, gradient) in zip(rnn.parameters(), before, strict=True):
        assert torch.equal(parameter, value)
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, gradient)
    assert torch.equal(rnn.flow.norms, flow)


@pytest.mark.parametrize(("make", "kind", "sentence"), CALLS.values(), ids=CALLS.keys())
def test_input_that_does_not_fit_is_refused_and_changes_nothing(
    make: Callable[[], tuple[Any, ...]], kind: type[Exception], sentence: str
) -> None:
    refuse(sg.RNN(3, 5, alpha=0.5), make(), kind, sentence)


@pytest.mark.parametrize("token", [3, -1, 10**9])
@pytest.mark.parametrize("as_packed", [False, True])
def test_tokens_out_of_range_are_refused_and_change_nothing(fast_backend: str, token: int, as_packed: bool) -> None:
    tokens = torch.zeros(4, 2, dtype=torch.int64)
    tokens[1, 1] = token
    rnn = sg.RNN(3, 5, alpha=0.5, backend=fast_backend)
    sentence = r"input holds a token outside 0 … 2 \(input_size is 3\)"
    refuse(rnn, (packed(tokens) if as_packed else tokens,), IndexError, sentence)


def test_flow_before_a_backward_pass_is_empty() -> None:
    rnn = sg.RNN(3, 5)
    rnn(torch.ones(4, 2, 3))
    assert len(rnn.flow) == 0
    assert repr(rnn.flow) == "GradientFlow(no backward pass yet)"
    with pytest.raises(RuntimeError, match=r"^flow is empty until loss.backward\(\) has gone through this layer"):
        _ = rnn.flow.norms

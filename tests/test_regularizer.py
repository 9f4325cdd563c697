"""sg.omega against the printed formula, differentiated by autograd (Pascanu et al. 2013, eq. 9 and 10)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import steadygrad as sg

if TYPE_CHECKING:  # not at run time: several folders have a module of that name
    from conftest import OmegaAsPrinted

SIGMA: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x * 1,
}
CONVENTIONS = ("paper", "proceedings", "program")
LEAKS = (0.0, 0.3)


def states(nonlinearity: str, leak: float, steps: int = 6, batch: int = 3, units: int = 5) -> tuple[Tensor, ...]:
    """Recurrent matrix, hidden states, their slopes, and errors, at random but consistent with each other."""
    draw = torch.Generator().manual_seed(5)
    a, errors, start = (torch.randn(steps, batch, units, dtype=torch.float64, generator=draw) for _ in range(3))
    weight = torch.randn(units, units, dtype=torch.float64, generator=draw) / math.sqrt(units)
    a.requires_grad_()
    activation = SIGMA[nonlinearity](a)
    (slope,) = torch.autograd.grad(activation.sum(), a)
    hidden, state = [], SIGMA[nonlinearity](start[0])
    for value in activation.detach():
        state = leak * state + (1 - leak) * value
        hidden.append(state)
    return weight, torch.stack(hidden), slope, errors


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("nonlinearity", SIGMA)
def test_omega_equals_autograd_of_the_printed_formula(
    omega_as_printed: OmegaAsPrinted, nonlinearity: str, convention: str, leak: float, padded: bool
) -> None:
    weight, hidden, slope, errors = states(nonlinearity, leak)
    if leak > 0:  # σ(a_0) can't be told from h_0 alone; no pair needs it
        slope[0] = math.nan
    lengths = torch.tensor([6, 1, 4]) if padded else None
    value, gradient = sg.omega(hidden, errors, weight, nonlinearity, leak=leak, lengths=lengths, convention=convention)
    expected, derivative = omega_as_printed(weight, slope, errors, leak=leak, lengths=lengths, convention=convention)
    assert expected > 0
    # float64: both are sums of a few dozen products.
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(gradient, derivative, rtol=1e-11, atol=1e-14)


def test_omega_of_one_sequence_needs_no_batch_axis() -> None:
    weight, hidden, _, errors = states("tanh", 0.0, batch=1)
    with_batch = sg.omega(hidden, errors, weight, "tanh")
    without = sg.omega(hidden[:, 0], errors[:, 0], weight, "tanh")
    assert all(torch.equal(a, b) for a, b in zip(with_batch, without, strict=True))


def test_padding_may_hold_anything() -> None:
    weight, hidden, _, errors = states("tanh", 0.0)
    lengths = torch.tensor([6, 2, 4])
    expected = sg.omega(hidden, errors, weight, "tanh", lengths=lengths)
    for sequence, length in enumerate(lengths):
        hidden[int(length) :, sequence] = 0.123
        errors[int(length) :, sequence] = 1e6
    found = sg.omega(hidden, errors, weight, "tanh", lengths=lengths)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_omega_records_no_graph_and_touches_nothing() -> None:
    weight, hidden, _, errors = (each.requires_grad_() for each in states("tanh", 0.0))
    before = [each.detach().clone() for each in (weight, hidden, errors)]
    value, gradient = sg.omega(hidden, errors, weight, "tanh")
    assert not value.requires_grad
    assert not gradient.requires_grad
    assert all(torch.equal(a, b) for a, b in zip((weight, hidden, errors), before, strict=True))


@pytest.mark.parametrize("scale", [1e25, 1e-9, 1e-25])
@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_float32_errors_of_any_scale_give_the_omega_of_float64(convention: str, leak: float, scale: float) -> None:
    # Squares of 1e25 and 1e-25 leave float32. In the program's convention a pair counts from a norm of 1e-10 on, in any dtype.
    weight, hidden, _, errors = states("tanh", leak)
    exact, derivative = sg.omega(hidden, errors * scale, weight, "tanh", leak=leak, convention=convention)
    value, gradient = sg.omega(
        hidden.float(), (errors * scale).float(), weight.float(), "tanh", leak=leak, convention=convention
    )
    assert bool(exact > 0) == (convention != "program" or scale > 1e-10)
    assert value.dtype == gradient.dtype == torch.float32
    # float32 rounds its input to 7 digits; sums of five units and ratios near 1 cost two of them.
    torch.testing.assert_close(value.double(), exact, rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient.double(), derivative, rtol=1e-4, atol=1e-5 * float(derivative.abs().max()))


def test_float32_errors_that_vanish_in_one_step_still_count() -> None:
    # ‖v‖ is 1e-25: its square leaves float32, and a pair with v = 0 would not be active.
    weight, hidden, _, errors = states("tanh", 0.0)
    value, gradient = sg.omega(hidden.float(), errors.float(), (weight * 1e-25).float(), "tanh")
    assert value == 1
    assert gradient.isfinite().all()
    assert gradient.abs().max() > 0


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "hidden rank": ({"hidden": torch.ones(5), "errors": torch.ones(5)}, r"hidden must be \[T, B, H\] or \[T, H\], not"),
    "errors shape": ({"errors": torch.ones(4, 2, 5)}, r"errors must have the shape of hidden, .*, not"),
    "weight shape": ({"weight_hh": torch.ones(5, 4)}, r"weight_hh must be \[5, 5\] to fit hidden, not of shape"),
    "nonlinearity": (
        {"nonlinearity": "sigmoidal"},
        "nonlinearity must be one of .*, not 'sigmoidal' .did you mean 'sigmoid'",
    ),
    "convention": (
        {"convention": "programme"},
        "convention must be one of .*, not 'programme' .did you mean 'program'",
    ),
    "leak": ({"leak": 1.0}, r"leak must be a number in \[0, 1\), not 1.0"),
    "too long": ({"lengths": torch.tensor([3, 4])}, "lengths must lie in 1 … 3, the number of steps, not in 3 … 4"),
    "too short": ({"lengths": torch.tensor([0, 3])}, "lengths must lie in 1 … 3, the number of steps, not in 0 … 3"),
    "too many": ({"lengths": torch.tensor([1, 2, 3])}, "lengths must be 2 whole numbers, not"),
    "no integers": ({"lengths": torch.tensor([1.0, 2.0])}, "lengths must be 2 whole numbers, not torch.float32"),
}


@pytest.mark.parametrize(("changed", "sentence"), BAD.values(), ids=BAD.keys())
def test_arguments_that_do_not_fit_are_refused(changed: dict[str, Any], sentence: str) -> None:
    given: dict[str, Any] = {"hidden": torch.ones(3, 2, 5), "errors": torch.ones(3, 2, 5), "weight_hh": torch.eye(5)}
    given |= {"nonlinearity": "tanh"} | changed
    with pytest.raises(ValueError, match=f"^{sentence}") as refused:
        sg.omega(**given)
    assert "\n" not in str(refused.value)

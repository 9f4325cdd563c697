"""Ω and flow do not see the scale of the loss; and what is not finite is said, with the first step at fault."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import steadygrad as sg

T, B, I, H = 12, 3, 2, 6
each_cell = pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])


def layer(cell: str, backend: str, **arguments: Any) -> Any:
    torch.manual_seed(4)
    return getattr(sg, cell)(I, H, backend=backend, dtype=torch.float64, **{"alpha": 0.5, **arguments})


def sequence() -> Tensor:
    return torch.randn(T, B, I, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


@each_cell
@pytest.mark.parametrize("convention", ["paper", "proceedings"])
@pytest.mark.parametrize("scale", [1e-11, 1e-80, 1e80])
def test_flow_and_omega_do_not_see_the_scale_of_the_loss(
    backend: str, cell: str, convention: str, scale: float
) -> None:
    rnn = layer(cell, backend, omega=convention)
    seen: list[tuple[float, float, int]] = []
    for factor in (1.0, scale):
        rnn.zero_grad()
        (rnn(sequence())[0][-1].sum() * factor).backward()
        seen.append((rnn.flow.omega, rnn.flow.active, rnn.flow.horizon))
    (omega, active, horizon), scaled = seen
    assert active == 1.0
    assert horizon > 0
    assert scaled == (pytest.approx(omega, rel=1e-9), active, horizon)


@pytest.mark.parametrize("convention", ["paper", "proceedings"])
def test_omegas_derivative_does_not_see_the_scale_of_the_loss(backend: str, convention: str) -> None:
    # With zero states dE/dW_hh is 0: what is left is Ω's part.
    rnn = layer("RNN", backend, omega=convention, nonlinearity="identity", bias=False)
    found: list[Tensor] = []
    for scale in (1.0, 1e-11):
        rnn.zero_grad()
        (rnn(torch.zeros(T, B, I, dtype=torch.float64))[0][-1].sum() * scale).backward()
        found.append(rnn.weight_hh_l0.grad.clone())
    assert found[0].abs().max() > 0
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=0)


def test_the_programs_omega_keeps_its_absolute_bound(backend: str) -> None:
    rnn = layer("RNN", backend, omega="program")
    (rnn(sequence())[0][-1].sum() * 1e-11).backward()
    assert rnn.flow.active == 0


@each_cell
def test_an_input_that_is_not_a_number_is_reported_with_its_step(backend: str, cell: str) -> None:
    rnn, x = layer(cell, backend), sequence()
    x[3, 1] = torch.nan
    rnn(x)[0].sum().backward()
    assert rnn.flow[0].fault == ("input", 3)
    assert repr(rnn.flow) == f"GradientFlow(l0: {T} steps, not finite: the input of step 3)"
    assert math.isnan(rnn.flow.omega)


@each_cell
def test_an_infinite_loss_is_reported_as_an_error_of_the_last_step(backend: str, cell: str) -> None:
    rnn = layer(cell, backend)
    (rnn(sequence())[0][-1].sum() * torch.inf).backward()
    assert rnn.flow[0].fault == ("error", T - 1)
    assert "not finite: the error of step 11" in repr(rnn.flow)


def test_a_state_that_overflows_is_reported_with_its_step(backend: str) -> None:
    rnn = layer("RNN", backend, nonlinearity="identity")
    with torch.no_grad():
        rnn.weight_hh_l0.copy_(torch.eye(H) * 1e60)
    rnn(sequence())[0].sum().backward()
    what, step = rnn.flow[0].fault
    first = next(k for k, state in enumerate(rnn(sequence())[0]) if not state.isfinite().all())
    assert (what, step) == ("state", first)


def test_a_network_whose_errors_grow_is_told_from_a_steady_one(backend: str) -> None:
    reprs: dict[float, str] = {}
    for size in (1.0, 2.0):
        rnn = layer("RNN", backend, nonlinearity="identity", alpha=0.0)
        with torch.no_grad():
            rnn.weight_hh_l0.copy_(torch.linalg.qr(rnn.weight_hh_l0)[0] * size)
        rnn(sequence())[0][-1].sum().backward()
        assert rnn.flow.growth == pytest.approx(size ** (T - 1))
        assert rnn.flow.horizon == T - 1
        reprs[size] = repr(rnn.flow)
    assert "grows" not in reprs[1.0]
    assert f"error grows {2 ** (T - 1):.3g}-fold" in reprs[2.0]


@pytest.mark.parametrize("which", ["hidden", "errors"])
def test_omega_of_what_is_not_a_number_is_not_a_number(which: str) -> None:
    given = {"hidden": sequence().tanh(), "errors": sequence()}
    given[which][2, 0, 1] = torch.nan
    value, gradient = sg.omega(**given, weight_hh=torch.eye(I, dtype=torch.float64), nonlinearity="tanh")
    assert value.isnan()
    assert gradient.isnan().all()


@pytest.mark.parametrize(
    ("nonlinearity", "outside"), [("tanh", -1.5), ("sigmoid", -0.1), ("sigmoid", 1.1), ("relu", -0.1)]
)
def test_omega_refuses_states_that_the_nonlinearity_never_gives(nonlinearity: str, outside: float) -> None:
    hidden = torch.full((4, 2, 3), 0.5)
    hidden[1, 1, 1] = outside
    with pytest.raises(
        ValueError, match=f"^hidden must be what {nonlinearity} gives, in .*: the states after the nonlinearity"
    ):
        sg.omega(hidden, torch.ones(4, 2, 3), torch.eye(3), nonlinearity)
    sg.omega(hidden.clamp(0, 1), torch.ones(4, 2, 3), torch.eye(3), nonlinearity)

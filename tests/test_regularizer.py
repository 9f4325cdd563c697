"""Ω and its immediate derivative against the printed formula, differentiated by autograd (Pascanu et al. 2013, eq. 9, 10).

Ω = mean over active pairs of (‖δ_{k+1} ∂x_{k+1}/∂x_k‖ / ‖δ_{k+1}‖ − 1)²,   x_k and δ_{k+1} constants
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import steadygrad as sg

if TYPE_CHECKING:  # not at run time: several folders have a module of that name
    from conftest import CellErrors, ErrorsByHand

SIGMA: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x * 1,
}
CONVENTIONS = ("paper", "program")
LEAKS = (0.0, 0.3)


def printed_omega(
    weight: Tensor,
    slope: Tensor,
    errors: Tensor,
    *,
    leak: float = 0.0,
    lengths: Tensor | None = None,
    convention: str = "paper",
    reverse: bool = False,
) -> Tensor:
    """Pair by pair, with the Jacobian as a matrix. `slope` is σ'(x_k), `errors` those of the state, all [T, B, H]."""
    steps, batch, units = slope.shape
    terms: list[Tensor] = []
    for k, b in itertools.product(range(steps - 1), range(batch)):
        sender, receiver = (k, k + 1) if reverse else (k + 1, k)
        if lengths is not None and max(sender, receiver) >= int(lengths[b]):
            continue
        if leak == 0 and convention == "paper":  # the state is x: x_{k+1} = W σ(x_k) + …
            jacobian = weight @ torch.diag(slope[receiver, b])
        else:  # the state is h: h_{k+1} = λ h_k + (1 − λ) σ(W h_k + …)
            jacobian = leak * torch.eye(units).to(weight) + (1 - leak) * torch.diag(slope[sender, b]) @ weight
        error = errors[sender, b]
        back = error @ jacobian
        if error.square().sum() < 1e-20 or not back.any():
            continue
        ratio = back.norm() / error.norm()
        terms.append(((ratio if convention == "paper" else ratio**2) - 1) ** 2)
    return torch.stack(terms).mean() if terms else weight.sum() * 0


def value_and_gradient(omega: Callable[[Tensor], Tensor], weight: Tensor) -> tuple[Tensor, Tensor]:
    leaf = weight.clone().requires_grad_()
    value = omega(leaf)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


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
    nonlinearity: str, convention: str, leak: float, padded: bool
) -> None:
    weight, hidden, slope, errors = states(nonlinearity, leak)
    if leak > 0:  # σ(a_0) can't be told from h_0 alone; no pair needs it
        slope[0] = math.nan
    lengths = torch.tensor([6, 1, 4]) if padded else None
    value, gradient = sg.omega(hidden, errors, weight, nonlinearity, leak=leak, lengths=lengths, convention=convention)
    expected, derivative = value_and_gradient(
        lambda w: printed_omega(w, slope, errors, leak=leak, lengths=lengths, convention=convention), weight
    )
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


@pytest.mark.parametrize(("scale", "active"), [(1e25, True), (1e-9, True), (1e-25, False)])
@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_float32_errors_of_any_scale_give_the_omega_of_float64(
    convention: str, leak: float, scale: float, active: bool
) -> None:
    # Squares of 1e25 and 1e-25 leave float32. A pair counts from a norm of 1e-10 on, in any dtype.
    weight, hidden, _, errors = states("tanh", leak)
    exact, derivative = sg.omega(hidden, errors * scale, weight, "tanh", leak=leak, convention=convention)
    value, gradient = sg.omega(
        hidden.float(), (errors * scale).float(), weight.float(), "tanh", leak=leak, convention=convention
    )
    assert bool(exact > 0) == active
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


# ---- the layer ----------------------------------------------------------------------------------------------------------

STEPS, BATCH, INPUTS, HIDDEN = 7, 4, 3, 6


def layer(backend: str, **arguments: Any) -> sg.RNN:
    torch.manual_seed(arguments.pop("seed", 2))
    return sg.RNN(INPUTS, HIDDEN, backend=backend, dtype=torch.float64, **arguments)


def sequence(steps: int = STEPS, seed: int = 4) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(steps, BATCH, INPUTS, dtype=torch.float64, generator=draw)


def loss_of_all(output: Tensor) -> Tensor:
    return (output.square() * torch.linspace(-1, 1, output.shape[-1], dtype=output.dtype)).sum()


def gradient_of(rnn: sg.RNN, x: Tensor, loss: Callable[[Tensor], Tensor] = loss_of_all) -> dict[str, Tensor]:
    """Of every parameter, the input and h0."""
    x = x.clone().requires_grad_()
    h0 = torch.full((len(rnn.all_weights), x.shape[1], HIDDEN), 0.1, dtype=x.dtype, requires_grad=True)
    rnn.zero_grad()
    loss(rnn(x, h0)[0]).backward()
    leaves = dict(rnn.named_parameters()) | {"input": x, "h0": h0}
    return {name: leaf.grad.clone() for name, leaf in leaves.items() if leaf.grad is not None}


def omega_part(rnn: sg.RNN, x: Tensor, loss: Callable[[Tensor], Tensor] = loss_of_all) -> Tensor:
    """What α = 1 adds to weight_hh's gradient, from zero states."""
    parts: list[Tensor] = []
    for alpha in (1.0, 0.0):
        rnn.alpha = alpha
        rnn.zero_grad()
        loss(rnn(x)[0]).backward()
        assert rnn.weight_hh_l0.grad is not None
        parts.append(rnn.weight_hh_l0.grad.clone())
    return parts[0] - parts[1]


def state_error(cell: CellErrors, leak: float, convention: str) -> Tensor:
    return cell.error_before if leak == 0 and convention == "paper" else cell.error_after


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("nonlinearity", SIGMA)
def test_the_layer_adds_autograd_of_the_printed_formula(
    backend: str, errors_by_hand: ErrorsByHand, nonlinearity: str, convention: str, leak: float
) -> None:
    rnn = layer(backend, nonlinearity=nonlinearity, omega=convention, leak=leak, num_layers=2, bidirectional=True)
    x = sequence()
    cells = errors_by_hand(rnn, x, loss_of_all)
    gradients: list[dict[str, Tensor]] = []
    for alpha in (1.5, 0.0):
        rnn.alpha = alpha
        rnn.zero_grad()
        loss_of_all(rnn(x)[0]).backward()
        gradients.append({name: p.grad.clone() for name, p in rnn.named_parameters() if p.grad is not None})
    for cell, flow in zip(cells, rnn.flow, strict=True):
        reverse = flow.name.endswith("_reverse")
        value, derivative = value_and_gradient(
            lambda w, cell=cell, reverse=reverse: printed_omega(
                w, cell.slope, state_error(cell, leak, convention), leak=leak, convention=convention, reverse=reverse
            ),
            cell.weight_hh,
        )
        name = f"weight_hh_{flow.name}"
        assert flow.omega == pytest.approx(float(value), rel=1e-11)
        added = gradients[0][name] - gradients[1][name]
        # The difference of two gradients keeps their rounding: 1e-16 of the larger of them.
        room = 1e-12 * float(gradients[1][name].abs().max() + derivative.abs().max())
        torch.testing.assert_close(added, 1.5 * derivative, rtol=1e-10, atol=room)


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("leak", LEAKS)
def test_alpha_changes_the_gradient_of_weight_hh_alone(backend: str, convention: str, leak: float) -> None:
    rnn = layer(backend, omega=convention, leak=leak, num_layers=2, bidirectional=True)
    plain = gradient_of(rnn, sequence())
    rnn.alpha = 0.7
    steady = gradient_of(rnn, sequence())
    assert len(plain) == 18
    for name in plain:
        assert torch.equal(plain[name], steady[name]) == (not name.startswith("weight_hh")), name


def test_alpha_is_a_factor(backend: str) -> None:
    rnn = layer(backend)
    found: list[Tensor] = []
    for alpha in (0.0, 1.0, 3.0):
        rnn.alpha = alpha  # between steps, as a schedule does
        found.append(gradient_of(rnn, sequence())["weight_hh_l0"])
    torch.testing.assert_close(found[2] - found[0], 3 * (found[1] - found[0]), rtol=1e-11, atol=1e-13)


def test_every_pair_is_active_with_the_loss_at_the_last_step_alone(backend: str) -> None:
    # An error that only saw each step's own loss would leave nothing to regularise here. An orthogonal matrix and small
    # states keep the error from vanishing on the way.
    rnn = layer(backend, alpha=1.0)
    torch.nn.init.orthogonal_(rnn.weight_hh_l0)
    rnn(0.1 * sequence(40))[0][-1].sum().backward()
    assert rnn.flow.active == 1.0
    assert (rnn.flow.norms > 0).all()


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_no_error_gives_no_omega_and_changes_no_gradient(backend: str, convention: str, leak: float) -> None:
    rnn = layer(backend, alpha=1.0, omega=convention, leak=leak)
    gradients = gradient_of(rnn, sequence(), lambda output: (output * 0).sum())
    assert rnn.flow.omega == 0
    assert rnn.flow.active == 0
    assert all(torch.equal(each, torch.zeros_like(each)) for each in gradients.values())


def test_units_that_are_off_give_no_omega_and_no_nan(backend: str) -> None:
    rnn = layer(backend, nonlinearity="relu", alpha=1.0)
    with torch.no_grad():
        rnn.get_parameter("bias_ih_l0").fill_(-1e3)
    gradients = gradient_of(rnn, sequence(), torch.sum)
    assert rnn.flow.omega == 0
    assert all(torch.equal(each, torch.zeros_like(each)) for each in gradients.values())


def test_one_step_has_no_pair(backend: str) -> None:
    rnn = layer(backend, alpha=1.0)
    steady = gradient_of(rnn, sequence(1))
    assert rnn.flow.omega == 0
    assert rnn.flow.active == 0
    rnn.alpha = 0.0
    assert all(torch.equal(each, steady[name]) for name, each in gradient_of(rnn, sequence(1)).items())


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_omega_does_not_see_the_scale_of_the_loss(backend: str, convention: str, leak: float) -> None:
    rnn = layer(backend, omega=convention, leak=leak)
    plain = omega_part(rnn, sequence())
    value = rnn.flow.omega
    for scale in (1e-3, 1e3):
        scaled = omega_part(rnn, sequence(), lambda output, scale=scale: scale * loss_of_all(output))
        assert rnn.flow.omega == pytest.approx(value, rel=1e-11)
        # The part is a difference of gradients that grow with the loss: so does its rounding.
        torch.testing.assert_close(scaled, plain, rtol=1e-9, atol=1e-10)


def test_omega_of_a_padded_batch_is_the_mean_over_its_real_pairs(backend: str) -> None:
    rnn = layer(backend, alpha=1.0)
    lengths = [7, 3, 1, 5]
    alone: list[tuple[float, int]] = []
    for row, length in enumerate(lengths):
        loss_of_all(rnn(sequence()[:length, row])[0]).backward()
        value = rnn.flow.omega
        assert isinstance(value, float)
        alone.append((value, length - 1))
    packed = torch.nn.utils.rnn.pack_padded_sequence(sequence(), torch.tensor(lengths), enforce_sorted=False)
    loss_of_all(rnn(packed)[0].data).backward()
    expected = sum(value * pairs for value, pairs in alone) / sum(pairs for _, pairs in alone)
    assert rnn.flow.omega == pytest.approx(expected, rel=1e-12)
    assert rnn.flow.active == 1.0


@pytest.mark.parametrize(("gain", "below"), [(0.5, True), (2.0, False)], ids=["vanishing", "exploding"])
def test_a_step_along_omega_moves_the_ratio_towards_one_and_against_it_away(
    backend: str, gain: float, below: bool
) -> None:
    for seed in range(8):
        rnn = layer(backend, seed=seed, bias=False)
        weight = torch.nn.init.orthogonal_(rnn.weight_hh_l0, gain).detach().clone()
        # Small states keep σ' near 1: the matrix alone decides on which side of 1 the ratio lies.
        x = 0.001 * sequence(seed=seed)
        step = omega_part(rnn, x)
        step = 0.02 * step / step.norm()
        mean: dict[int, float] = {}
        for sign in (0, 1, -1):
            with torch.no_grad():
                rnn.weight_hh_l0.copy_(weight - sign * step)
            loss_of_all(rnn(x)[0]).backward()
            mean[sign] = float(rnn.flow.ratios.mean())
        assert (mean[0] < 1) == below
        assert abs(mean[1] - 1) < abs(mean[0] - 1) < abs(mean[-1] - 1), f"seed {seed}: {mean}"


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

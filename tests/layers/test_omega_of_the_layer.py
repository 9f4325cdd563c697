"""What α > 0 adds to the gradient of a layer, and what it must leave alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import steadygrad as sg
from steadygrad.recurrence import native

if TYPE_CHECKING:  # not at run time: several folders have a module of that name
    from conftest import ErrorsByHand, OmegaAsPrinted

CONVENTIONS = ("paper", "proceedings", "program")
LEAKS = (0.0, 0.3)

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


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu", "sigmoid", "identity"])
def test_the_layer_adds_autograd_of_the_printed_formula(
    backend: str,
    errors_by_hand: ErrorsByHand,
    omega_as_printed: OmegaAsPrinted,
    nonlinearity: str,
    convention: str,
    leak: float,
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
        errors = cell.error_before if leak == 0 and convention != "program" else cell.error_after
        value, derivative = omega_as_printed(
            cell.weight_hh, cell.slope, errors, leak=leak, convention=convention, reverse=flow.name.endswith("_reverse")
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


@pytest.mark.skipif(native.library() is None, reason="the C++ kernel is not built")
@pytest.mark.parametrize(("loss", "weight"), [(1e25, 1.0), (30.0, 1.0), (1e-9, 1.0), (0.1, 1e-25), (1e-25, 1.0)])
def test_the_kernel_measures_float32_errors_of_any_scale(loss: float, weight: float) -> None:
    # Their squares, or those of what they send back, leave float32.
    torch.manual_seed(2)
    single = sg.RNN(INPUTS, HIDDEN, alpha=1.0, backend="native")
    double = layer("reference", alpha=1.0)
    with torch.no_grad():
        single.weight_hh_l0.mul_(weight)
    double.load_state_dict(single.state_dict())
    for rnn in (single, double):
        (loss * rnn(sequence().to(rnn.weight_hh_l0.dtype))[0][-1]).sum().backward()
    # 7 digits, of which the way back through 7 steps loses two.
    assert single.flow.omega == pytest.approx(double.flow.omega, rel=1e-5)
    assert single.flow.active == double.flow.active

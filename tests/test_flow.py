"""What a backward pass leaves behind, against brute force from the errors of a loop written by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

import steadygrad as sg

if TYPE_CHECKING:  # not at run time: several folders have a module of that name
    from conftest import CellErrors, ErrorsByHand

STEPS, BATCH, INPUTS, HIDDEN = 9, 4, 3, 5
LENGTHS = torch.tensor([9, 2, 6, 1])


def loss_of_all(output: Tensor) -> Tensor:
    return (output * torch.linspace(-1, 1, output.shape[-1], dtype=output.dtype)).sum()


def loss_at_the_end(output: Tensor) -> Tensor:
    return output[-1].square().sum()


class BruteForce:
    """norms, ratios, omega, active and horizon of one layer and direction, number by number."""

    def __init__(self, cell: CellErrors, rnn: sg.RNN, reverse: bool, lengths: Tensor | None) -> None:
        plain = rnn.leak == 0 and rnn.omega != "program"
        errors = cell.error_before if plain else cell.error_after
        steps, batch, units = errors.shape
        long = [steps] * batch if lengths is None else [int(each) for each in lengths]
        self.norms = [
            sum(float(errors[k, b].norm()) for b in range(batch) if k < long[b]) / sum(k < each for each in long)
            for k in range(steps)
        ]
        self.ratios: list[float] = []
        terms: list[float] = []
        pairs = 0
        for k in range(steps - 1):
            sender, receiver = (k, k + 1) if reverse else (k + 1, k)
            seen: list[float] = []
            for b in (b for b in range(batch) if k + 1 < long[b]):
                pairs += 1
                if plain:
                    jacobian = cell.weight_hh * cell.slope[receiver, b]
                else:
                    slope = (1 - rnn.leak) * cell.slope[sender, b].unsqueeze(1)
                    jacobian = rnn.leak * torch.eye(units, dtype=errors.dtype) + slope * cell.weight_hh
                error = errors[sender, b]
                back = error @ jacobian
                if float(error.norm()) ** 2 >= 1e-20 and float(back.norm()) > 0:
                    seen.append(float(back.norm() / error.norm()))
            self.ratios.append(sum(seen) / len(seen) if seen else math.nan)
            terms += [((ratio**2 if rnn.omega != "paper" else ratio) - 1) ** 2 for ratio in seen]
        self.omega = sum(terms) / len(terms) if terms else 0.0
        self.active = len(terms) / max(pairs, 1)
        # From the step the error comes from, as long as more than a hundredth of it is left.
        self.horizon, left = 0, 1.0
        travelled = self.ratios if reverse else self.ratios[::-1]
        while travelled and math.isnan(travelled[0]):
            travelled = travelled[1:]
        for ratio in travelled:
            left *= 0.0 if math.isnan(ratio) else ratio
            if left <= 0.01:
                break
            self.horizon += 1


def layer(backend: str, **arguments: Any) -> sg.RNN:
    torch.manual_seed(8)
    return sg.RNN(INPUTS, HIDDEN, backend=backend, dtype=torch.float64, **arguments)


def sequence() -> Tensor:
    return torch.randn(STEPS, BATCH, INPUTS, dtype=torch.float64, generator=torch.Generator().manual_seed(9))


LAYERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "sigmoid": {"nonlinearity": "sigmoid"},
    "relu": {"nonlinearity": "relu"},
    "proceedings": {"omega": "proceedings"},
    "program": {"omega": "program"},
    "leaky": {"leak": 0.3},
    "leaky-program": {"leak": 0.3, "omega": "program"},
    "deep": {"num_layers": 3},
    "bidirectional": {"bidirectional": True},
    "deep-bidirectional": {"num_layers": 2, "bidirectional": True, "alpha": 0.5},
    "deep-bidirectional-leaky": {"num_layers": 2, "bidirectional": True, "leak": 0.3, "alpha": 0.5},
}


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "padded"])
@pytest.mark.parametrize("loss", [loss_of_all, loss_at_the_end], ids=["every-step", "last-step"])
@pytest.mark.parametrize("arguments", LAYERS.values(), ids=LAYERS.keys())
def test_flow_equals_brute_force(
    backend: str,
    errors_by_hand: ErrorsByHand,
    arguments: dict[str, Any],
    loss: Callable[[Tensor], Tensor],
    lengths: Tensor | None,
) -> None:
    rnn, x = layer(backend, **arguments), sequence()

    def seen(output: Tensor) -> Tensor:  # no error comes from padding
        real = torch.ones(STEPS, BATCH) if lengths is None else (torch.arange(STEPS).unsqueeze(1) < lengths)
        return loss(output * real.unsqueeze(2))

    by_hand = errors_by_hand(rnn, x, seen, lengths)
    if lengths is None:
        seen(rnn(x)[0]).backward()
    else:
        output, _ = rnn(pack_padded_sequence(x, lengths, enforce_sorted=False))
        seen(torch.nn.utils.rnn.pad_packed_sequence(output)[0]).backward()
    assert len(rnn.flow) == len(by_hand)
    for flow, cell in zip(rnn.flow, by_hand, strict=True):
        expected = BruteForce(cell, rnn, flow.name.endswith("_reverse"), lengths)
        assert flow.norms.tolist() == pytest.approx(expected.norms, rel=1e-11)
        assert flow.ratios.tolist() == pytest.approx(expected.ratios, rel=1e-11, nan_ok=True)
        assert flow.omega == pytest.approx(expected.omega, rel=1e-10)
        assert flow.active == pytest.approx(expected.active, rel=1e-6)
        assert flow.horizon == expected.horizon


def test_norms_are_the_gradients_of_the_states_before_the_nonlinearity(backend: str) -> None:
    # One unit without input: x_1 = b, x_2 = w tanh(b) + b, E = tanh(x_2), worked out on paper.
    rnn = sg.RNN(1, 1, backend=backend, dtype=torch.float64)
    w, b = 0.8, 0.3
    with torch.no_grad():
        for parameter, value in zip(rnn.parameters(), (0.0, w, b, 0.0), strict=True):
            parameter.fill_(value)
    rnn(torch.zeros(2, 1, 1, dtype=torch.float64))[0][-1].sum().backward()
    second = 1 - math.tanh(w * math.tanh(b) + b) ** 2
    ratio = w * (1 - math.tanh(b) ** 2)
    assert rnn.flow.norms.tolist() == pytest.approx([second * ratio, second], rel=1e-13)
    assert rnn.flow.ratios.tolist() == pytest.approx([ratio], rel=1e-13)
    assert rnn.flow.omega == pytest.approx((ratio - 1) ** 2, rel=1e-12)


@pytest.mark.parametrize(("gain", "horizon"), [(1.0, 19), (0.5, 6), (0.15, 2), (0.05, 1), (0.001, 0)])
def test_horizon_counts_the_steps_that_keep_a_hundredth(backend: str, gain: float, horizon: int) -> None:
    # 0.5⁶ = 0.0156 and 0.5⁷ = 0.0078; 0.15² = 0.0225 and 0.15³ = 0.0034; 0.05² = 0.0025.
    rnn = sg.RNN(1, 2, nonlinearity="identity", backend=backend, dtype=torch.float64)
    with torch.no_grad():
        rnn.weight_hh_l0.copy_(gain * torch.eye(2))
    rnn(torch.ones(20, 1, 1, dtype=torch.float64))[0][-1].sum().backward()
    assert rnn.flow.horizon == horizon


def test_horizon_counts_from_the_last_step_that_has_an_error(backend: str) -> None:
    rnn = sg.RNN(1, 2, nonlinearity="identity", backend=backend, dtype=torch.float64)
    with torch.no_grad():
        rnn.weight_hh_l0.copy_(0.5 * torch.eye(2))
    rnn(torch.ones(20, 1, 1, dtype=torch.float64))[0][11].sum().backward()
    assert rnn.flow.horizon == 6
    assert rnn.flow.ratios[11:].isnan().all()
    assert rnn.flow.active == pytest.approx(11 / 19)


def test_several_layers_come_along_a_leading_axis_in_the_order_of_the_parameters(backend: str) -> None:
    rnn = layer(backend, num_layers=2, bidirectional=True)
    loss_of_all(rnn(sequence())[0]).backward()
    flow = rnn.flow
    assert [cell.name for cell in flow] == ["l0", "l0_reverse", "l1", "l1_reverse"]
    assert flow.norms.shape == (4, STEPS)
    assert flow.ratios.shape == (4, STEPS - 1)
    for name in ("omega", "active", "horizon"):
        assert getattr(flow, name) == [getattr(cell, name) for cell in flow]
    assert torch.equal(flow.norms[2], flow[2].norms)
    assert flow[1:3] == (flow[1], flow[2])
    assert flow[-1] is list(flow)[3]


def test_one_layer_drops_the_leading_axis(backend: str) -> None:
    rnn = layer(backend)
    loss_of_all(rnn(sequence())[0]).backward()
    assert rnn.flow.norms.shape == (STEPS,)
    assert isinstance(rnn.flow.omega, float)
    assert isinstance(rnn.flow.active, float)
    assert isinstance(rnn.flow.horizon, int)


def test_repr_says_what_happened() -> None:
    rnn = sg.RNN(1, 2, nonlinearity="identity", bidirectional=True)
    with torch.no_grad():
        for name in ("weight_hh_l0", "weight_hh_l0_reverse"):
            rnn.get_parameter(name).copy_(0.5 * torch.eye(2))
    rnn(torch.ones(5, 3, 1))[0].sum().backward()
    cell = "5 steps, Ω 0.25 over 100% of pairs, horizon 4"
    assert repr(rnn.flow) == f"GradientFlow(l0: {cell}; l0_reverse: {cell})"


def test_without_record_nothing_is_kept_and_omega_still_works(backend: str) -> None:
    rnn = layer(backend, alpha=0.5)
    rnn.record = False
    loss_of_all(rnn(sequence())[0]).backward()
    assert rnn.weight_hh_l0.grad is not None
    unobserved = rnn.weight_hh_l0.grad.clone()
    assert len(rnn.flow) == 0
    rnn.record = True
    rnn.zero_grad()
    loss_of_all(rnn(sequence())[0]).backward()
    torch.testing.assert_close(rnn.weight_hh_l0.grad, unobserved, rtol=1e-14, atol=1e-15)
    assert rnn.flow.active == 1.0


def test_flow_is_of_the_last_backward_pass(backend: str) -> None:
    rnn, x = layer(backend), sequence()
    loss_of_all(rnn(x)[0]).backward()
    first = rnn.flow.norms
    (2 * loss_of_all(rnn(x)[0])).backward()
    torch.testing.assert_close(rnn.flow.norms, 2 * first, rtol=1e-14, atol=0)


def test_flow_that_was_asked_for_does_not_change_with_later_passes(backend: str) -> None:
    rnn, x = layer(backend), sequence()
    loss_of_all(rnn(x)[0]).backward()
    asked = rnn.flow
    before = asked.norms.clone()
    for factor in (2, 3, 4):  # the layer keeps two tensors and fills them in turn
        (factor * loss_of_all(rnn(x)[0])).backward()
    assert torch.equal(asked.norms, before)
    torch.testing.assert_close(rnn.flow.norms, 4 * before, rtol=1e-14, atol=0)


def test_flow_is_the_same_when_backends_take_turns() -> None:
    rnn, x = layer("native"), sequence()
    loss_of_all(rnn(x)[0]).backward()
    alone = rnn.flow.norms
    # Each lays out what it measured in its own way; none may fill the tensors of another.
    for rnn.backend in ("torch", "torch", "native", "reference", "reference", "native", "native"):
        loss_of_all(rnn(x)[0]).backward()
        torch.testing.assert_close(rnn.flow.norms, alone, rtol=1e-12, atol=0)


def test_flow_follows_sequences_of_another_shape(backend: str) -> None:
    rnn = layer(backend)
    for steps in (9, 4, 9):
        loss_of_all(rnn(sequence()[:steps])[0]).backward()
        assert rnn.flow.norms.shape == (steps,)


def test_clipped_errors_are_measured_as_they_travel_on(backend: str) -> None:
    rnn = layer(backend, clip_error=0.01)
    loss_of_all(rnn(sequence())[0]).backward()
    assert rnn.flow.norms.max() <= 0.01 * math.sqrt(HIDDEN) * (1 + 1e-12)
    assert rnn.flow.norms.max() > 0.01


def test_a_plot_shows_what_is_left_of_one_steps_error() -> None:
    axes = pytest.importorskip("matplotlib.figure").Figure().add_subplot()
    torch.manual_seed(0)
    layer = sg.RNN(3, 6, 2, dtype=torch.float64)
    output, _ = layer(torch.randn(12, 4, 3, dtype=torch.float64))
    output.sum().backward()  # a loss at every step: the norms are topped up, the share that is left is not
    assert layer.flow.plot(axes) is axes
    first = axes.lines[0]
    expected = [1.0, *layer.flow[0].ratios.flip(0).cumprod(0).tolist()]
    assert [10**power for power in first.get_ydata()] == pytest.approx(expected)
    labels = [line.get_label() for line in axes.lines]
    assert labels == [f"l0, horizon {layer.flow[0].horizon}", f"l1, horizon {layer.flow[1].horizon}", "1% is left"]


def test_a_plot_before_any_backward_pass_says_what_is_missing() -> None:
    with pytest.raises(RuntimeError, match="flow is empty until"):
        sg.RNN(3, 6).flow.plot()

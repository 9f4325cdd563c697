"""Initialisations of gated layers: which work gate by gate, which refuse, and the two that are made for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import steadygrad as sg
from steadygrad import init

GATED: dict[str, Callable[[], nn.Module]] = {
    "torch.nn.GRU": lambda: nn.GRU(3, 20, num_layers=2, bidirectional=True),
    "torch.nn.LSTM": lambda: nn.LSTM(3, 20, num_layers=2, bidirectional=True),
    "sg.GRU": lambda: sg.GRU(3, 20, num_layers=2, bidirectional=True),
    "sg.LSTM": lambda: sg.LSTM(3, 20, num_layers=2, bidirectional=True),
    "GRUCell": lambda: nn.GRUCell(3, 20),
    "LSTMCell": lambda: nn.LSTMCell(3, 20),
    "projected LSTM": lambda: nn.LSTM(3, 20, proj_size=5),
}
each_gated = pytest.mark.parametrize("make", GATED.values(), ids=GATED.keys())


def gates(layer: nn.Module) -> list[tuple[str, torch.Tensor, torch.Tensor]]:
    """'ih' and 'hh' biases of each layer and direction, as [gates, H]."""
    kind = "LSTM" if "LSTM" in type(layer).__name__ else "GRU"
    parameters = dict(layer.named_parameters())
    return [
        (kind, each.detach().view(-1, 20), parameters[name.replace("_ih", "_hh")].detach().view(-1, 20))
        for name, each in parameters.items()
        if name.startswith("bias_ih")
    ]


@each_gated
def test_remember_opens_the_gate_that_remembers_and_touches_nothing_else(make: Callable[[], nn.Module]) -> None:
    layer = make()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    assert init.remember_(layer, bias=1.5) is layer
    for _, bias_ih, bias_hh in gates(layer):
        assert (bias_ih[1] == 1.5).all()
        assert (bias_hh[1] == 0).all()
    for name, value in layer.state_dict().items():
        if name.startswith("bias"):
            others = [row for row in range(len(value) // 20) if row != 1]
            assert torch.equal(value.view(-1, 20)[others], before[name].view(-1, 20)[others])
        else:
            assert torch.equal(value, before[name])


@pytest.mark.parametrize("kind", [sg.GRU, sg.LSTM])
def test_a_remembering_layer_keeps_more_of_its_error(kind: Any) -> None:
    def left(bias: float) -> float:
        torch.manual_seed(0)
        layer = init.remember_(kind(3, 20), bias)
        layer(torch.randn(30, 4, 3))[0][-1].sum().backward()
        return (layer.flow.norms[0] / layer.flow.norms[-1]).item()

    assert left(3.0) > 100 * left(0.0)


@each_gated
def test_chrono_draws_memories_of_all_times_up_to_the_longest(make: Callable[[], nn.Module]) -> None:
    layer = init.chrono_(make(), 101, generator=torch.Generator().manual_seed(1))
    times: list[torch.Tensor] = []
    for kind, bias_ih, bias_hh in gates(layer):
        times.append(bias_ih[1].exp())
        assert (bias_hh[1] == 0).all()
        if kind == "LSTM":
            assert torch.equal(bias_ih[0], -bias_ih[1])
            assert (bias_hh[0] == 0).all()
        else:
            assert bias_ih[0].abs().max() < 0.25  # the reset gate keeps torch's own, U(−1/√20, 1/√20)
    found = torch.cat(times)
    assert found.min() >= 1 - 1e-5
    assert found.max() <= 100 + 1e-3
    # the mean of U(1, 100), within five standard errors
    assert abs(found.mean().item() - 50.5) < 5 * 28.6 / len(found) ** 0.5


def test_chrono_takes_its_numbers_from_the_generator_alone() -> None:
    one, two = nn.LSTM(2, 4), nn.LSTM(2, 4)
    before = torch.get_rng_state()
    for layer in (one, two):
        init.chrono_(layer, 9, generator=torch.Generator().manual_seed(3))
    assert torch.equal(one.bias_ih_l0[4:8], two.bias_ih_l0[4:8])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("fill", [init.hold_, init.cycle_, init.smart_tanh_, init.input_driven_])
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, sg.GRU, sg.LSTM, nn.LSTMCell])
def test_what_makes_no_sense_for_gates_is_refused_and_writes_nothing(fill: Callable[..., Any], kind: Any) -> None:
    layer = kind(3, 4)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    sentence = (
        rf"^{fill.__name__} is for layers without gates \(.*\), and module holds a {kind.__name__}: orthogonal_, "
    )
    with pytest.raises(ValueError, match=sentence):
        fill(layer)
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


@pytest.mark.parametrize("fill", [init.orthogonal_, init.identity_])
@pytest.mark.parametrize("kind", [nn.GRU, sg.GRU, nn.LSTM, sg.LSTM])
def test_matrices_are_written_gate_by_gate_and_biases_stay(fill: Callable[..., Any], kind: Any) -> None:
    layer = kind(3, 5)
    bias = layer.bias_ih_l0.clone()
    fill(layer)
    for gate in layer.weight_hh_l0.detach().split(5):
        torch.testing.assert_close(gate.T @ gate, torch.eye(5), rtol=0, atol=1e-5)
    assert torch.equal(layer.bias_ih_l0, bias)


@pytest.mark.parametrize("fill", [lambda module: init.remember_(module), lambda module: init.chrono_(module, 9)])
@pytest.mark.parametrize("module", [nn.RNN(2, 3), sg.RNN(2, 3), nn.Linear(2, 3), nn.Sequential()], ids=repr)
def test_modules_without_gates_are_refused(fill: Callable[..., Any], module: nn.Module) -> None:
    with pytest.raises(ValueError, match=rf"is for gated layers, and {type(module).__name__} holds no GRU and no LSTM"):
        fill(module)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"^remember_ sets biases, and the LSTM of module was made with bias=False"):
        init.remember_(nn.Sequential(nn.LSTM(2, 3, bias=False)))
    with pytest.raises(ValueError, match=r"^bias must be a finite number of at least 0, not -1"):
        init.remember_(nn.GRU(2, 3), -1.0)
    with pytest.raises(ValueError, match=r"^longest must be a whole number of at least 3, not 2"):
        init.chrono_(nn.GRU(2, 3), 2)

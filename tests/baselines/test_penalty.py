"""L1 and L2 penalties on recurrent weights: autograd's derivative of the printed formula, and nothing else is touched."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import steadygrad as sg
from steadygrad.baselines import penalty

PRINTED: dict[str, tuple[Callable[..., Tensor], Callable[[Tensor], Tensor]]] = {
    "l1": (penalty.add_l1, lambda W: W.abs().sum()),
    "l2": (penalty.add_l2, lambda W: W.square().sum()),
}


def model(dtype: torch.dtype = torch.float64) -> Any:
    torch.manual_seed(0)
    layers = {"ours": sg.RNN(3, 4, num_layers=2), "gru": nn.GRU(4, 4, bidirectional=True), "cell": nn.LSTMCell(8, 5)}
    return nn.ModuleDict({**layers, "readout": nn.Linear(5, 2)}).to(dtype)


def backward(made: Any) -> None:
    h = made["gru"](made["ours"](torch.ones(6, 2, 3, dtype=torch.float64))[0])[0]
    made["readout"](made["cell"](h[-1])[0]).square().sum().backward()


@pytest.mark.parametrize("kind", PRINTED)
@pytest.mark.parametrize("strength", [0.0, 0.3])
def test_gradient_is_autograds_and_only_recurrent_weights_get_it(kind: str, strength: float) -> None:
    add, printed = PRINTED[kind]
    made, same = model(), model()
    backward(made)
    backward(same)
    recurrent = [p for name, p in same.named_parameters() if "weight_hh" in name]
    assert len(recurrent) == 5
    expected = strength * sum(printed(W) for W in recurrent)
    assert isinstance(expected, Tensor)
    expected.backward()  # adds to what is there, as add_… does
    value = add(made, strength)
    assert not value.requires_grad
    torch.testing.assert_close(value, expected.detach())
    for (name, p), (_, q) in zip(made.named_parameters(), same.named_parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, msg=name)


@pytest.mark.parametrize("kind", PRINTED)
def test_a_gradient_that_is_not_there_yet_is_made_and_a_frozen_matrix_stays(kind: str) -> None:
    add, printed = PRINTED[kind]
    made = model()
    made["ours"].weight_hh_l1.requires_grad_(False)
    value = add(made, 2.0)
    assert made["ours"].weight_hh_l1.grad is None
    assert made["ours"].weight_ih_l0.grad is None
    W = made["ours"].weight_hh_l0
    torch.testing.assert_close(W.grad, torch.autograd.grad(2.0 * printed(W), W)[0])
    left = [p for name, p in made.named_parameters() if "weight_hh" in name and p.requires_grad]
    assert value.item() == pytest.approx(2.0 * sum(printed(W).item() for W in left))


def test_a_shared_matrix_is_counted_once() -> None:
    layer = nn.RNN(2, 3)
    twice = nn.ModuleList([layer, layer])
    assert penalty.add_l2(twice, 1.0).item() == pytest.approx(layer.get_parameter("weight_hh_l0").square().sum().item())


def test_l2_is_torchs_weight_decay_of_twice_the_strength() -> None:
    ends: list[Tensor] = []
    for decay, strength in ((0.2, 0.0), (0.0, 0.1)):
        torch.manual_seed(1)
        rnn = nn.RNN(2, 3)
        rest = [p for name, p in rnn.named_parameters() if "weight_hh" not in name]
        groups = [{"params": [rnn.get_parameter("weight_hh_l0")], "weight_decay": decay}, {"params": rest}]
        optimizer = torch.optim.SGD(groups, lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            rnn(torch.ones(5, 1, 2))[0].sum().backward()
            penalty.add_l2(rnn, strength)
            optimizer.step()
        ends.append(rnn.get_parameter("weight_hh_l0").detach())
    torch.testing.assert_close(*ends)


def test_radius_is_tracked_and_a_penalty_brings_it_down() -> None:
    torch.manual_seed(0)
    rnn = sg.init.spectral_(sg.RNN(2, 10), 1.5)
    assert penalty.radii(rnn) == {"weight_hh_l0": pytest.approx(1.5, rel=1e-5)}
    optimizer = torch.optim.SGD(rnn.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        penalty.add_l2(rnn, 1.0)
        optimizer.step()  # W ← (1 − 0.1 · 2) W
    assert penalty.radii(rnn)["weight_hh_l0"] == pytest.approx(1.5 * 0.8**5, rel=1e-5)


def frozen() -> nn.Module:
    return nn.RNN(2, 3).requires_grad_(False)


def parametrized() -> nn.Module:
    layer = nn.RNN(2, 3)
    nn.utils.parametrizations.orthogonal(layer, "weight_hh_l0")
    return layer


@pytest.mark.parametrize("add", [penalty.add_l1, penalty.add_l2])
@pytest.mark.parametrize(
    ("module", "strength", "sentence"),
    [
        (lambda: nn.RNN(2, 3), -1.0, r"strength must be a finite number of at least 0, not -1\.0"),
        (lambda: nn.RNN(2, 3), math.nan, "strength must be a finite number of at least 0, not nan"),
        (lambda: nn.Linear(2, 3), 1.0, "module must hold a recurrent layer .* Linear has none"),
        (frozen, 1.0, "module must have a recurrent matrix that is trained"),
        (parametrized, 1.0, r"module must hold its weights as plain parameters, .* parametrized \(weight_hh_l0\)"),
    ],
)
def test_bad_argument_is_named(
    add: Callable[..., Tensor], module: Callable[[], nn.Module], strength: float, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        add(module(), strength)

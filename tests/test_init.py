"""Initialisations: what the weights are distributed as, and what their spectrum is, on the layers people have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from steadygrad import init
from steadygrad.layers.rnn import RNN

WRONG: Any = torch.ones(2)
ROWS: Any = "rows"


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def model(hidden: int = 100, dtype: torch.dtype = torch.float64) -> Any:
    """A recurrent layer and a readout, all parameters at 7, so that what is not written shows."""
    made = nn.ModuleDict({"rnn": nn.RNN(60, hidden), "readout": nn.Linear(hidden, 40), "norm": nn.LayerNorm(5)})
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.fill_(7.0)
    return made.to(dtype)


def radius(weight: Tensor) -> float:
    return torch.linalg.eigvals(weight.detach().double()).abs().max().item()


def assert_normal(weight: Tensor, std: float) -> None:
    """Mean, spread and tails of N(0, std²), each within five standard errors of a sample of this size."""
    z, n = weight.detach().double().flatten() / std, weight.numel()
    assert abs(z.mean().item()) < 5 / math.sqrt(n)
    assert abs(z.var().item() - 1) < 5 * math.sqrt(2 / n)
    assert abs((z.abs() > 2).double().mean().item() - 0.0455) < 5 * math.sqrt(0.0455 / n)


NORMAL: list[tuple[Callable[..., Any], float]] = [
    (init.basic_tanh_, 0.1),
    (init.sigmoid_, 0.01),
    (lambda m, generator: init.normal_(m, 0.3, generator=generator), 0.3),
]


@pytest.mark.parametrize(("fill", "std"), NORMAL, ids=["basic_tanh", "sigmoid", "normal"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_are_normal_and_biases_zero(fill: Callable[..., Any], std: float, dtype: torch.dtype) -> None:
    made = model(dtype=dtype)
    assert fill(made, generator=seeded()) is made
    for name, parameter in made.named_parameters():
        assert parameter.dtype is dtype
        assert parameter.requires_grad
        if name.startswith("norm."):
            assert (parameter == 7.0).all()  # no recurrent or Linear layer: left alone
        elif "bias" in name:
            assert (parameter == 0.0).all()
        else:
            assert_normal(parameter, std)


def test_linear_alone_is_filled() -> None:
    layer = init.basic_tanh_(nn.Linear(100, 50), generator=seeded())
    assert_normal(layer.weight, 0.1)
    assert (layer.bias == 0).all()
    assert_normal(init.sigmoid_(nn.Linear(100, 50, bias=False), generator=seeded()).weight, 0.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("hidden", [1, 7, 15, 16, 50, 100])
def test_smart_tanh_has_fifteen_weights_a_unit_and_radius_095(hidden: int, dtype: torch.dtype) -> None:
    made = init.smart_tanh_(model(hidden, dtype), generator=seeded(4))
    weight = made["rnn"].weight_hh_l0
    assert ((weight != 0).sum(1) == min(15, hidden)).all()
    # rounding the entries to float32 moves an eigenvalue of these matrices by some 1e-7
    assert radius(weight) == pytest.approx(0.95, abs=1e-12 if dtype is torch.float64 else 1e-6)
    if hidden == 100:
        assert not ((weight != 0).sum(0) == 15).all()  # rows, and not columns too by accident
        kept = weight[weight != 0]
        assert_normal(kept, kept.detach().std().item())
        assert_normal(made["readout"].weight, 0.01)
    assert (made["rnn"].bias_hh_l0 == 0).all()


@pytest.mark.parametrize("name", sorted(init.REGISTRY))
def test_steadygrad_rnn_is_filled_as_torchs(name: str) -> None:
    torch.manual_seed(0)
    ours, theirs = RNN(3, 20), nn.RNN(3, 20)
    ours.load_state_dict(theirs.state_dict())
    fill = init.get(name)
    expected = fill(theirs, generator=seeded()).state_dict()
    for key, value in fill(ours, generator=seeded()).state_dict().items():
        assert torch.equal(value, expected[key])


def test_smart_tanh_outgoing_keeps_fifteen_weights_a_column() -> None:
    layer = init.smart_tanh_(nn.RNN(3, 50), connections="outgoing", generator=seeded())
    weight = layer.get_parameter("weight_hh_l0")
    assert ((weight != 0).sum(0) == 15).all()
    assert not ((weight != 0).sum(1) == 15).all()
    assert radius(weight) == pytest.approx(0.95, abs=1e-6)


def test_every_layer_and_direction_is_filled() -> None:
    layer = init.smart_tanh_(nn.RNN(3, 20, num_layers=2, bidirectional=True), generator=seeded())
    matrices = [parameter for name, parameter in layer.named_parameters() if name.startswith("weight_hh")]
    assert len(matrices) == 4
    assert all(radius(weight) == pytest.approx(0.95, abs=1e-6) for weight in matrices)
    assert len({weight[0, 0].item() + weight.sum().item() for weight in matrices}) == 4  # each drawn anew


@pytest.mark.parametrize("layer", [nn.GRU(3, 20), nn.LSTM(3, 20), nn.RNNCell(3, 20), nn.LSTMCell(3, 20)], ids=repr)
def test_each_gate_has_its_own_square_matrix(layer: nn.Module) -> None:
    name = "weight_hh" if isinstance(layer, nn.RNNCellBase) else "weight_hh_l0"
    init.orthogonal_(layer, generator=seeded())
    gates = layer.get_parameter(name).detach().split(20)
    assert len(gates) == {nn.GRU: 3, nn.LSTM: 4, nn.RNNCell: 1, nn.LSTMCell: 4}[type(layer)]
    for gate in gates:
        torch.testing.assert_close(gate.T @ gate, torch.eye(20), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_orthogonal_has_every_singular_value_at_gain_and_writes_nothing_else(dtype: torch.dtype) -> None:
    made = model(30, dtype)
    assert init.orthogonal_(made, gain=1.3, generator=seeded()) is made
    values = torch.linalg.svdvals(made["rnn"].weight_hh_l0.detach())
    torch.testing.assert_close(values, torch.full_like(values, 1.3))
    assert all((p == 7.0).all() for name, p in made.named_parameters() if "weight_hh" not in name)


def test_identity_is_scaled_identity_and_writes_nothing_else() -> None:
    made = model(30)
    assert init.identity_(made, scale=0.9) is made
    assert torch.equal(made["rnn"].weight_hh_l0, 0.9 * torch.eye(30, dtype=torch.float64))
    assert all((p == 7.0).all() for name, p in made.named_parameters() if "weight_hh" not in name)


@pytest.mark.parametrize(("name", "steps"), [("hold", 0), ("cycle", 1)])
def test_a_state_above_zero_is_held_or_carried_on_without_a_loss(name: str, steps: int) -> None:
    made = init.get(name)(model(30), generator=seeded())
    W, W_in = made["rnn"].weight_hh_l0.detach(), made["rnn"].weight_ih_l0.detach()
    state = torch.rand(30, dtype=W.dtype, generator=seeded())
    assert torch.equal((W @ state).relu(), state.roll(steps))
    assert torch.equal(torch.linalg.matrix_power(W, 30), torch.eye(30, dtype=W.dtype))
    assert W_in.min() >= 0
    assert W_in.max() <= 30**-0.5
    assert W_in.mean().item() == pytest.approx(0.5 * 30**-0.5, rel=4 / (3 * W_in.numel()) ** 0.5)  # 4 standard errors
    assert (made["rnn"].bias_ih_l0 == 0).all()
    assert (made["rnn"].bias_hh_l0 == 0).all()
    assert all((parameter == 7.0).all() for parameter in made["readout"].parameters())


def test_input_driven_has_strong_inputs_and_little_memory() -> None:
    made = init.input_driven_(model(300), generator=seeded())
    values = torch.linalg.svdvals(made["rnn"].weight_hh_l0.detach())
    torch.testing.assert_close(values, torch.full_like(values, 0.05))
    assert_normal(made["rnn"].weight_ih_l0, 1.0)
    assert_normal(init.input_driven_(RNN(9, 300, nonlinearity="sigmoid"), generator=seeded()).weight_ih_l0, 4.0)
    assert_normal(made["readout"].weight, 0.1)
    assert (made["rnn"].bias_ih_l0 == 0).all()


@pytest.mark.parametrize("name", ["basic_tanh", "smart_tanh", "sigmoid", "orthogonal", "input_driven"])
def test_generator_decides_the_weights_and_torchs_own_stays_untouched(name: str) -> None:
    fill = init.get(name)
    models = [model(20) for _ in range(3)]
    before = torch.get_rng_state()
    one, same, other = (fill(m, generator=seeded(s)).state_dict() for m, s in zip(models, (1, 1, 2), strict=True))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not torch.equal(one["rnn.weight_hh_l0"], other["rnn.weight_hh_l0"])
    torch.manual_seed(5)
    third = fill(models[0]).state_dict()["rnn.weight_hh_l0"].clone()
    torch.manual_seed(5)
    assert torch.equal(fill(models[1]).state_dict()["rnn.weight_hh_l0"], third)


def test_get_returns_the_function_of_that_name() -> None:
    assert {name: init.get(name) for name in init.REGISTRY} == {
        "basic_tanh": init.basic_tanh_,
        "smart_tanh": init.smart_tanh_,
        "sigmoid": init.sigmoid_,
        "orthogonal": init.orthogonal_,
        "identity": init.identity_,
        "hold": init.hold_,
        "cycle": init.cycle_,
        "input_driven": init.input_driven_,
    }
    with pytest.raises(ValueError, match=r"name must be one of .* not 'basic-tanh' \(did you mean 'basic_tanh'\?\)"):
        init.get("basic-tanh")


@pytest.mark.parametrize("name", ["smart_tanh", "orthogonal", "identity", "hold", "cycle", "input_driven"])
def test_module_without_a_recurrent_matrix_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"module must hold a recurrent layer .* Linear has none"):
        init.get(name)(nn.Linear(2, 2))
    layer = nn.LSTM(2, 6, proj_size=3)
    before = layer.get_parameter("weight_ih_l0").detach().clone()
    with pytest.raises(ValueError, match=r"must have square recurrent matrices.* weight_hh_l0 of its LSTM is 24x3"):
        init.get(name)(layer)
    assert torch.equal(layer.get_parameter("weight_ih_l0"), before)


def test_parametrized_weights_are_refused_where_a_write_would_be_lost() -> None:
    layer = nn.RNN(2, 3)
    nn.utils.parametrizations.orthogonal(layer, "weight_hh_l0")
    for fill in (init.basic_tanh_, init.identity_):
        with pytest.raises(ValueError, match=r"parametrized \(weight_hh_l0\)"):
            fill(layer)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: init.normal_(nn.RNN(1, 1), 0.0), ValueError, "std must be a finite number above 0, not 0.0"),
        (lambda: init.normal_(nn.LayerNorm(3), 1.0), ValueError, "a recurrent or a Linear layer, and LayerNorm holds"),
        (lambda: init.get("basic_tanh")(WRONG), TypeError, "module must be a torch.nn.Module, not Tensor"),
        (lambda: init.orthogonal_(nn.RNN(1, 1), gain=-1.0), ValueError, "gain must be a finite number above 0, not -1"),
        (lambda: init.identity_(nn.RNN(1, 1), scale=math.nan), ValueError, "scale must be a finite number above 0"),
        (
            lambda: init.smart_tanh_(nn.RNN(1, 1), connections=ROWS),
            ValueError,
            "connections must be one of 'incoming', 'outgoing', not 'rows'",
        ),
    ],
)
def test_bad_argument_is_named(call: Callable[[], object], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        call()

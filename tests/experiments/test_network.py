"""The network against torch.nn.RNN with the same weights, and where its weights come from."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from steadygrad import init, tasks
from steadygrad.experiments import Config, Network
from steadygrad.layers import quick


def config(task: str, **fields: Any) -> Config:
    least = 12
    return Config(task, "sgd", (least, least), hidden=7, dtype="float64", **fields)


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("temporal-order", {}),
        ("addition", {}),
        ("random-permutation", {"predict": "all"}),
        ("memorization-5bit", {}),
    ],
)
def test_outputs_and_gradients_equal_torchs_rnn_read_out_at_the_steps_that_count(task: str, options: Any) -> None:
    network = Network(config(task, options=options))
    batch = network.problem.sample(5, 12, torch.Generator().manual_seed(3))
    oracle = torch.nn.RNN(network.problem.input_size, 7, dtype=torch.float64)
    oracle.load_state_dict(network.rnn.state_dict())
    inputs = batch.inputs
    if network.problem.tokens:
        inputs = torch.nn.functional.one_hot(inputs, network.problem.input_size)
    hidden, _ = oracle(inputs.double())
    expected = network.readout(hidden[batch.steps])
    outputs = network.answers(batch)
    # float64, 12 to 22 steps: rounding alone
    torch.testing.assert_close(outputs, expected, rtol=1e-12, atol=1e-13)
    network.problem.loss(expected, batch).backward()
    network.problem.loss(outputs, batch).backward()
    for name, parameter in oracle.named_parameters():
        if name != "bias_hh_l0":
            torch.testing.assert_close(network.rnn.get_parameter(name).grad, parameter.grad, rtol=1e-10, atol=1e-13)
    assert network.rnn.bias_hh_l0.grad is None


@pytest.mark.parametrize("task", tasks.names())
@pytest.mark.parametrize("every_step", [False, True])
def test_the_gradient_by_hand_equals_autograds(task: str, every_step: bool) -> None:
    options = {"random-permutation": {"predict": "all"}, "memorization-5bit": {"counted": "all"}}.get(task, {})
    network = Network(config(task, options=options if every_step else {}))
    batch = network.problem.sample(5, 12, torch.Generator().manual_seed(3))
    loss = network.problem.loss(network.answers(batch), batch)
    trained = [parameter for _, parameter in network.trained()]
    expected = torch.autograd.grad(loss, trained)
    for parameter in trained:
        parameter.grad = torch.ones_like(parameter)  # what an earlier update left must not be added to
    assert network.backward(batch) == pytest.approx(loss.item(), rel=1e-14)
    for parameter, gradient in zip(trained, expected, strict=True):
        # float64; sums of at most 160 products, in another order
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-11, atol=1e-15)


def test_the_second_bias_is_zero_and_not_trained() -> None:
    network = Network(config("temporal-order"))
    assert not network.rnn.bias_hh_l0.any()
    assert [name for name, _ in network.trained()] == [
        "rnn.weight_ih_l0",
        "rnn.weight_hh_l0",
        "rnn.bias_ih_l0",
        "readout.weight",
        "readout.bias",
    ]


@pytest.mark.parametrize("init", ["basic_tanh", "smart_tanh", "sigmoid", "orthogonal", "identity"])
def test_the_seed_alone_decides_the_weights(init: str) -> None:
    def drawn(seed: int, chance: int) -> torch.Tensor:
        torch.manual_seed(chance)
        network = Network(config("temporal-order", init=init, seed=seed))
        return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])

    assert torch.equal(drawn(1, 5), drawn(1, 6))
    assert not torch.equal(drawn(1, 5), drawn(2, 5))


@pytest.mark.parametrize("name", sorted(init.REGISTRY))
def test_the_seed_alone_decides_all_weights(name: str) -> None:
    made = []
    for chance in (1, 2):
        torch.manual_seed(chance)
        made.append(Network(config("temporal-order", init=name)).state_dict())
    assert all(torch.equal(made[0][key], made[1][key]) for key in made[0])


def test_making_a_network_leaves_torchs_global_chance_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    Network(config("addition", init="orthogonal"))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("init", ["orthogonal", "identity"])
def test_inits_of_w_rec_leave_the_other_weights_small_and_normal(init: str) -> None:
    network = Network(config("temporal-order", init=init).changed(hidden=200))
    W = network.rnn.weight_hh_l0.detach()
    torch.testing.assert_close(W @ W.T, torch.eye(200, dtype=torch.float64), rtol=0, atol=1e-12)
    # 1,200 and 800 draws of N(0, 0.1²): their standard deviation is within 4/√(2·800) = 10 % of 0.1, save once in 10,000
    for weight in (network.rnn.weight_ih_l0, network.readout.weight):
        assert 0.09 < weight.std().item() < 0.11


@pytest.mark.parametrize("task", tasks.names())
@pytest.mark.parametrize(
    "fields", [{}, {"bias": False, "leak": 0.3}, {"noise": 0.1}, {"truncate": 5}, {"network": "lstm"}]
)
def test_without_autograd_the_gradient_has_the_same_bits(
    task: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if fields.get("network"):
        fields = {**fields, "init": "uniform"}
    found: list[list[Any]] = []
    for begin in (quick.last_state, lambda *_: None):
        monkeypatch.setattr(quick, "last_state", begin)
        network = Network(config(task, **fields))
        network.rnn.alpha = 2.0
        batch = network.problem.sample(5, 12, torch.Generator().manual_seed(3))
        loss = network.backward(batch, torch.Generator().manual_seed(4))
        found.append([torch.tensor(loss), *[parameter.grad for _, parameter in network.trained()]])
    assert all(torch.equal(ours, right) for ours, right in zip(*found, strict=True))


def test_a_hook_of_the_recurrent_layer_is_called_and_changes_no_bit() -> None:
    plain, hooked = Network(config("temporal-order")), Network(config("temporal-order"))
    seen: list[str] = []
    hooked.rnn.register_forward_hook(lambda *_: seen.append("forward"))
    hooked.rnn.weight_hh_l0.register_hook(lambda _: seen.append("W_hh"))
    batch = plain.problem.sample(5, 12, torch.Generator().manual_seed(3))
    assert plain.backward(batch) == hooked.backward(batch)
    assert seen == ["forward", "W_hh"]
    for (_, ours), (_, right) in zip(plain.trained(), hooked.trained(), strict=True):
        assert torch.equal(ours.grad, right.grad)  # pyright: ignore

"""The earlier solutions in the harness: each computes what it says, and what it cannot be combined with is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from same_run import SMALL, metrics
from steadygrad.baselines import EchoState, HessianFree
from steadygrad.eigen import spectral_radius
from steadygrad.experiments import Config, ConfigError, Network, evaluate, preset, run
from steadygrad.experiments.learner import Learner
from steadygrad.experiments.network import stream

ORDER: dict[str, Any] = {"problem": "temporal-order", "algorithm": "sgd", **SMALL}
TAUGHT: dict[str, Any] = {"problem": "memorization-5bit", "options": {"counted": "all"}, "teacher_forcing": 1.0}
ALL: dict[str, Any] = {**ORDER, "problem": "memorization-5bit", "options": {"counted": "all"}}


def _gradients(network: Network) -> dict[str, Tensor]:
    return {name: each.grad.clone() for name, each in network.trained() if each.grad is not None}


@pytest.mark.parametrize("network", ["rnn", "lstm"])
@pytest.mark.parametrize(("problem", "k"), [(ORDER, 1), (ORDER, 5), (ORDER, 12), (ORDER, 40), (ALL, 4), (ALL, 9)])
def test_truncated_gradients_are_those_of_a_loop_that_detaches_its_state(
    problem: dict[str, Any], k: int, network: str
) -> None:
    made = Network(Config(**problem, truncate=k, dtype="float64", network=network))
    batch = made.problem.sample(4, 12, torch.Generator().manual_seed(3))
    loss = made.backward(batch)
    found = _gradients(made)
    made.zero_grad()
    T, state, states = len(batch.inputs), None, []
    for t in range(T):
        if (T - t) % k == 0 and state is not None:
            state = tuple(s.detach() for s in state) if isinstance(state, tuple) else state.detach()
        output, state = made.rnn(batch.inputs[t : t + 1], state)
        states.append(output)
    expected = made.problem.loss(made.readout(torch.cat(states)[batch.steps]), batch)
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-12)
    for name, gradient in _gradients(made).items():
        # float64, sums in another order
        torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-14)


def test_a_truncated_error_does_not_reach_past_k_steps(tmp_path: Path) -> None:
    run(Config(**ORDER, truncate=4, init="orthogonal"), tmp_path / "run", progress="none")
    assert {line["horizon"] for line in metrics(tmp_path / "run")} == {4}


@pytest.mark.parametrize("network", ["rnn", "gru"])
def test_penalties_add_their_derivative_to_the_gradient_of_the_recurrent_weights_alone(network: str) -> None:
    plain, penalised = (
        Learner(Config(**ORDER, network=network, lr=1.0, **more)) for more in ({}, {"l1": 0.1, "l2": 0.3})
    )
    W = plain.network.rnn.weight_hh_l0.detach().clone()
    assert plain.update() == penalised.update()
    changed = dict(penalised.network.trained())
    for name, parameter in plain.network.trained():
        added = 0.1 * W.sign() + 0.6 * W if name == "rnn.weight_hh_l0" else torch.zeros(())
        torch.testing.assert_close(changed[name], parameter - added, rtol=1e-5, atol=1e-6)


def test_clipping_per_entry_bounds_every_entry_of_the_update() -> None:
    learner = Learner(Config(**{**ORDER, "algorithm": "sgd-c"}, threshold=1e-4, per="entry", lr=1.0))
    before = {name: each.detach().clone() for name, each in learner.network.trained()}
    learner.update()
    most = max(float((each.detach() - before[name]).abs().max()) for name, each in learner.network.trained())
    assert most == pytest.approx(1e-4, rel=1e-2)


@pytest.mark.parametrize(
    "problem", [ORDER, {**ORDER, "problem": "addition"}, ALL], ids=["tokens", "channels", "every step"]
)
@pytest.mark.parametrize(("leak", "k"), [(0.0, None), (0.3, None), (0.0, 5)])
def test_noise_is_added_before_the_nonlinearity_at_every_step(
    problem: dict[str, Any], leak: float, k: int | None
) -> None:
    made = Network(Config(**problem, noise=0.7, leak=leak, truncate=k, dtype="float64"))
    batch = made.problem.sample(4, 12, torch.Generator().manual_seed(3))
    without = made.backward(batch)
    loss = made.backward(batch, torch.Generator().manual_seed(5))
    assert loss != without
    found = _gradients(made)
    made.zero_grad()
    rnn, T, u = made.rnn, len(batch.inputs), batch.inputs
    u = u.double() if u.is_floating_point() else torch.nn.functional.one_hot(u, made.problem.input_size).double()
    noise = torch.randn(T, 4, rnn.hidden_size, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    h, states = torch.zeros(4, rnn.hidden_size, dtype=torch.float64), []
    for t in range(T):
        if k and (T - t) % k == 0:
            h = h.detach()
        a = u[t] @ rnn.weight_ih_l0.T + h @ rnn.weight_hh_l0.T + rnn.bias_ih_l0 + 0.7 * noise[t]
        h = leak * h + (1 - leak) * a.tanh()
        states.append(h)
    expected = made.problem.loss(made.readout(torch.stack(states)[batch.steps]), batch)
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-12)
    for name, gradient in _gradients(made).items():
        # float64, sums in another order
        torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-14)


def test_noise_is_of_training_alone_and_omega_sees_it() -> None:
    settings = {**ORDER, "algorithm": "sgd-cr", "alpha": 2.0, "threshold": 1.0}
    plain, noisy = Network(Config(**settings)), Network(Config(**settings, noise=0.1))
    assert {name: each.shape for name, each in plain.state_dict().items()} == {
        name: each.shape for name, each in noisy.state_dict().items()
    }
    batch = plain.problem.sample(4, 12, torch.Generator().manual_seed(3))
    torch.testing.assert_close(noisy.answers(batch), plain.answers(batch), rtol=0, atol=0)
    gradients = []
    for alpha in (0.0, 2.0):
        noisy.rnn.alpha = alpha  # as a schedule changes it
        noisy.backward(batch, torch.Generator().manual_seed(5))
        gradients.append(_gradients(noisy))
    without, with_omega = gradients
    assert not torch.allclose(without["rnn.weight_hh_l0"], with_omega["rnn.weight_hh_l0"])
    torch.testing.assert_close(without["rnn.weight_ih_l0"], with_omega["rnn.weight_ih_l0"])


def test_clip_error_reaches_the_layer() -> None:
    assert Network(Config(**ORDER, clip_error=0.25)).rnn.clip_error == 0.25


@pytest.mark.parametrize("network", ["rnn", "echo-state"])
def test_radius_is_that_of_the_initial_recurrent_weights(network: str) -> None:
    made = Network(Config(**ORDER, network=network, radius=1.3))
    assert spectral_radius(made.rnn.weight_hh_l0.detach()) == pytest.approx(1.3, rel=1e-5)


def test_hessian_free_makes_the_optimizers_own_steps_and_tells_no_rate(tmp_path: Path) -> None:
    newton: dict[str, Any] = {
        "optimizer": "hessian-free",
        "structural": 0.1,
        "damping": 0.5,
        "batch": 8,
        "curvature_batch": 3,
    }
    config = Config(**{**ORDER, **newton, "length": (10, 10)})
    learner, alone, chance = Learner(config), Network(config), torch.Generator().manual_seed(config.seed)
    parameters = [each for _, each in alone.trained()]
    damping: Any = {"damping": 0.5, "structural": 0.1, "hidden_distance": "tanh", "seed": config.seed}
    optimizer = HessianFree(parameters, "cross-entropy", **damping)
    for _ in range(3):
        batch = alone.problem.sample(8, 10, chance)

        def forward(kind: str, batch: Any = batch) -> Any:
            part = slice(None) if kind == "gradient" else slice(3)
            states, _ = alone.rnn(batch.inputs[:, part])
            return alone.readout(states[-1]), batch.targets[0, part], states

        assert learner.update() == pytest.approx(optimizer.step(forward), rel=1e-4)
    for (_, mine), theirs in zip(learner.network.trained(), parameters, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
    run(config.changed(max_updates=4, check_every=2), tmp_path / "run", progress="plain")
    last = metrics(tmp_path / "run")[-1]
    assert last["lr"] is None
    assert last["horizon"] > 0


@pytest.mark.parametrize("problem", ["temporal-order", "addition"])
def test_an_echo_state_network_answers_as_echo_state_does_on_the_same_sequences(problem: str, tmp_path: Path) -> None:
    fields = {**ORDER, "problem": problem, "hidden": 20, "max_updates": 30, "dtype": "float64"}
    config = Config(**fields, network="echo-state", leak=0.3, radius=1.1, input_scaling=0.5)
    run(config, tmp_path / "run", progress="plain")
    learner = Learner(config)
    for _ in range(30):
        learner.update()
    network, chance = learner.tested, torch.Generator().manual_seed(config.seed)
    outputs = network.problem.output_size
    alone = EchoState(20, leak=0.7, output_size=outputs).use(network.rnn.weight_hh_l0, network.rnn.weight_ih_l0)
    for _ in range(30):
        length = int(torch.randint(10, 13, (), generator=chance))
        batch = network.problem.sample(config.batch, length, chance)
        alone.partial_fit(batch.inputs, batch.targets, batch.steps)
    batch = network.problem.sample(50, 12, stream(7))
    torch.testing.assert_close(network.answers(batch), alone.predict(batch.inputs, batch.steps), rtol=1e-9, atol=1e-9)
    assert evaluate(tmp_path / "run", 12, 200)["error"] < 1.0
    assert {line["horizon"] for line in metrics(tmp_path / "run")} == {0}


@pytest.mark.parametrize("probability", [1.0, 0.6])
def test_teacher_forcing_learns_from_its_targets_and_answers_from_its_own_outputs(probability: float) -> None:
    config = Config(**{**ORDER, **TAUGHT, "teacher_forcing": probability, "lr": 1.0, "dtype": "float64"})
    learner, alone, chance = Learner(config), Network(config), torch.Generator().manual_seed(config.seed)
    assert (alone.rnn.hidden_size, alone.rnn.output_size) == (6 + 3, 3)
    T = int(torch.randint(10, 13, (), generator=chance))
    batch = alone.problem.sample(config.batch, T, chance)
    layer = alone.rnn.train()
    layer.generator, layer.probability = chance, probability
    inputs = torch.nn.functional.one_hot(batch.inputs, 4).double()
    loss = alone.problem.loss(layer(inputs, batch.targets)[0], batch)
    loss.backward()
    assert learner.update() == pytest.approx(loss.item(), rel=1e-12)
    for (_, mine), theirs in zip(learner.network.trained(), layer.parameters(), strict=True):
        assert theirs.grad is not None
        torch.testing.assert_close(mine, theirs - theirs.grad, rtol=1e-12, atol=1e-12)
    free = alone.rnn.eval()(inputs)[0]
    torch.testing.assert_close(alone.answers(batch), free)
    assert not torch.equal(alone.taught(batch), free)


def test_the_horizon_of_teacher_forcing_is_that_of_its_hidden_units(tmp_path: Path) -> None:
    config = Config(**{**ORDER, **TAUGHT, "teacher_forcing": 0.5, "init": "orthogonal", "max_updates": 20})
    run(config, tmp_path / "run", progress="plain")
    assert metrics(tmp_path / "run")[-1]["horizon"] > 5


REFUSED = [
    ({"teacher_forcing": 1.5}, r"teacher_forcing must be a number in \[0, 1\], not 1.5"),
    (
        {"teacher_forcing": 1.0},
        "teacher_forcing must be left out with 'temporal-order' and these options, which has no target at every step",
    ),
    ({**TAUGHT, "options": {}}, "teacher_forcing must be left out with 'memorization-5bit' and these options"),
    ({**TAUGHT, "network": "gru"}, "network must be 'rnn' with teacher_forcing, not 'gru'"),
    (
        {**TAUGHT, "algorithm": "sgd-r", "alpha": 1.0},
        "algorithm must be 'sgd' or 'sgd-c' with teacher_forcing, not 'sgd-r'",
    ),
    ({**TAUGHT, "leak": 0.5}, "leak must be left out with teacher_forcing, not 0.5"),
    ({**TAUGHT, "truncate": 5}, "truncate must be left out with teacher_forcing, not 5"),
    ({**TAUGHT, "optimizer": "hessian-free"}, "optimizer must be 'sgd' or .* with teacher_forcing, not 'hessian-free'"),
    (
        {"problem": "jsb", "teacher_forcing": 1.0},
        "teacher_forcing must be left out with 'jsb', which has no such setting",
    ),
    ({"per": "entry"}, "per must be left out with algorithm 'sgd' .plain gradient., not 'entry'"),
    (
        {"algorithm": "sgd-c", "per": "entry", "threshold": "auto"},
        "threshold must be a number with per 'entry', not 'auto'",
    ),
    ({"per": "layer"}, "per must be one of 'all', 'parameter', 'entry', not 'layer'"),
    ({"noise": -0.1}, "noise must be a finite number of at least 0, not -0.1"),
    ({"network": "lstm", "noise": 0.1}, "noise must be left out with network 'lstm': it is for plain units, not 0.1"),
    ({"network": "echo-state", "noise": 0.1}, "noise must be left out with network 'echo-state'"),
    ({"optimizer": "hessian-free", "noise": 0.1}, "noise must be left out with optimizer 'hessian-free'"),
    ({**TAUGHT, "noise": 0.1}, "noise must be left out with teacher_forcing, not 0.1"),
    ({"clip_error": 0.0}, "clip_error must be a finite number above 0, not 0.0"),
    ({"l1": -1.0}, "l1 must be a finite number of at least 0, not -1.0"),
    ({"truncate": 0}, "truncate must be a whole number of at least 1, not 0"),
    ({"radius": 0.0}, "radius must be a finite number above 0, not 0.0"),
    (
        {"network": "gru", "radius": 1.0},
        "radius must be left out with network 'gru', whose gates have no one spectral radius",
    ),
    ({"damping": 1.0}, "damping must be left out unless optimizer is 'hessian-free', not 1.0"),
    ({"structural": 1.0}, "structural must be left out unless optimizer is 'hessian-free', not 1.0"),
    (
        {"optimizer": "hessian-free", "l1": 0.1},
        "l1 must be left out with optimizer 'hessian-free', which has no step down",
    ),
    ({"optimizer": "hessian-free", "lr": 0.1}, "lr must be left out with optimizer 'hessian-free'"),
    ({"optimizer": "hessian-free", "truncate": 5}, "truncate must be left out with optimizer 'hessian-free'"),
    (
        {"optimizer": "hessian-free", "momentum": 0.5},
        "momentum must be left out with optimizer 'hessian-free', which has none",
    ),
    ({"optimizer": "hessian-free", "curvature_batch": 30}, "curvature_batch must be at most batch, 4, not 30"),
    (
        {"optimizer": "hessian-free", "algorithm": "sgd-c", "threshold": 1.0},
        "algorithm must be 'sgd' with optimizer 'hessian-free', which has no step down the gradient, not 'sgd-c'",
    ),
    ({"input_scaling": 0.5}, "input_scaling must be left out unless network is 'echo-state', not 0.5"),
    ({"network": "echo-state", "nonlinearity": "relu"}, "nonlinearity must be left out with network 'echo-state'"),
    (
        {"network": "echo-state", "init": "hold"},
        "init must be left out with network 'echo-state', whose reservoir has its own",
    ),
    ({"network": "echo-state", "init": "remember"}, "init must be left out with network 'echo-state'"),
    (
        {"network": "echo-state", "optimizer": "adam"},
        "optimizer must be left out with network 'echo-state', which has no grad",
    ),
    ({"network": "echo-state", "clip_error": 1.0}, "clip_error must be left out with network 'echo-state'"),
    ({"network": "echo-state", "average": 5}, "average must be left out with network 'echo-state'"),
    (
        {"problem": "jsb", "network": "echo-state"},
        "network must be another than 'echo-state' with 'jsb', whose state is carr",
    ),
    ({"problem": "jsb", "optimizer": "hessian-free"}, "optimizer must be another than 'hessian-free' with 'jsb'"),
    ({"problem": "jsb", "truncate": 5}, "truncate must be left out with 'jsb', which has no such setting, not 5"),
    ({"problem": "jsb", "damping": 5.0}, "damping must be left out with 'jsb', which has no such setting, not 5.0"),
]


@pytest.mark.parametrize(("fields", "sentence"), REFUSED)
def test_what_a_method_cannot_be_combined_with_is_refused_in_one_sentence(
    fields: dict[str, Any], sentence: str
) -> None:
    drawn = {} if fields.get("problem") == "jsb" else SMALL
    with pytest.raises(ConfigError, match=sentence) as caught:
        Config(**{"problem": "temporal-order", "algorithm": "sgd", **drawn, **fields})
    assert len(caught.value.faults) == 1


def test_all_faults_of_a_combination_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Config(**ORDER, network="echo-state", optimizer="adam", l1=1.0, truncate=4, bias=False)
    assert [fault.split()[0] for fault in caught.value.faults] == ["bias", "optimizer", "l1", "truncate"]


@pytest.mark.parametrize("name", ["paper", "steady", "fig7"])
def test_presets_leave_out_what_the_method_does_not_have(name: str) -> None:
    echo = preset("temporal-order", name=name, network="echo-state")
    assert (echo.algorithm, echo.radius, echo.curriculum) == ("sgd", 0.9, None)
    newton = preset("temporal-order", name=name, optimizer="hessian-free", length=(50, 50))
    assert (newton.algorithm, newton.threshold) == ("sgd", None)

"""The echo state network: its reservoir is as set, its read-out the least squares solution, and its memory does not grow."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import steadygrad as sg
from steadygrad import tasks
from steadygrad.baselines import EchoState, nrmse, reservoir, ridge


def data(steps: int = 300, batch: int = 7, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Noise, and a target that needs two steps of it."""
    u = torch.rand(steps, batch, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    d = torch.stack([u.roll(1, 0)[..., 0] * u[..., 1], u.roll(2, 0).sum(-1)], -1)
    return u, d


def kept(network: EchoState, name: str) -> Tensor:
    tensor = getattr(network, name)
    assert tensor is not None
    return tensor


def states_by_hand(network: EchoState, u: Tensor) -> Tensor:
    W, W_in, b = (kept(network, name) for name in ("weight_hh", "weight_ih", "bias"))
    h, found = u.new_zeros(u.shape[1], network.hidden_size), []
    for u_t in u:
        h = (1 - network.leak) * h + network.leak * torch.tanh(h @ W.T + u_t @ W_in.T + b)
        found.append(h)
    return torch.stack(found)


@pytest.mark.parametrize("radius", [0.1, 0.9, 1.4])
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.95])
def test_reservoir_has_the_radius_the_sparsity_and_the_scales_that_were_set(radius: float, sparsity: float) -> None:
    network = EchoState(60, radius=radius, sparsity=sparsity, input_scaling=[0.3, 2.0], bias_scaling=0.5).fit(*data())
    W, W_in, b = (kept(network, name).numpy() for name in ("weight_hh", "weight_ih", "bias"))
    assert np.abs(np.linalg.eigvals(W)).max() == pytest.approx(radius, rel=1e-12)
    assert ((W != 0).sum(1) == round((1 - sparsity) * 60)).all()
    # the largest of 60 uniform draws lies below nine tenths of the range with a chance of 0.2 %
    assert 0.27 < np.abs(W_in[:, 0]).max() <= 0.3
    assert 1.8 < np.abs(W_in[:, 1]).max() <= 2.0
    assert 0.45 < np.abs(b).max() <= 0.5


@pytest.mark.parametrize("leak", [1.0, 0.3])
@pytest.mark.parametrize("read_inputs", [False, True])
@pytest.mark.parametrize("penalty", [0.0, 1e-3])
def test_read_out_is_the_least_squares_solution(leak: float, read_inputs: bool, penalty: float) -> None:
    u, d = data()
    network = EchoState(20, leak=leak, bias_scaling=0.2, washout=10, ridge=penalty, read_inputs=read_inputs, seed=3)
    for some in (slice(0, 3), slice(3, 4), slice(4, 7)):
        network.partial_fit(u[:, some], d[:, some])
    states = states_by_hand(network, u)
    z = torch.cat([states, u], -1) if read_inputs else states
    rows, wanted = z[10:].flatten(0, 1).numpy(), d[10:].flatten(0, 1).numpy()
    # Direct, without sums: ‖y − b − z W‖² + λ‖W‖² as one least squares problem of more rows, the constant unpenalised.
    extra = np.hstack([np.zeros((rows.shape[1], 1)), math.sqrt(penalty) * np.eye(rows.shape[1])])
    left = np.vstack([np.hstack([np.ones((len(rows), 1)), rows]), extra])
    right = np.vstack([wanted, np.zeros((rows.shape[1], 2))])
    direct = np.linalg.lstsq(left, right, rcond=None)[0]
    outputs = torch.as_tensor(z.numpy() @ direct[1:] + direct[0])
    torch.testing.assert_close(network.predict(u), outputs, rtol=0, atol=1e-8)
    assert network.ridge_ == penalty


def test_streamed_sequences_give_what_one_call_gives() -> None:
    u, d = data(batch=10)
    whole = EchoState(30, washout=5, seed=1).fit(u, d)
    parts = EchoState(30, washout=5, seed=1).partial_fit(u[:, :5], d[:, :5]).partial_fit(u[:, 5:], d[:, 5:])
    torch.testing.assert_close(kept(parts, "sums"), kept(whole, "sums"))
    torch.testing.assert_close(parts.predict(u), whole.predict(u))
    # One by one they are cut along time and fall into other folds: the sum over the folds is the same.
    single = EchoState(30, washout=5, seed=1)
    for b in range(10):
        single.partial_fit(u[:, b], d[:, b])
    torch.testing.assert_close(kept(single, "sums").sum(0), kept(whole, "sums").sum(0))


def test_pieces_give_what_one_piece_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    u, d = data()
    whole = EchoState(30, leak=0.5, washout=20, seed=1).fit(u, d)
    expected = whole.predict(u, slice(7, 201))
    monkeypatch.setattr(
        reservoir, "IN_MEMORY", 30 * 4
    )  # one step of four sequences; 11 steps of the last one would fit
    cut = EchoState(30, leak=0.5, washout=20, seed=1).fit(u, d)
    torch.testing.assert_close(kept(cut, "sums"), kept(whole, "sums"))
    torch.testing.assert_close(cut.predict(u, slice(7, 201)), expected)
    monkeypatch.setattr(reservoir, "IN_MEMORY", 30 * 7 * 11)  # 11 steps of all seven
    torch.testing.assert_close(EchoState(30, leak=0.5, washout=20, seed=1).fit(u, d).sums, whole.sums)


@pytest.mark.parametrize("batch", [1, 9])
def test_penalty_is_the_one_that_explicit_cross_validation_chooses(batch: int) -> None:
    u, d = data(60, batch)
    # noise, so that a penalty is worth its price
    d = d + 0.5 * torch.randn(d.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    penalties = [10.0**power for power in range(-6, 5)]
    network = EchoState(40, ridge=penalties, folds=3, seed=1).fit(u, d)
    z = states_by_hand(network, u)
    fold = (torch.arange(60) * 3 // 60).unsqueeze(1) if batch == 1 else (torch.arange(9) % 3).expand(60, 9)
    errors = torch.zeros(len(penalties), dtype=torch.float64)
    for held in range(3):
        Z, Y = z[fold != held], d[fold != held]
        centred, rest = Z - Z.mean(0), z[fold == held] - Z.mean(0)
        for i, penalty in enumerate(penalties):
            gram = centred.T @ centred + penalty * torch.eye(40, dtype=torch.float64)
            W = torch.linalg.solve(gram, centred.T @ (Y - Y.mean(0)))
            errors[i] += (d[fold == held] - Y.mean(0) - rest @ W).square().sum() / fold.numel()
    torch.testing.assert_close(ridge.cross_validate(kept(network, "sums"), penalties, 2), errors, rtol=1e-6, atol=0)
    assert network.ridge_ == penalties[int(errors.argmin())]
    assert penalties[0] < network.ridge_ < penalties[-1]


def test_washout_keeps_first_steps_out_of_the_fit() -> None:
    u, d = data()
    spoilt = d.clone()
    spoilt[:25] = 1e6
    fits = [EchoState(30, washout=washout, ridge=1e-6).fit(u, spoilt) for washout in (25, 24)]
    clean = EchoState(30, washout=25, ridge=1e-6).fit(u, d)
    torch.testing.assert_close(fits[0].predict(u), clean.predict(u))
    assert (fits[1].predict(u) - clean.predict(u)).abs().max() > 1
    assert fits[0].score(u, spoilt) == pytest.approx(clean.score(u, d))
    # `steps` and washout together: the later of the two counts
    later = EchoState(30, washout=25, ridge=1e-6).fit(u, d[10:], slice(10, None))
    torch.testing.assert_close(later.predict(u), clean.predict(u))


def test_what_is_kept_does_not_grow_with_sequences() -> None:
    network, sizes = EchoState(20), set[int]()
    for seed in range(6):
        network.partial_fit(*data(batch=2**seed, seed=seed))
        sizes.add(sum(tensor.untyped_storage().nbytes() for tensor in network.state_dict().values()))
    assert len(sizes) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux alone")
def test_memory_in_use_does_not_grow_with_the_length() -> None:
    # Whole, the states of 1,600 steps of 50 sequences in 100 units are 64 MB, and their rows as much again; a piece is 2 MB.
    code = """
import resource, torch
from steadygrad.baselines import EchoState, reservoir
reservoir.IN_MEMORY = 2**18
network = EchoState(100, ridge=1e-6)
u = torch.rand(1_600, 50, 1, dtype=torch.float64)
network.fit(u[:160], u[:160]).predict(u[:160])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
network.fit(u, u).predict(u)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(run.stdout) < 30


def test_classes_at_the_last_step_of_token_sequences() -> None:
    task, generator = tasks.get("recall"), torch.Generator().manual_seed(0)
    network = EchoState(200, radius=1.0, input_size=16, output_size=8, seed=1)
    for _ in range(8):
        batch = task.sample(100, 5, generator)
        network.partial_fit(batch.inputs, batch.targets, batch.steps)
    batch = task.sample(500, 5, generator)
    outputs = network.predict(batch.inputs, batch.steps)
    assert outputs.shape == (1, 500, 8)
    score = network.score(batch.inputs, batch.targets, batch.steps)
    assert score > 0.95
    assert task.is_correct(outputs, batch).double().mean().item() == score


def test_states_are_those_of_the_layer() -> None:
    u, d = data()
    network = EchoState(20, leak=0.3, bias_scaling=0.2).fit(u, d)
    layer = sg.RNN(2, 20, leak=0.7).double()
    names = {"weight_ih_l0": "weight_ih", "weight_hh_l0": "weight_hh", "bias_ih_l0": "bias"}
    state = {name: kept(network, ours) for name, ours in names.items()}
    layer.load_state_dict({**state, "bias_hh_l0": torch.zeros(20)})
    torch.testing.assert_close(layer(u)[0].detach(), states_by_hand(network, u))


def test_numpy_in_numpy_out_and_one_sequence_alone() -> None:
    u, d = data(batch=1)
    network = EchoState(20).fit(u[:, 0].numpy(), d[:, 0].numpy())
    outputs = network.predict(u[:, 0].numpy())
    assert isinstance(outputs, np.ndarray)
    np.testing.assert_array_equal(outputs, network.predict(u)[:, 0].numpy())
    assert 0 < nrmse(outputs, d[:, 0]) < 0.5


def test_seed_decides_the_reservoir_and_torchs_own_state_stays() -> None:
    u, d = data()
    before = torch.get_rng_state()
    one, same, other = (EchoState(20, seed=seed).fit(u, d).predict(u) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_saved_networks_predict_the_same_and_learn_on(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    u, d = data()
    network = EchoState(20, leak=0.3, washout=3, input_scaling=[0.5, 1.0], dtype=torch.float32, seed=4)
    network.partial_fit(u[:, :5], d[:, :5]).save(tmp_path / "reservoir.safetensors")
    again = EchoState.load(tmp_path / "reservoir.safetensors")
    assert again.get_params() == network.get_params()
    assert torch.equal(again.predict(u), network.predict(u))
    other = EchoState(20, leak=0.3, washout=3, dtype=torch.float32)
    other.load_state_dict(network.state_dict())
    assert torch.equal(other.predict(u), network.predict(u))
    for each in (network, again):
        each.partial_fit(u[:, 5:], d[:, 5:])
    torch.testing.assert_close(again.predict(u), network.predict(u))
    with pytest.raises(ValueError, match=r"leak must be 0\.3 to load this state, not 1\.0"):
        EchoState(20).load_state_dict(network.state_dict())
    with pytest.raises(ValueError, match="hidden_size must be 20 to load this state, not 21"):
        EchoState(21, leak=0.3).load_state_dict(network.state_dict())


def test_settings_are_read_and_changed_as_in_scikit_learn() -> None:
    u, d = data()
    network = EchoState(20, radius=0.8).fit(u, d)
    assert network.get_params()["radius"] == 0.8
    assert EchoState(**network.get_params()).get_params() == network.get_params()
    assert network.set_params(radius=1.2) is network
    with pytest.raises(RuntimeError, match="must be fitted first"):
        network.predict(u)
    W = kept(network.fit(u, d), "weight_hh").numpy()
    assert np.abs(np.linalg.eigvals(W)).max() == pytest.approx(1.2)
    with pytest.raises(ValueError, match=r"a setting of EchoState must be one of .* not 'raduis'"):
        network.set_params(raduis=1.0)


def test_a_change_of_dtype_leaves_the_sums_in_float64() -> None:
    u, d = data()
    network = EchoState(20).fit(u, d)
    expected = network.predict(u)
    assert network.float().predict(u).dtype is torch.float32
    assert kept(network, "sums").dtype is torch.float64
    torch.testing.assert_close(network.predict(u).double(), expected, rtol=0, atol=1e-4)
    with pytest.raises(ValueError, match=r"dtype of an EchoState must be .* not torch\.float16"):
        network.half()


def test_gradients_are_refused_in_every_way_one_may_ask() -> None:
    u, d = data()
    network = EchoState(20).fit(u, d)
    assert not list(network.parameters())
    outputs = network(u)
    torch.testing.assert_close(outputs.detach(), network.predict(u))
    sentence = "EchoState has no gradients: its reservoir is frozen, and fit solves for its read-out in closed form"
    with pytest.raises(RuntimeError, match=sentence):
        outputs.sum().backward()
    with pytest.raises(RuntimeError, match=sentence):
        network.predict(u.requires_grad_())
    with pytest.raises(RuntimeError, match=sentence):
        network.requires_grad_()
    with torch.no_grad():
        assert not network(u.detach()).requires_grad


U, D = data(20)
ONE = slice(19, 20)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: EchoState(radius=0.0), ValueError, r"radius must be a finite number above 0, not 0\.0"),
        (lambda: EchoState(radius=-0.9), ValueError, r"radius must be a finite number above 0, not -0\.9"),
        (lambda: EchoState(leak=0.0), ValueError, r"leak must be a number in \(0, 1\], not 0\.0"),
        (lambda: EchoState(leak=1.1), ValueError, r"leak must be a number in \(0, 1\], not 1\.1"),
        (lambda: EchoState(sparsity=1.0), ValueError, r"sparsity must be a number in \[0, 1\), not 1\.0"),
        (lambda: EchoState(ridge=-1.0), ValueError, r"ridge must be a finite number of at least 0, not -1\.0"),
        (lambda: EchoState(ridge=[]), ValueError, "ridge must be a number, several numbers or None, not an empty list"),
        (lambda: EchoState(folds=1), ValueError, "folds must be a whole number of at least 2, not 1"),
        (lambda: EchoState(dtype=torch.float16), ValueError, r"dtype must be .* not torch\.float16"),
        (lambda: EchoState(5, input_scaling=[1.0] * 3).fit(U, D), ValueError, "input_scaling must be one number or 2"),
        (lambda: EchoState(5).predict(U), RuntimeError, "EchoState must be fitted first: call fit"),
        (lambda: EchoState(5).ridge_, RuntimeError, "EchoState must be fitted first: call fit"),
        (
            lambda: EchoState(5, washout=20).fit(U, D),
            ValueError,
            "washout must leave a step that has a target: it is 20",
        ),
        (lambda: EchoState(5).fit(U, D[1:]), ValueError, r"targets must be \[20, 7, O\] .* not \[19, 7, 2\]"),
        (lambda: EchoState(5).fit(U, D).predict(U[..., :1]), ValueError, "inputs must have 2 channels .* not 1"),
        (
            lambda: EchoState(5).fit(U * math.nan, D),
            ValueError,
            "inputs must be finite, and 280 of 280 entries are not",
        ),
        (
            lambda: EchoState(5).fit(U, D * math.inf),
            ValueError,
            "targets must be finite, and .* of 280 entries are not",
        ),
        (lambda: EchoState(5).fit(U.long()[..., 0], D), ValueError, "input_size must be given for integer tokens"),
        (lambda: EchoState(5).fit(U, D.long()[..., 0]), ValueError, "output_size must be given for integer classes"),
        (
            lambda: EchoState(5).fit(U, D, slice(3, 3)),
            ValueError,
            "steps must be a run of neighbours among the 20 steps",
        ),
        (lambda: EchoState(5).fit(U[:, :1], D[ONE, :1], ONE), ValueError, "ridge must be a number where all rows fall"),
    ],
)
def test_bad_argument_is_named(call: Callable[[], Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        call()

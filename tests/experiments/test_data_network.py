"""The gradient by hand against autograd through packed sequences, and what is read against a loop over steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.nn.utils.rnn import pack_padded_sequence

from steadygrad.data import IGNORE, Chunk
from steadygrad.experiments import Config, Network

T, B, WIDTH = 6, 4, 5
LENGTHS = {"full": [6, 6, 6, 6], "padded": [6, 2, 5, 1], "idle": [4, 0, 6, 0]}


def network(data: str, **fields: Any) -> Network:
    sizes = SimpleNamespace(input_size=WIDTH, output_size=WIDTH, cost="classes" if data == "ptb" else "keys")
    options = {
        "algorithm": "sgd-r",
        "nonlinearity": "sigmoid",
        "alpha": 0.7,
        "hidden": 6,
        "dtype": "float64",
        "init": "basic_tanh",
    }
    return Network(Config(data, **{**options, **fields}), sizes)


def chunk(data: str, lengths: list[int], carry: list[bool]) -> Chunk:
    generator = torch.Generator().manual_seed(1)
    counted = torch.arange(T).unsqueeze(1) < torch.tensor(lengths)
    if data == "ptb":
        inputs = torch.randint(WIDTH, (T, B), generator=generator).where(counted, 0)
        targets = torch.randint(WIDTH, (T, B), generator=generator).where(counted, IGNORE)
    else:
        notes = (torch.rand(2, T, B, WIDTH, generator=generator) < 0.4).float() * counted.unsqueeze(-1)
        inputs, targets = notes.unbind()
    return Chunk(inputs, targets, torch.tensor(lengths), torch.tensor(carry))


def costs(data: str, y: Tensor, targets: Tensor) -> Tensor:
    """ℓ of every step [T, B], by torch's own functions."""
    if data == "ptb":
        return cross_entropy(y.movedim(-1, 1), targets, reduction="none", ignore_index=IGNORE)
    return binary_cross_entropy_with_logits(y, targets.double(), reduction="none").sum(-1)


def states_by_packing(model: Network, given: Chunk, rows: list[int], h0: Tensor) -> Tensor:
    """[T, rows, H] by the layer's own way with sequences of different lengths."""
    inputs = given.inputs[:, rows] if model.config.is_text else given.inputs[:, rows].double()
    packed = pack_padded_sequence(inputs, given.lengths[rows], enforce_sorted=False)
    output, _ = model.rnn(packed, h0[rows].unsqueeze(0))
    return torch.nn.utils.rnn.pad_packed_sequence(output, total_length=T)[0]


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("bias", [True, False], ids=["biases", "no biases"])
@pytest.mark.parametrize("cost", ["mean", "sum"])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("data", ["ptb", "jsb"])
def test_the_gradient_by_hand_equals_autograds_with_padded_steps_left_out_of_loss_and_omega(
    data: str, lengths: str, cost: str, bias: bool, dropout: float
) -> None:
    model = network(data, cost=cost, bias=bias, dropout=dropout)
    given = chunk(data, LENGTHS[lengths], [True, False, True, True])
    state = torch.randn(B, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    rows = [b for b in range(B) if LENGTHS[lengths][b]]
    h0 = state * given.carry.unsqueeze(1)
    h = states_by_packing(model, given, rows, h0)
    kept = torch.empty(T * len(rows), 6, dtype=torch.float64)
    kept.bernoulli_(1 - dropout, generator=torch.Generator().manual_seed(3))
    y = model.readout(h * kept.view_as(h) / (1 - dropout))
    each = costs(data, y, given.targets[:, rows]) * given.mask[:, rows]
    by_row = each.sum(0) / (given.lengths[rows] if cost == "mean" else 1)
    trained = [parameter for _, parameter in model.trained()]
    expected = torch.autograd.grad(by_row.mean(), trained)
    for parameter in trained:
        parameter.grad = torch.ones_like(parameter)  # what an earlier update left must not be added to
    read = model.backward_chunk(given, state, torch.Generator().manual_seed(3))
    assert read.nats == pytest.approx(each.sum().item(), rel=1e-13)
    assert read.predictions == sum(LENGTHS[lengths])
    assert not read.state.requires_grad
    for (name, parameter), gradient in zip(model.trained(), expected, strict=True):
        # float64; sums of at most 24 products, in another order
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-10, atol=1e-14, msg=name)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("data", ["ptb", "jsb"])
def test_noise_is_added_before_the_nonlinearity_at_every_step_of_a_chunk(data: str, lengths: str) -> None:
    model = network(data, noise=0.5, dropout=0.4)
    model.rnn.alpha = 0.0
    given = chunk(data, LENGTHS[lengths], [True, False, True, True])
    state = torch.randn(B, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    read = model.backward_chunk(given, state, torch.Generator().manual_seed(3))
    rows, drawn = [b for b in range(B) if LENGTHS[lengths][b]], torch.Generator().manual_seed(3)
    noise = torch.randn(T, len(rows), 6, generator=drawn, dtype=torch.float64)
    kept = torch.empty(T * len(rows), 6, dtype=torch.float64).bernoulli_(0.6, generator=drawn)
    u = torch.nn.functional.one_hot(given.inputs, WIDTH) if data == "ptb" else given.inputs
    h, states, rnn = (state * given.carry.unsqueeze(1))[rows], [], model.rnn
    for t in range(T):
        a = u[t, rows].double() @ rnn.weight_ih_l0.T + h @ rnn.weight_hh_l0.T + rnn.bias_ih_l0 + 0.5 * noise[t]
        h = a.sigmoid()
        states.append(h)
    dropped = torch.stack(states) * kept.view(T, len(rows), 6) / 0.6
    each = costs(data, model.readout(dropped), given.targets[:, rows]) * given.mask[:, rows]
    trained = [parameter for _, parameter in model.trained()]
    expected = torch.autograd.grad((each.sum(0) / given.lengths[rows]).mean(), trained)
    assert read.nats == pytest.approx(each.sum().item(), rel=1e-12)
    for (name, parameter), gradient in zip(model.trained(), expected, strict=True):
        # float64, sums in another order
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-10, atol=1e-14, msg=name)


def test_omega_is_the_same_with_and_without_the_padded_steps() -> None:
    model = network("ptb")
    model.rnn.record = True
    given = chunk("ptb", LENGTHS["padded"], [False] * B)
    model.backward_chunk(given)
    ours = model.rnn.flow.omega
    y = model.readout(states_by_packing(model, given, list(range(B)), torch.zeros(B, 6, dtype=torch.float64)))
    (costs("ptb", y, given.targets) * given.mask).sum().backward()
    assert ours == pytest.approx(model.rnn.flow.omega, rel=1e-12)
    assert ours > 0


@pytest.mark.parametrize("setting", ["dropout", "noise"])
def test_dropout_and_noise_are_for_training_alone(setting: str) -> None:
    model, without = network("ptb", **{setting: 0.5}), network("ptb")
    given = chunk("ptb", LENGTHS["full"], [False] * B)
    assert model.read(given).nats == without.read(given).nats == without.backward_chunk(given).nats
    assert model.backward_chunk(given).nats == without.read(given).nats
    assert model.backward_chunk(given, generator=torch.Generator().manual_seed(1)).nats != without.read(given).nats


def test_dropout_is_refused_where_it_means_nothing() -> None:
    with pytest.raises(ValueError, match=r"dropout must be a number in \[0, 1\), not 1"):
        network("ptb", dropout=1.0)
    with pytest.raises(ValueError, match="dropout must be left out with 'addition', which has no such setting"):
        Config("addition", "sgd", dropout=0.5)


@pytest.mark.parametrize("data", ["ptb", "jsb"])
def test_reading_in_chunks_equals_reading_each_row_by_itself_step_by_step(data: str) -> None:
    model = network(data)
    first, second = (
        chunk(data, [6, 3, 6, 6], [False] * B),
        chunk(data, [4, 6, 0, 2], [True, False, False, True]),
    )
    one = model.read(first)
    two = model.read(second, one.state)
    nats = 0.0
    for b in range(B):
        state = None
        for each in (first, second):
            state = state if each.carry[b] else None
            for t in range(int(each.lengths[b])):
                inputs = each.inputs[t : t + 1, b : b + 1]
                with torch.no_grad():
                    y, state = model(inputs, state)
                nats += costs(data, y, each.targets[t : t + 1, b : b + 1]).item()
        if each.lengths[b]:
            # a row shorter than the chunk has ended: its state is not used again
            assert int(each.lengths[b]) < 6 or torch.allclose(two.state[b], state[0, 0], rtol=1e-12)
    assert one.nats + two.nats == pytest.approx(nats, rel=1e-12)
    assert not two.state[2].any()


def test_a_state_that_is_not_finite_does_not_outlive_its_sequence() -> None:
    model = network("ptb")
    given = chunk("ptb", LENGTHS["full"], [False, True, True, True])
    state = torch.zeros(B, 6, dtype=torch.float64)
    expected = model.read(given, state).nats
    state[0] = torch.nan
    assert model.read(given, state).nats == expected


def test_without_biases_neither_layer_has_any() -> None:
    names = [name for name, _ in network("ptb", bias=False).named_parameters()]
    assert names == ["rnn.weight_ih_l0", "rnn.weight_hh_l0", "readout.weight"]
    assert [name for name, _ in network("ptb").trained()] == [
        "rnn.weight_ih_l0",
        "rnn.weight_hh_l0",
        "rnn.bias_ih_l0",
        "readout.weight",
        "readout.bias",
    ]


@pytest.mark.parametrize("init", ["sigmoid", "orthogonal"])
def test_the_seed_alone_decides_the_weights(init: str) -> None:
    def drawn(seed: int, chance: int) -> Tensor:
        torch.manual_seed(chance)
        model = network("jsb", init=init, seed=seed)
        return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

    assert torch.equal(drawn(1, 5), drawn(1, 6))
    assert not torch.equal(drawn(1, 5), drawn(2, 5))

"""Any cell over time: torch's cells against the layers, Ω against its definition pair by pair, and cells that are wrong."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import steadygrad as sg

STEPS, BATCH, INPUTS, HIDDEN = 6, 3, 4, 5
CELLS = {"RNN": torch.nn.RNNCell, "GRU": torch.nn.GRUCell, "LSTM": torch.nn.LSTMCell}
LAYERS = {"RNN": sg.RNN, "GRU": sg.GRU, "LSTM": sg.LSTM}


def sequence(seed: int = 1) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(STEPS, BATCH, INPUTS, dtype=torch.float64, generator=draw)


def pair(kind: str, **options: Any) -> tuple[sg.Recurrent, Any]:
    """A cell over time, and the layer of the same weights."""
    torch.manual_seed(0)
    cell = CELLS[kind](INPUTS, HIDDEN, dtype=torch.float64)
    layer = LAYERS[kind](INPUTS, HIDDEN, dtype=torch.float64, **options)
    layer.load_state_dict({f"{name}_l0": value for name, value in cell.state_dict().items()})
    return sg.Recurrent(cell, **options), layer


def loss(output: Tensor, last: Any) -> Tensor:
    parts = last if isinstance(last, tuple) else (last,)
    return output.square().sum() + sum((part.sin().sum() for part in parts), torch.zeros(()))


@pytest.mark.parametrize("clip_error", [None, 0.1])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("omega", ["paper", "program"])
@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_torchs_cells_over_time_equal_the_layers(kind: str, omega: str, packed: bool, clip_error: float | None) -> None:
    over_time, layer = pair(kind, alpha=0.7, omega=omega, clip_error=clip_error)
    given: Any = sequence()
    if packed:
        given = pack_padded_sequence(given, torch.tensor([4, 6, 2]), enforce_sorted=False)
    found: list[dict[str, Tensor]] = []
    for each in (over_time, layer):
        output, last = each(given)
        loss(output.data if packed else output, last).backward()
        found.append({name.split(".")[-1].removesuffix("_l0"): p.grad for name, p in each.named_parameters()})
    for name, expected in found[1].items():
        torch.testing.assert_close(found[0][name], expected, rtol=1e-10, atol=1e-12, msg=name)
    torch.testing.assert_close(over_time.flow[0].measured, layer.flow[0].measured, rtol=1e-10, atol=1e-14)
    assert over_time.flow.omega == pytest.approx(layer.flow.omega, rel=1e-10)


class BeforeSigma(torch.nn.Module):
    """The paper's own form of the plain cell, whose state is x: x' = W tanh(x) + W_in u + b."""

    hidden_size = HIDDEN

    def __init__(self, rnn: sg.RNN) -> None:
        super().__init__()
        self.weight_ih, self.weight_hh = rnn.weight_ih_l0, rnn.weight_hh_l0
        self.bias_ih, self.bias_hh = rnn.bias_ih_l0, rnn.bias_hh_l0

    def forward(self, u: Tensor, x: Tensor) -> Tensor:
        return torch.tanh(x) @ self.weight_hh.T + self.bias_hh + u @ self.weight_ih.T + self.bias_ih


@pytest.mark.parametrize("omega", ["paper", "proceedings"])
def test_the_plain_cell_in_the_papers_form_equals_the_plain_layer(omega: str) -> None:
    torch.manual_seed(0)
    rnn = sg.RNN(INPUTS, HIDDEN, alpha=0.7, omega=omega, dtype=torch.float64)
    rnn(sequence())[0].square().sum().backward()
    expected = {name: parameter.grad for name, parameter in rnn.named_parameters()}
    rnn.zero_grad()
    over_time = sg.Recurrent(BeforeSigma(rnn), alpha=0.7, omega=omega)
    over_time(sequence())[0].tanh().square().sum().backward()
    for name, parameter in rnn.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-10, atol=1e-13, msg=name)
    torch.testing.assert_close(over_time.flow[0].measured, rnn.flow[0].measured, rtol=1e-10, atol=1e-14)


class Own(torch.nn.Module):
    """A cell of a user's: two parts of a state, of different widths, and no name that torch knows."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = torch.nn.Linear(INPUTS + 5, 5)
        self.slow = torch.nn.Linear(5, 2)

    def initial_state(self, batch: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(batch, 5, dtype=torch.float64), torch.full((batch, 2), 0.3, dtype=torch.float64)

    def forward(self, u: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        fast, slow = state
        fast = torch.tanh(self.mix(torch.cat([u, fast], -1)) * slow.sum(-1, keepdim=True))
        return fast, 0.9 * slow + 0.1 * torch.sigmoid(self.slow(fast))


def test_omega_of_an_own_cell_equals_its_definition_pair_by_pair() -> None:
    torch.manual_seed(0)
    cell = Own().double()
    alpha, x = 0.7, sequence()
    plain = sg.Recurrent(copy.deepcopy(cell))
    output, last = plain(x)
    loss(output, last).backward()
    with_omega = sg.Recurrent(copy.deepcopy(cell), alpha=alpha)
    output, last = with_omega(x)
    loss(output, last).backward()

    # By hand: states and total errors from a loop, then Ω pair by pair with explicit Jacobians.
    states, state = [], tuple(part.requires_grad_() for part in cell.initial_state(BATCH))
    for u in x:
        state = tuple(part * 1 for part in cell(u, state))
        for part in state:
            part.retain_grad()
        states.append(state)
    loss(torch.stack([each[0] for each in states]), states[-1]).backward()
    terms: list[Tensor] = []
    for k, b in itertools.product(range(1, STEPS), range(BATCH)):
        before = torch.cat([part[b].detach() for part in states[k - 1]])
        error = torch.cat([part.grad[b] for part in states[k]])  # pyright: ignore[reportOptionalSubscript]

        def step(s: Tensor, u: Tensor = x[k, b]) -> Tensor:
            return torch.cat([part[0] for part in cell(u[None], (s[None, :5], s[None, 5:]))])

        jacobian = torch.autograd.functional.jacobian(step, before, create_graph=True)
        terms.append(((error @ jacobian).norm() / error.norm() - 1) ** 2)
    omega = torch.stack(terms).mean()
    derivative = torch.autograd.grad(omega, list(cell.parameters()))
    assert with_omega.flow.omega == pytest.approx(omega.item(), rel=1e-10)
    for (name, a), b, expected in zip(with_omega.named_parameters(), plain.parameters(), derivative, strict=True):
        torch.testing.assert_close(a.grad - b.grad, alpha * expected, rtol=1e-9, atol=1e-12, msg=name)  # pyright: ignore[reportOptionalOperand]


def test_only_the_parameters_named_get_omega() -> None:
    found: list[dict[str, Tensor]] = []
    for options in ({}, {"alpha": 1.0, "recurrent": ["mix.weight"]}):
        torch.manual_seed(0)
        layer = sg.Recurrent(Own().double(), **options)
        layer(sequence())[0].square().sum().backward()
        found.append({name: p.grad for name, p in layer.named_parameters() if p.grad is not None})
    differing = [name for name, grad in found[0].items() if not torch.equal(grad, found[1][name])]
    assert differing == ["cell.mix.weight"]


def test_batch_first_and_initial_state() -> None:
    over_time, layer = pair("GRU")
    h0 = torch.randn(BATCH, HIDDEN, dtype=torch.float64)
    expected, last = layer(sequence(), h0[None])
    over_time.batch_first = True
    output, state = over_time(sequence().transpose(0, 1), h0)
    torch.testing.assert_close(output, expected.transpose(0, 1))
    torch.testing.assert_close(state, last[0])


def test_packed_output_is_that_of_each_sequence_alone() -> None:
    over_time, _ = pair("LSTM")
    lengths = torch.tensor([2, 6, 4])
    packed, last = over_time(pack_padded_sequence(sequence(), lengths, enforce_sorted=False))
    output, _ = pad_packed_sequence(packed)
    for b, length in enumerate(lengths.tolist()):
        alone, state = over_time(sequence()[:length, b : b + 1])
        torch.testing.assert_close(output[:length, b], alone[:, 0])
        torch.testing.assert_close(last[1][b], state[1][0])


class InPlace(torch.nn.Module):
    hidden_size = HIDDEN

    def forward(self, u: Tensor, state: Tensor) -> Tensor:
        return state.mul_(0.5) + u.sum()


class Wider(torch.nn.Module):
    hidden_size = HIDDEN

    def forward(self, u: Tensor, state: Tensor) -> Tensor:
        return torch.cat([state, state], -1)


class Forgetful(torch.nn.Module):
    hidden_size = INPUTS

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(INPUTS, INPUTS, dtype=torch.float64)

    def forward(self, u: Tensor, state: Tensor) -> Tensor:
        return self.linear(u)


class Silent(torch.nn.Module):
    hidden_size = HIDDEN

    def forward(self, u: Tensor, state: Tensor) -> None:
        return None


class Noisy(torch.nn.Module):
    hidden_size = HIDDEN

    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.GRUCell(INPUTS, HIDDEN, dtype=torch.float64)

    def forward(self, u: Tensor, state: Tensor) -> Tensor:
        return torch.nn.functional.dropout(self.cell(u, state), 0.5)


class Nameless(torch.nn.Module):
    def forward(self, u: Tensor, state: Tensor) -> Tensor:
        return state + u


WRONG: dict[str, tuple[torch.nn.Module, type[Exception], str]] = {
    "in place": (InPlace(), RuntimeError, "cell must not change its input or its state in place"),
    "shape": (
        Wider(),
        ValueError,
        r"cell must return a state of the shapes it was given, \[\(3, 5\)\], not \[\(3, 10\)\]",
    ),
    "no dependence": (Forgetful(), ValueError, "cell must compute its next state from the state before it"),
    "nothing": (Silent(), TypeError, "cell must return the next state, a tensor or a tuple of tensors, not a NoneType"),
    "no size": (Nameless(), ValueError, r"state must be given: Nameless has neither hidden_size nor initial_state"),
}


@pytest.mark.parametrize(("cell", "kind", "text"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_cell_is_refused_in_a_sentence(cell: torch.nn.Module, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        sg.Recurrent(cell)(sequence())


def test_a_cell_with_noise_is_refused_where_omega_needs_it_again() -> None:
    layer = sg.Recurrent(Noisy(), alpha=1.0)
    output, _ = layer(sequence())
    with pytest.raises(RuntimeError, match="the cell must give the same state when it is run again"):
        output.sum().backward()
    layer.alpha = 0.0  # without Ω it may have noise
    layer(sequence())[0].sum().backward()
    assert len(layer.flow) == 1


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TypeError, match="cell must compute one step; GRU is a layer"):
        sg.Recurrent(torch.nn.GRU(3, 5))
    with pytest.raises(ValueError, match=r"recurrent must be one of .*, not 'weight_h' .did you mean"):
        sg.Recurrent(torch.nn.GRUCell(3, 5), recurrent=["weight_h"])
    with pytest.raises(ValueError, match=r"input must be \[T, B, …\]"):
        sg.Recurrent(torch.nn.GRUCell(3, 5))(torch.ones(0, 2, 3))


def test_second_derivatives_equal_those_of_a_loop() -> None:
    over_time, _ = pair("GRU")
    x = sequence().requires_grad_()
    (gradient,) = torch.autograd.grad(over_time(x)[0].square().sum(), x, create_graph=True)
    found = torch.autograd.grad(gradient.square().sum(), list(over_time.parameters()))
    reference = torch.nn.GRU(INPUTS, HIDDEN, dtype=torch.float64)
    reference.load_state_dict({f"{name}_l0": value for name, value in over_time.cell.state_dict().items()})
    (gradient,) = torch.autograd.grad(reference(x)[0].square().sum(), x, create_graph=True)
    for a, b in zip(found, torch.autograd.grad(gradient.square().sum(), list(reference.parameters())), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)

"""An initial state that is learned."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import steadygrad as sg


def test_starts_at_zero_with_one_row_per_layer_and_direction() -> None:
    state = sg.LearnedState(sg.RNN(3, 5, num_layers=2, bidirectional=True))
    assert torch.equal(state.h0, torch.zeros(4, 5))
    assert dict(state.named_parameters()).keys() == {"h0"}


def test_gradient_is_the_sum_over_the_batch(backend: str) -> None:
    torch.manual_seed(0)
    rnn = sg.RNN(3, 5, num_layers=2, backend=backend, dtype=torch.float64)
    learned, x = sg.LearnedState(rnn), torch.randn(6, 4, 3, dtype=torch.float64)
    rnn(x, learned(4))[0].square().sum().backward()
    given = torch.zeros(2, 4, 5, dtype=torch.float64, requires_grad=True)
    rnn(x, given)[0].square().sum().backward()
    assert learned.h0.grad is not None
    assert given.grad is not None
    torch.testing.assert_close(learned.h0.grad, given.grad.sum(1), rtol=1e-13, atol=1e-14)


def test_unbatched_input_takes_the_state_without_a_batch() -> None:
    rnn = sg.RNN(3, 5)
    state = sg.LearnedState(rnn)
    with torch.no_grad():
        state.h0.fill_(0.5)
    x = torch.randn(6, 3)
    torch.testing.assert_close(rnn(x, state())[0], rnn(x.unsqueeze(1), state(1))[0].squeeze(1))


def test_training_moves_it_towards_a_better_start() -> None:
    torch.manual_seed(0)
    rnn = sg.RNN(1, 4)
    state = sg.LearnedState(rnn)
    target, x = torch.full((3, 2, 4), 0.5), torch.zeros(3, 2, 1)
    optimizer = torch.optim.SGD(state.parameters(), lr=0.5)
    losses: list[float] = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (rnn(x, state(2))[0] - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert state.h0.abs().max() > 0


def test_takes_device_and_dtype_from_the_layer_unless_told() -> None:
    assert sg.LearnedState(sg.RNN(3, 5, dtype=torch.float64)).h0.dtype == torch.float64
    assert sg.LearnedState(sg.RNN(3, 5, device="meta")).h0.device.type == "meta"
    assert sg.LearnedState(sg.RNN(3, 5), dtype=torch.bfloat16, device="meta").h0.dtype == torch.bfloat16
    assert sg.LearnedState(torch.nn.RNN(3, 5, num_layers=2)).h0.shape == (2, 5)


def test_other_modules_and_negative_batches_are_refused() -> None:
    with pytest.raises(TypeError, match="rnn must be a recurrent layer with a weight_hh_l0, not Linear"):
        sg.LearnedState(torch.nn.Linear(3, 5))
    with pytest.raises(ValueError, match="batch must be a whole number of at least 0, not -1"):
        sg.LearnedState(sg.RNN(3, 5))(-1)
    cell = torch.nn.Module()
    cell.weight_hh_l0 = torch.nn.Parameter(torch.zeros(15, 5))
    with pytest.raises(TypeError, match=r"rnn must be a torch.nn.RNNBase, or have a square weight_hh_l0: .* is 15x5"):
        sg.LearnedState(cell)


@pytest.mark.parametrize("library", [torch.nn, sg], ids=["torch", "steadygrad"])
@pytest.mark.parametrize("batch", [0, 4, None])
def test_gated_layers_get_states_of_their_own_width(library: Any, batch: int | None) -> None:
    x = torch.randn(6, 3) if batch is None else torch.randn(6, batch, 3)
    gru, lstm = (kind(3, 5, num_layers=2, bidirectional=True) for kind in (library.GRU, library.LSTM))
    state = sg.LearnedState(gru)
    assert state.h0.shape == (4, 5)
    gru(x, state(batch))[0].square().sum().backward()
    both = sg.LearnedState(lstm)
    assert dict(both.named_parameters()).keys() == {"h0", "c0"}
    lstm(x, both(batch))[0].square().sum().backward()
    if batch != 0:
        assert all(parameter.grad.abs().max() > 0 for parameter in (*state.parameters(), *both.parameters()))


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")
def test_an_lstm_with_projections_has_states_of_two_widths() -> None:
    lstm = torch.nn.LSTM(3, 6, proj_size=2)
    state = sg.LearnedState(lstm)
    assert (state.h0.shape, state.c0.shape) == ((1, 2), (1, 6))
    lstm(torch.randn(4, 2, 3), state(2))


def test_layers_are_counted_after_a_parametrization() -> None:
    rnn = sg.RNN(3, 5, num_layers=2)
    torch.nn.utils.parametrizations.orthogonal(rnn, "weight_hh_l0")
    assert sg.LearnedState(rnn).h0.shape == (2, 5)

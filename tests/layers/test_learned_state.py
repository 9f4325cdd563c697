"""An initial state that is learned."""

from __future__ import annotations

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


def test_other_modules_and_empty_batches_are_refused() -> None:
    with pytest.raises(TypeError, match="rnn must be a recurrent layer with a weight_hh_l0, not Linear"):
        sg.LearnedState(torch.nn.Linear(3, 5))
    with pytest.raises(ValueError, match="batch must be a whole number of at least 1, not 0"):
        sg.LearnedState(sg.RNN(3, 5))(0)

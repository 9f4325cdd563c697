"""What can't be analysed of gated layers and cells is refused in one sentence."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from analysed_networks import D, H, Minimal, OverTime
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence

from steadygrad.analysis import conditions, fixed_points, jacobian_norms, lyapunov_spectrum, temporal_components

U = torch.zeros(6, 2, D)
GRU, LSTM = nn.GRU(D, H), nn.LSTM(D, H)
OWN = OverTime(Minimal())
PACKED: Any = pack_sequence([U[:, 0]])
NONE: Any = None


class Bare(nn.Module):
    """Says nothing of its state and its input."""

    def forward(self, input: Tensor, state: Tensor) -> Tensor:
        return state


class Growing(Minimal):
    def forward(self, input: Tensor, state: Tensor) -> Tensor:
        return torch.cat([state, state], -1)


class Dictionary(Minimal):
    def forward(self, input: Tensor, state: Tensor) -> Any:
        return {"h": state}


class Noisy(Minimal):
    def forward(self, input: Tensor, state: Tensor) -> Tensor:
        return super().forward(input, state + torch.randn_like(state))


class Mixing(Minimal):
    def forward(self, input: Tensor, state: Tensor) -> Tensor:
        return super().forward(input, state) - state.mean(0)


class Broken(Minimal):
    def __init__(self) -> None:
        super().__init__()
        nn.init.constant_(self.new.bias, float("nan"))


def odd_weights() -> nn.Module:
    rnn = nn.GRU(D, H)
    rnn.weight_hh_l0 = nn.Parameter(torch.zeros(2 * H, H))
    return rnn


REFUSED = {
    "layer too high": (
        lambda: jacobian_norms(GRU, U, layer=1),
        ValueError,
        "layer must be below num_layers = 1, not 1",
    ),
    "layer of a cell": (
        lambda: lyapunov_spectrum(nn.LSTMCell(D, H), U, layer=1),
        ValueError,
        "layer must be below num_layers = 1, not 1",
    ),
    "layer of a wrapper": (lambda: fixed_points(OWN, layer=2), ValueError, "layer must be below num_layers = 1, not 2"),
    "bidirectional": (
        lambda: lyapunov_spectrum(nn.GRU(D, H, bidirectional=True), U),
        ValueError,
        "rnn must run in one direction",
    ),
    "projections": (
        lambda: jacobian_norms(nn.LSTM(D, H, proj_size=2), U),
        ValueError,
        "rnn must have proj_size = 0, not 2",
    ),
    "packed": (lambda: jacobian_norms(LSTM, PACKED), TypeError, "inputs must be a torch.Tensor, not PackedSequence"),
    "packed, own cell": (lambda: jacobian_norms(OWN, PACKED), TypeError, "inputs must be a torch.Tensor, not Packed"),
    "a cell of one's own alone": (
        lambda: jacobian_norms(Minimal(), U),
        TypeError,
        "steadygrad.Recurrent around a cell",
    ),
    "state x of a GRU": (lambda: jacobian_norms(GRU, U, state="x"), ValueError, "state must be 'h' or None for a GRU"),
    "state h of an LSTM": (
        lambda: jacobian_norms(LSTM, U, state="h"),
        ValueError,
        "state must be 'hc' or None for an LSTM, not 'h'",
    ),
    "h0 of an LSTM as one tensor": (
        lambda: jacobian_norms(LSTM, U, torch.zeros(1, 2, H)),
        TypeError,
        "h0 must be a pair of tensors (h0, c0) or None for an LSTM, not Tensor",
    ),
    "three states": (
        lambda: jacobian_norms(LSTM, U, (torch.zeros(1, H),) * 3),
        TypeError,
        "h0 must be a pair of tensors (h0, c0) or None for an LSTM, not 3 of them",
    ),
    "c0 of the wrong shape": (
        lambda: jacobian_norms(LSTM, U, (torch.zeros(1, H), torch.zeros(1, 2, 5))),
        ValueError,
        "c0 must be [num_layers, B, H] = [1, 2, 4] or [1, 4], not [1, 2, 5]",
    ),
    "c0 of NaN": (
        lambda: jacobian_norms(LSTM, U, (torch.zeros(1, H), torch.full((1, H), torch.nan))),
        ValueError,
        "c0 must be finite, but 8 of its entries",
    ),
    "h0 of a cell": (
        lambda: jacobian_norms(nn.GRUCell(D, H), U, torch.zeros(1, 2, H)),
        ValueError,
        "h0 must be [B, H] = [2, 4] or [4], not [1, 2, 4]",
    ),
    "error of an LSTM": (
        lambda: jacobian_norms(LSTM, U, error=torch.ones(5)),
        ValueError,
        "error must be [4] or [2, 4] or [8] or [2, 8], not [5]",
    ),
    "samples of an LSTM": (
        lambda: fixed_points(LSTM, h_samples=torch.zeros(3, H)),
        ValueError,
        "h_samples must be [N, 2H] with 2H = 8, not [3, 4]",
    ),
    "odd weights": (
        lambda: jacobian_norms(odd_weights(), U),
        ValueError,
        "weight_hh_l0 must be [3 H, H], not of shape [8, 4]",
    ),
    "unknown parameter": (
        lambda: temporal_components(GRU, U, torch.sum).share(1, "bias"),
        ValueError,
        "parameter must be one of 'weight_hh', 'weight_ih', 'bias_ih', 'bias_hh', not 'bias'",
    ),
    "no state": (
        lambda: jacobian_norms(OverTime(Bare()), U),
        ValueError,
        "rnn's cell Bare must have a hidden_size or an initial_state(batch) where no h0 is given",
    ),
    "no input size": (
        lambda: fixed_points(OverTime(type("Sized", (Bare,), {"hidden_size": 2})())),
        ValueError,
        "input must be given: Sized has no input_size",
    ),
    "h0 of another batch": (
        lambda: jacobian_norms(OWN, U, torch.zeros(3, H)),
        ValueError,
        "h0 must be made of floats of shape [B, …] with B = 2, not float32 of shape [3, 4]",
    ),
    "h0 of whole numbers": (
        lambda: jacobian_norms(OWN, U, torch.zeros(2, H, dtype=torch.long)),
        ValueError,
        "h0 must be made of floats of shape [B, …] with B = 2, not int64",
    ),
    "h0 of nothing": (lambda: jacobian_norms(OWN, U, ()), TypeError, "h0 must be a state as Minimal takes it"),
    "NaN in h0 of an own cell": (
        lambda: jacobian_norms(OWN, U, torch.full((2, H), torch.nan)),
        ValueError,
        "h0 must be finite, but 8 of its entries",
    ),
    "flat inputs": (
        lambda: jacobian_norms(OWN, torch.zeros(6)),
        ValueError,
        "inputs must be [T, B, …] with at least one",
    ),
    "no inputs": (lambda: jacobian_norms(OWN, U[:0]), ValueError, "inputs must be [T, B, …] with at least one step"),
    "input of NaN": (lambda: fixed_points(OWN, U[0, 0] / 0), ValueError, "input must be finite"),
    "a state that changes its shape": (
        lambda: jacobian_norms(OverTime(Growing()), U),
        ValueError,
        "rnn's cell Growing must return a state of the shapes it was given",
    ),
    "a state that is no tensor": (
        lambda: lyapunov_spectrum(OverTime(Dictionary()), U),
        TypeError,
        "rnn's cell Dictionary must return a tensor or a tuple of tensors, not dict",
    ),
    "noise": (
        lambda: lyapunov_spectrum(OverTime(Noisy()), U),
        ValueError,
        "rnn's cell Noisy must give a sequence the same",
    ),
    "noise at a fixed point": (lambda: fixed_points(OverTime(Noisy())), ValueError, "rnn's cell Noisy must give"),
    "mixing": (
        lambda: jacobian_norms(OverTime(Mixing()), U),
        ValueError,
        "rnn's cell Mixing must give a sequence the same",
    ),
    "NaN in a cell": (lambda: jacobian_norms(OverTime(Broken()), U), ValueError, "rnn must have finite parameters"),
    "conditions of an own cell": (
        lambda: conditions(OWN),
        TypeError,
        "of Minimal its weights alone say nothing: use jacobian_norms or lyapunov_spectrum",
    ),
    "conditions of a GRU's matrix": (
        lambda: conditions(GRU.weight_hh_l0, "tanh"),
        ValueError,
        "weight_hh must be a square matrix [H, H], not of shape [12, 4]; of a GRU or LSTM, give the layer itself",
    ),
    "conditions of a layer and a nonlinearity": (
        lambda: conditions(NONE or GRU, *("tanh",)),
        ValueError,
        "nonlinearity and leak must be left out for a layer",
    ),
    "conditions of a matrix alone": (
        lambda: conditions(*(torch.eye(2),)),
        ValueError,
        "nonlinearity must be given with a weight matrix",
    ),
    "input bound below zero": (
        lambda: conditions(GRU, input_bound=-1.0),
        ValueError,
        "input_bound must be a finite number of at least 0, not -1.0",
    ),
    "input bound of a plain layer": (
        lambda: conditions(nn.RNN(D, H), input_bound=1.0),
        ValueError,
        "input_bound must be left out for plain units",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_one_sentence(name: str):
    call, kind, sentence = REFUSED[name]
    with pytest.raises(kind, match=re.escape(sentence)) as refusal:
        call()
    assert "\n" not in str(refusal.value)


def test_an_own_cell_whose_states_overflow_is_named_with_its_step():
    class Doubling(Minimal):
        def forward(self, input: Tensor, state: Tensor) -> Tensor:
            return (state + 1) * 1e100

    with pytest.raises(ValueError, match="the states of layer 0 must stay finite, but they overflow at step 4"):
        jacobian_norms(OverTime(Doubling()), U)


def test_a_cell_that_works_in_place_on_its_state_changes_nothing_but_its_own_copy():
    class InPlace(Minimal):
        def forward(self, input: Tensor, state: Tensor) -> Tensor:
            state *= 0.5
            return super().forward(input, state)

    class Outside(Minimal):
        def forward(self, input: Tensor, state: Tensor) -> Tensor:
            return super().forward(input, 0.5 * state)

    torch.manual_seed(0)
    inside, outside = InPlace(), Outside()
    outside.load_state_dict(inside.state_dict())
    u, h0 = torch.randn(6, 2, D), torch.randn(2, H)
    kept = h0.clone()
    found, expected = (lyapunov_spectrum(OverTime(cell), u, h0).exponents for cell in (inside, outside))
    assert torch.equal(h0, kept)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    found, expected = (temporal_components(OverTime(cell), u, torch.sum, h0=h0).sum for cell in (inside, outside))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)

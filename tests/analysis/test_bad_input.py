"""What can't be analysed is refused in one sentence that names the argument, what is allowed and what came."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from steadygrad.analysis import (
    conditions,
    counterexample,
    fixed_points,
    jacobian_norms,
    linear_growth,
    lyapunov_from_jacobians,
    lyapunov_spectrum,
    temporal_components,
)

RNN = nn.RNN(3, 4)
U = torch.zeros(6, 2, 3)
X0 = torch.tensor([0.5])
LISTED: Any = [0.0]
NUMBER: Any = 1.0
PACKED: Any = pack_sequence([U[:, 0]])


def broken(name: str, value: object) -> nn.RNN:
    rnn: Any = nn.RNN(3, 4)
    with torch.no_grad():
        if name == "weight_hh_l0":
            rnn.weight_hh_l0[0, 1] = float("nan")
        else:
            setattr(rnn, name, value)
    return rnn


REFUSED = {
    "flat weights": (
        lambda: conditions(torch.zeros(3), "tanh"),
        "weight_hh must be a square matrix [H, H], not of shape [3]",
    ),
    "oblong weights": (lambda: conditions(torch.zeros(3, 4), "tanh"), "weight_hh must be a square matrix [H, H]"),
    "NaN weights": (
        lambda: conditions(torch.tensor([[float("nan")]]), "tanh"),
        "weight_hh must be finite, but 1 of its entries",
    ),
    "unknown nonlinearity": (lambda: conditions(torch.eye(2), "tahn"), "nonlinearity must be one of"),
    "leak of 1": (lambda: conditions(torch.eye(2), "tanh", leak=1.0), "leak must be a number in [0, 1), not 1.0"),
    "no steps": (lambda: counterexample(0), "steps must be a whole number of at least 1, not 0"),
    "bidirectional": (lambda: jacobian_norms(nn.RNN(3, 4, bidirectional=True), U), "rnn must run in one direction"),
    "layer too high": (lambda: jacobian_norms(RNN, U, layer=1), "layer must be below num_layers = 1, not 1"),
    "layer negative": (lambda: jacobian_norms(RNN, U, layer=-1), "layer must be a whole number of at least 0, not -1"),
    "NaN in the model": (lambda: jacobian_norms(broken("weight_hh_l0", None), U), "weight_hh_l0 must be finite"),
    "odd nonlinearity": (lambda: jacobian_norms(broken("nonlinearity", "gelu"), U), "nonlinearity must be one of"),
    "odd leak": (lambda: jacobian_norms(broken("leak", 2.0), U), "leak must be a number in [0, 1), not 2.0"),
    "inputs of the wrong size": (
        lambda: jacobian_norms(RNN, torch.zeros(6, 2, 5)),
        "inputs must be [T, B, 3] or [T, 3]",
    ),
    "four-dimensional inputs": (
        lambda: jacobian_norms(RNN, torch.zeros(6, 2, 1, 3)),
        "not float32 of shape [6, 2, 1, 3]",
    ),
    "complex inputs": (lambda: jacobian_norms(RNN, U.to(torch.complex64)), "inputs must be [T, B, 3]"),
    "boolean inputs": (lambda: jacobian_norms(RNN, U.bool()), "not bool of shape [6, 2, 3]"),
    "no inputs": (lambda: jacobian_norms(RNN, torch.zeros(0, 2, 3)), "inputs must hold at least one step"),
    "NaN inputs": (
        lambda: jacobian_norms(RNN, U / 0),
        "inputs must be finite, but 36 of its entries are infinite or NaN",
    ),
    "tokens out of range": (
        lambda: jacobian_norms(RNN, torch.tensor([[0], [3]])),
        "inputs must hold tokens from 0 to 2, not 0 to 3",
    ),
    "h0 of the wrong shape": (
        lambda: jacobian_norms(RNN, U, torch.zeros(1, 3, 4)),
        "h0 must be [num_layers, B, H] = [1, 2, 4]",
    ),
    "NaN h0": (lambda: jacobian_norms(RNN, U, torch.full((1, 4), float("nan"))), "h0 must be finite"),
    "lag too long": (
        lambda: jacobian_norms(RNN, U, max_lag=6),
        "max_lag must be at most 5 (6 steps, state 'x'), not 6",
    ),
    "lag too long in h": (lambda: jacobian_norms(RNN, U, max_lag=7, state="h"), "max_lag must be at most 6"),
    "unknown state": (lambda: jacobian_norms(RNN, U, state="y"), "state must be one of 'x', 'h', not 'y'"),
    "x of leaky units": (
        lambda: jacobian_norms(broken("leak", 0.5), U, state="x"),
        "state must be 'h' for leaky units",
    ),
    "sample too high": (lambda: jacobian_norms(RNN, U, sample=2), "sample must be below the batch size 2, not 2"),
    "error of the wrong shape": (
        lambda: jacobian_norms(RNN, U, error=torch.ones(3)),
        "error must be [4] or [2, 4], not [3]",
    ),
    "error of another batch": (
        lambda: jacobian_norms(RNN, U, error=torch.ones(3, 4)),
        "error must be [4] or [2, 4], not [3, 4]",
    ),
    "error of zeros": (
        lambda: jacobian_norms(RNN, U, error=torch.zeros(4)),
        "error must have an entry that is not zero",
    ),
    "error of NaN": (
        lambda: jacobian_norms(RNN, U, error=torch.ones(4) / 0),
        "error must be finite, but 4 of its entries",
    ),
    "t of zero": (lambda: temporal_components(RNN, U, torch.sum, t=0), "t must be a whole number of at least 1, not 0"),
    "t too late": (lambda: temporal_components(RNN, U, torch.sum, t=7), "t must be a step from 1 to 6, not 7"),
    "vector loss": (
        lambda: temporal_components(RNN, U, lambda h: h),
        "loss must return a tensor with one element, not shape [2, 4]",
    ),
    "loss that is no tensor": (
        lambda: temporal_components(RNN, U, lambda h: NUMBER),
        "loss must return a tensor with one element, not float",
    ),
    "loss of nothing": (
        lambda: temporal_components(RNN, U, lambda h: torch.ones(())),
        "loss must depend on the state h_t",
    ),
    "steep loss": (
        lambda: temporal_components(RNN, U, lambda h: (h * 0).sqrt().sum()),
        "loss must have a finite gradient",
    ),
    "long_term of zero": (lambda: temporal_components(RNN, U, torch.sum).share(0), "long_term must be a whole number"),
    "unknown parameter": (lambda: temporal_components(RNN, U, torch.sum).share(1, "W"), "parameter must be one of"),
    "growth error": (lambda: linear_growth(torch.eye(2), torch.ones(3)), "error must be [H] = [2], not [3]"),
    "NaN growth error": (lambda: linear_growth(torch.eye(2), torch.ones(2) / 0), "error must be finite"),
    "growth tolerance": (
        lambda: linear_growth(torch.eye(2), torch.ones(2), tolerance=0.0),
        "tolerance must be a number in (0, 1)",
    ),
    "negative lag": (
        lambda: linear_growth(torch.eye(2), torch.ones(2)).predict(-1),
        "lag must be a whole number of at least 0",
    ),
    "burn-in too long": (
        lambda: lyapunov_spectrum(RNN, U, burn_in=6),
        "burn_in must be below the number of steps 6, not 6",
    ),
    "scalar x0": (
        lambda: lyapunov_from_jacobians(torch.diag, torch.tensor(1.0), torch.sin, 3),
        "x0 must be a finite vector [n]",
    ),
    "odd jacobian": (
        lambda: lyapunov_from_jacobians(lambda x: x, X0, torch.sin, 3),
        "jacobian must return [1, 1], not [1]",
    ),
    "diverging map": (
        lambda: lyapunov_from_jacobians(torch.diag, X0, lambda x: x / 0, 3),
        "step must return finite [1], but at step 1",
    ),
    "input of the wrong size": (lambda: fixed_points(RNN, torch.zeros(4)), "input must be a finite vector [3]"),
    "input of NaN": (lambda: fixed_points(RNN, torch.zeros(3) / 0), "input must be a finite vector [3]"),
    "token too high": (
        lambda: fixed_points(RNN, 3),
        "input must be a vector of floats [3] or a token from 0 to 2, not 3",
    ),
    "negative starts": (lambda: fixed_points(RNN, starts=-1), "starts must be a whole number of at least 0, not -1"),
    "h_samples": (
        lambda: fixed_points(RNN, h_samples=torch.zeros(2, 5)),
        "h_samples must be [N, H] with H = 4, not [2, 5]",
    ),
    "h_samples of NaN": (
        lambda: fixed_points(RNN, h_samples=torch.zeros(2, 4) / 0),
        "h_samples must be finite, but 8 of its entries are infinite or NaN",
    ),
    "tolerance": (lambda: fixed_points(RNN, tolerance=0.0), "tolerance must be a finite number above 0, not 0.0"),
}

MISTYPED = {
    "no tensor": (lambda: conditions(LISTED, "tanh"), "weight_hh must be a torch.Tensor, not list"),
    "a linear layer": (
        lambda: fixed_points(nn.Linear(3, 4)),
        "rnn must be a torch.nn.RNN or a steadygrad.RNN, not Linear",
    ),
    "packed inputs": (
        lambda: jacobian_norms(RNN, PACKED),
        "inputs must be a torch.Tensor, not PackedSequence",
    ),
    "listed inputs": (lambda: lyapunov_spectrum(RNN, LISTED), "inputs must be a torch.Tensor, not list"),
    "listed h0": (lambda: jacobian_norms(RNN, U, LISTED), "h0 must be a torch.Tensor or None, not list"),
    "listed error": (lambda: jacobian_norms(RNN, U, error=LISTED), "error must be a torch.Tensor or None, not list"),
    "listed growth error": (lambda: linear_growth(torch.eye(1), LISTED), "error must be a torch.Tensor, not list"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_value_is_refused_in_one_sentence(name: str):
    call, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=re.escape(sentence)) as refusal:
        call()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", MISTYPED)
def test_a_bad_type_is_refused_in_one_sentence(name: str):
    call, sentence = MISTYPED[name]
    with pytest.raises(TypeError, match=re.escape(sentence)):
        call()


def test_states_that_overflow_are_named_with_their_step():
    rnn = nn.RNN(1, 1, nonlinearity="relu", bias=False, dtype=torch.float64)
    for parameter in rnn.parameters():
        nn.init.constant_(parameter, 1e100)
    with pytest.raises(ValueError, match=r"the states of layer 0 must stay finite, but they overflow at step 4"):
        jacobian_norms(rnn, torch.ones(9, 1, 1))

"""The picture of what a penalty does to memory: its numbers are derivatives, and a strong penalty makes them die out."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import steadygrad as sg
from steadygrad.baselines import forgetting


def test_norms_are_those_of_autograds_jacobian() -> None:
    torch.manual_seed(0)
    rnn = sg.RNN(3, 5).double()
    inputs = torch.randn(8, 2, 3, dtype=torch.float64)
    found = forgetting.jacobian_growth(rnn, inputs)
    assert found.shape == (9, 2)
    assert (found[0] == 0).all()
    for t in range(1, 9):
        for b in range(2):

            def state(h0: torch.Tensor, t: int = t, b: int = b) -> torch.Tensor:
                return rnn(inputs[:t, b : b + 1], h0.view(1, 1, 5))[0][-1, 0]

            jacobian = torch.autograd.functional.jacobian(state, torch.zeros(5, dtype=torch.float64))
            assert isinstance(jacobian, torch.Tensor)
            assert found[t, b].item() == pytest.approx(torch.linalg.matrix_norm(jacobian, 2).log().item(), abs=1e-9)


def test_norms_far_below_the_range_of_floats_are_right() -> None:
    rnn = sg.init.identity_(sg.RNN(1, 4), 1e-3).double()
    with torch.no_grad():
        for name, parameter in rnn.named_parameters():
            if "weight_hh" not in name:
                parameter.zero_()  # the state stays at 0, where the slope is 1: the product is 0.001^t
    found = forgetting.jacobian_growth(rnn, torch.zeros(500, 1, 1, dtype=torch.float64))
    W = rnn.get_parameter("weight_hh_l0")[0, 0].item()
    assert found[-1, 0].item() == pytest.approx(500 * math.log(W), rel=1e-9)
    with torch.no_grad():
        rnn.get_parameter("weight_hh_l0").zero_()
    assert forgetting.jacobian_growth(rnn, torch.zeros(3, 1, 1, dtype=torch.float64))[-1].item() == -math.inf


def test_a_strong_penalty_keeps_the_radius_below_one_and_memory_dies_out_exponentially() -> None:
    measured = forgetting.forgetting("l2", (0.0, 0.1), length=4, steps=60, updates=200, hidden_size=12, seed=1)
    free, held = measured.networks
    assert free.radius > 1
    assert held.radius < 1
    assert free.right > 0.95
    assert held.right < 0.5
    for network in measured.networks:
        # eq. 6: no step transports more than σ_max
        assert all(value <= t * math.log(network.largest) + 1e-9 for t, value in enumerate(network.log_norms))
    rates = [held.log_norms[t + 20] - held.log_norms[t] for t in (10, 20, 30, 40)]
    assert max(rates) < 20 * math.log(0.9)  # it falls,
    assert max(rates) - min(rates) < 0.05 * abs(min(rates))  # and at one rate: exponentially
    assert free.log_norms[60] > held.log_norms[60] + 20


def test_the_command_writes_the_picture_and_its_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(forgetting, "STRENGTHS", {"l1": (0.0, 0.1), "l2": (0.0, 0.1)})
    forgetting.main([str(tmp_path / "picture.png"), "--updates", "3"])
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    written: list[dict[str, Any]] = json.loads((tmp_path / "picture.json").read_text())
    assert [each["kind"] for each in written] == ["l1", "l2"]
    assert [network["strength"] for network in written[1]["networks"]] == [0.0, 0.1]
    assert len(written[0]["networks"][0]["log_norms"]) == 61


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: forgetting.forgetting("l3"), "kind must be one of 'l1', 'l2', not 'l3'"),
        (lambda: forgetting.forgetting(strengths=()), "strengths must hold one at least, not be empty"),
        (lambda: forgetting.forgetting(updates=0), "updates must be a whole number of at least 1, not 0"),
        (
            lambda: forgetting.jacobian_growth(sg.RNN(1, 2, leak=0.5), torch.zeros(2, 1, 1)),
            "rnn must be one plain tanh layer in one direction, without leak",
        ),
    ],
)
def test_bad_argument_is_named(call: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()

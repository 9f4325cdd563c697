"""What happens where a gradient is not finite: skip, raise, shrink, and the names at fault."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from clip_cases import (
    explode,
    frozen,
    recurrent_model,
)

from steadygrad.clip import NormClipper, grad_norm

INF, NAN = math.inf, math.nan


def test_raise_names_the_parameter_and_changes_nothing() -> None:
    model = recurrent_model()
    optimizer = torch.optim.Adam(model.parameters())
    clipper = NormClipper(optimizer, 1.0, nonfinite="raise", named_parameters=model.named_parameters())
    explode(model, "rnn.weight_hh_l0", INF)
    before = frozen(list(model.parameters()), optimizer)
    with pytest.raises(FloatingPointError, match=r"norm is inf because of rnn\.weight_hh_l0; no update was made"):
        optimizer.step()
    assert frozen(list(model.parameters()), optimizer) == before
    assert clipper.stats.last_skipped == ("rnn.weight_hh_l0",)


def test_names_come_from_the_optimizer_where_it_has_them() -> None:
    model = recurrent_model()
    optimizer = torch.optim.SGD(model.named_parameters(), lr=1.0)
    clipper = NormClipper(optimizer, 1.0)
    explode(model, "readout.bias", NAN)
    optimizer.step()
    assert clipper.stats.last_skipped == ("readout.bias",)


def test_names_without_any_say_group_and_shape() -> None:
    model = recurrent_model()
    groups = [{"params": list(model["rnn"].parameters())}, {"params": list(model["readout"].parameters())}]
    optimizer = torch.optim.SGD(groups, lr=1.0)
    clipper = NormClipper(optimizer, 1.0)
    explode(model, "rnn.weight_hh_l0", NAN)
    model["readout"].weight.grad[0, 0] = INF
    optimizer.step()
    assert clipper.stats.last_skipped == (
        "parameter 1 of group 0 (shape 4x4)",
        "parameter 0 of group 1 (shape 1x4)",
    )


@pytest.mark.parametrize("value", [INF, NAN, 1.1e10])
@pytest.mark.parametrize("by_name", [True, False])
def test_shrink_takes_two_percent_of_the_recurrent_matrix_and_nothing_else(value: float, by_name: bool) -> None:
    model = recurrent_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    W = model["rnn"].weight_hh_l0
    known: dict[str, Any] = {"named_parameters": model.named_parameters()} if by_name else {"recurrent": [W]}
    clipper = NormClipper(optimizer, threshold=1e20, nonfinite="shrink", **known)
    explode(model, "readout.weight", value)
    before = copy.deepcopy(model.state_dict())
    optimizer.step()
    for name, parameter in model.named_parameters():
        # W ← W − 0.5 · 0.02 W = 0.99 W; float64 rounding alone
        expected = 0.99 * before[name] if parameter is W else before[name]
        torch.testing.assert_close(parameter.data, expected, rtol=1e-14, atol=0)
    stats = clipper.stats
    assert (stats.steps, stats.shrunk, stats.skipped) == (1, 1, 0)
    assert stats.norm_after == pytest.approx(0.02 * before["rnn.weight_hh_l0"].norm().item(), rel=1e-12)


def test_shrink_leaves_ordinary_gradients_to_the_clipping() -> None:
    model = recurrent_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    clipper = NormClipper(optimizer, 2.0, nonfinite="shrink", named_parameters=model.named_parameters())
    explode(model, "readout.weight", 0.9e10)
    optimizer.step()
    assert clipper.stats.clipped == 1
    assert clipper.stats.shrunk == 0
    assert grad_norm(model.parameters()).item() == pytest.approx(2.0, rel=1e-12)

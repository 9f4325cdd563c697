"""The short way of the commonest training pass (recurrence/direct.py) gives the very numbers of the general way."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import steadygrad as sg
from steadygrad.layers import quick
from steadygrad.recurrence import direct, native

pytestmark = pytest.mark.skipif(not native.is_built(), reason="needs the C++ kernel")


def passed(monkeypatch: pytest.MonkeyPatch, short: bool, options: dict[str, Any], **how: Any) -> list[Any]:
    """Outputs, gradients and what was recorded of one training pass; by the short way or the general one."""
    taken: list[bool] = []
    with monkeypatch.context() as patch:
        usual = direct.run

        def watched(*arguments: Any) -> Any:
            found = usual(*arguments)
            taken.append(found is not None)
            return found

        patch.setattr(direct, "run", watched)
        if not short:
            patch.setattr(quick, "_train", lambda *given: None)
        torch.manual_seed(0)
        layer = sg.RNN(3, 21, **options)
        for name in how.get("frozen", ()):
            getattr(layer, name).requires_grad_(False)
        inputs = torch.randn(7, 5, 3, dtype=options.get("dtype")).requires_grad_(how.get("wants_input", False))
        if options.get("batch_first"):
            inputs = inputs.detach().transpose(0, 1).contiguous().requires_grad_(how.get("wants_input", False))
        if how.get("tokens"):
            inputs = torch.randint(0, 3, inputs.shape[:2])
        state = torch.randn(1, 5, 21, dtype=options.get("dtype"), requires_grad=True) if how.get("state") else None
        output, last = layer(inputs, state)
        loss = output.square().sum() if how.get("loss") != "last" else last.sum()  # a sum's gradient has no memory
        if how.get("twice"):
            loss.backward(retain_graph=True)
        loss.backward()
        found: list[Any] = [output, last, inputs.grad, None if state is None else state.grad]
        found += [parameter.grad for parameter in layer.parameters()]
        found += [layer.flow[0].measured]
    assert all(taken)
    assert len(taken) == short
    return found


@pytest.mark.parametrize(
    ("options", "how"),
    [
        ({}, {}),
        ({"alpha": 2.0}, {"loss": "last"}),
        ({"alpha": 2.0, "omega": "program", "dtype": torch.float64}, {"state": True, "wants_input": True}),
        ({"alpha": 1.0, "leak": 0.3, "nonlinearity": "sigmoid"}, {"state": True}),
        ({"clip_error": 0.01, "bias": False, "nonlinearity": "relu"}, {"loss": "last"}),
        ({"batch_first": True, "alpha": 1.0}, {"wants_input": True, "state": True}),
        ({"alpha": 1.0, "backend": "native"}, {"frozen": ("weight_ih_l0", "bias_hh_l0")}),
        ({"alpha": 1.0}, {"twice": True}),
        ({"alpha": 1.0}, {"tokens": True, "state": True}),
        ({"batch_first": True, "leak": 0.2}, {"tokens": True, "loss": "last"}),
    ],
)
def test_the_short_way_gives_the_same_bits(
    options: dict[str, Any], how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    short, general = (passed(monkeypatch, each, options, **how) for each in (True, False))
    for ours, right in zip(short, general, strict=True):
        assert (ours is None) == (right is None)
        assert ours is None or torch.equal(ours, right)


def test_an_output_changed_in_place_is_computed_again() -> None:
    torch.manual_seed(0)
    layer, inputs = sg.RNN(3, 5, alpha=1.0), torch.randn(4, 2, 3)
    layer(inputs)[1].sum().backward()
    wanted = [parameter.grad.clone() for parameter in layer.parameters() if parameter.grad is not None]
    layer.zero_grad()
    output, last = layer(inputs)
    with torch.no_grad():
        output.zero_()
    last.sum().backward()
    for parameter, right in zip(layer.parameters(), wanted, strict=True):
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, right)


@pytest.mark.parametrize("what", ["input", "state", "error"])
def test_a_value_that_is_not_finite_is_found(what: str) -> None:
    layer, inputs = sg.RNN(3, 5), torch.ones(4, 2, 3)
    if what == "input":
        inputs[2, 0, 0] = torch.nan
    if what == "state":
        layer.weight_hh_l0.data[0, 0] = torch.nan
    output, _ = layer(inputs)
    output.backward(torch.full_like(output, torch.inf if what == "error" else 1.0))
    fault = layer.flow[0].fault
    assert fault is not None
    assert fault.what == what


@pytest.mark.parametrize("token", [-1, 3])
def test_a_token_out_of_range_is_refused(token: int) -> None:
    with pytest.raises(IndexError, match="token outside 0 … 2"):
        sg.RNN(3, 5)(torch.full((4, 2), token))


def test_a_wrapper_left_behind_by_torch_func_is_taken_for_the_tensor_inside() -> None:
    left: list[torch.Tensor] = []

    def keep(x: torch.Tensor) -> torch.Tensor:
        left.append(x)
        return x.sum()

    inputs = torch.randn(4, 2, 3)
    torch.func.grad(keep)(inputs)
    layer = sg.RNN(3, 5)
    assert torch.equal(layer(left[0])[0], layer(inputs)[0])

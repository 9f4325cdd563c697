"""backend="torch" reads no tensor's value on the host, so that on CUDA nothing waits and a step fits in a CUDA graph.

There is no GPU here: a mode that sees each of torch's operations refuses those that would wait for a device.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import steadygrad as sg
from steadygrad.recurrence import bptt, cells, gated_bptt, strange
from steadygrad.recurrence.options import Given, Options, Wanted

FORBIDDEN = {
    *("_local_scalar_dense", "item", "is_nonzero", "nonzero", "nonzero_static", "masked_select", "unique", "_unique2"),
    *(
        "equal",
        "allclose",
        "bincount",
        "unique_dim",
        "unique_consecutive",
        "lift_fresh",
    ),  # the last: a tensor made of numbers
}


class NoSynchronisation(TorchDispatchMode):
    """Refuses operations whose result the host has to wait for."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        indexed = name in ("index", "index_put", "index_put_", "_index_put_impl_")
        by_mask = indexed and any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in args[1])
        to_host = name in ("_to_copy", "_copy_from") and str((kwargs or {}).get("device", "")) == "cpu"
        if name in FORBIDDEN or by_mask or to_host:
            raise AssertionError(f"aten::{name} waits for the device")
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def _computed_as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    # Under a dispatch mode the layer would leave its work to the autograd loop, and on the CPU it looks at tokens first.
    monkeypatch.setattr(strange, "is_watched", lambda: False)
    for module in (bptt, cells):
        monkeypatch.setattr(module, "check_tokens", lambda tokens, size: None)


@pytest.mark.parametrize("tokens", [False, True], ids=["vectors", "tokens"])
@pytest.mark.parametrize("record", [True, False], ids=["recording", "not-recording"])
@pytest.mark.parametrize("omega", ["paper", "proceedings", "program"])
@pytest.mark.parametrize("cell", ["RNN", "leaky", "GRU", "LSTM"])
def test_a_step_of_training_waits_for_nothing(cell: str, omega: str, record: bool, tokens: bool) -> None:
    more: dict[str, Any] = {"alpha": 0.5, "omega": omega, "clip_error": 0.1, "bidirectional": True, "backend": "torch"}
    if cell == "leaky":
        cell, more["leak"] = "RNN", 0.3
    layer = getattr(sg, cell)(3, 5, **more)
    layer.record = record
    x = torch.randint(3, (4, 2)) if tokens else torch.randn(4, 2, 3, requires_grad=True)
    with NoSynchronisation():
        output, _ = layer(x)
        output.square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in layer.parameters())
    assert len(layer.flow) == 2 * record


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", ["RNN", "GRU", "LSTM"])
def test_padded_sequences_wait_for_nothing(mode: str, reverse: bool) -> None:
    # (Packing and unpacking a PackedSequence reads its lengths; given as a tensor on the device they are not read.)
    engine: Any = bptt if mode == "RNN" else gated_bptt
    gates = cells.GATES[mode]
    weight_ih, weight_hh = torch.randn(gates * 5, 3), torch.randn(gates * 5, 5)
    given = Given(torch.randn(4, 2, 3), torch.randn(2, 5), weight_ih, weight_hh, None, None, torch.tensor([4, 2]))
    options = Options(reverse=reverse, alpha=0.5, mode=mode)
    lasts: tuple[Tensor | None, ...] = (torch.randn(1, 2, 5), None)
    grad = torch.randn(4, 2, 5)
    with NoSynchronisation():
        saved, _ = engine.forward(given, options)
        found = engine.backward(saved, grad, lasts, options, Wanted(True, True, True, True, False), None)
    assert found.measured[1].count_nonzero() == 3 + 1  # pairs of running steps


def test_the_mode_would_notice() -> None:
    x = torch.randn(3)
    for waits in (lambda: x.sum().item(), lambda: x[x > 0], lambda: bool(x.any()), lambda: torch.tensor(1.0)):
        with pytest.raises(AssertionError, match="waits for the device"), NoSynchronisation():
            waits()


@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_fault_is_found_when_the_flow_is_asked(cell: str, value: float) -> None:
    layer = getattr(sg, cell)(3, 5, backend="torch")
    x = torch.randn(4, 2, 3)
    x[2, 1, 0] = value
    weights = torch.ones(4, 2, 5)
    if value == torch.inf:  # squashed: the state is finite, and what goes back is made infinite by hand
        x[2, 1, 0] = 0.0
        weights[3, 0, 0] = torch.inf
    with NoSynchronisation():
        output, _ = layer(x)
        (output * weights).sum().backward()
        x.zero_()  # what the user does with the input later changes nothing
    expected = ("input", 2) if value != torch.inf else ("error", 3)
    assert tuple(layer.flow[0].fault) == expected

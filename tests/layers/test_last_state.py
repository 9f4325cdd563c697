"""The pass without autograd (`quick.last_state`): autograd's very numbers, and nothing that is not plain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.nn.modules import module as modules

import steadygrad as sg
from steadygrad.layers import quick
from steadygrad.recurrence import direct, native

pytestmark = pytest.mark.skipif(not native.is_built(), reason="needs the C++ kernel")


def made(**options: Any) -> sg.RNN:
    torch.manual_seed(0)
    layer = sg.RNN(3, 21, **options)
    if layer.bias:
        layer.bias_hh_l0.requires_grad_(False)
    return layer


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"alpha": 2.0},
        {"alpha": 2.0, "omega": "program", "dtype": torch.float64},
        {"alpha": 1.0, "omega": "proceedings", "leak": 0.3, "nonlinearity": "sigmoid"},
        {"clip_error": 0.01, "bias": False, "nonlinearity": "relu"},
        {"batch_first": True, "alpha": 1.0, "backend": "native"},
    ],
)
def test_state_gradients_and_flow_have_the_bits_of_autograd(options: dict[str, Any], tokens: bool) -> None:
    found: list[list[Any]] = []
    for by_hand in (True, False):
        layer = made(**options)
        inputs = torch.randint(0, 3, (7, 5)) if tokens else torch.randn(7, 5, 3, dtype=options.get("dtype"))
        inputs = inputs.transpose(0, 1) if layer.batch_first else inputs
        error = torch.randn(1, 5, 21, dtype=options.get("dtype"))
        if by_hand:
            begun = quick.last_state(layer, inputs)
            assert begun is not None
            last, back = begun
            back(error)
        else:
            last = layer(inputs)[1]
            torch.autograd.backward(last, error)
        found.append([last, layer.flow[0].measured, *[parameter.grad for parameter in layer.parameters()]])
    for ours, right in zip(*found, strict=True):
        assert (ours is None) == (right is None)
        assert ours is None or torch.equal(ours, right)


def test_an_error_that_is_not_plain_goes_the_general_way() -> None:
    gradients: list[torch.Tensor | None] = []
    for error in (torch.full((1, 5, 21), 0.5), torch.full((1, 1, 1), 0.5).expand(1, 5, 21)):
        layer = made(alpha=1.0)
        begun = quick.last_state(layer, torch.randn(7, 5, 3))
        assert begun is not None
        begun[1](error)
        gradients.append(layer.weight_hh_l0.grad)
    assert torch.equal(*gradients)  # pyright: ignore


class Other(sg.RNN):
    def forward(self, input: Any, hx: Any = None) -> Any:
        output, last = super().forward(input, hx)
        return output, 2 * last


def hook(*_: Any) -> None:
    """Does nothing; that it is there is enough."""


def with_own_forward(layer: Any) -> None:
    layer.forward = layer.forward


def tied(layer: Any) -> None:
    layer.bias_hh_l0 = layer.bias_ih_l0


def without_memory(layer: Any) -> None:
    layer.weight_hh_l0 = torch.nn.Parameter(torch.randn(21, 42)[:, ::2])


UNUSUAL: dict[str, Callable[[Any], Any]] = {
    "a hook before forward": lambda layer: layer.register_forward_pre_hook(hook),
    "a hook after forward": lambda layer: layer.register_forward_hook(hook),
    "a hook before backward": lambda layer: layer.register_full_backward_pre_hook(hook),
    "a hook after backward": lambda layer: layer.register_full_backward_hook(hook),
    "a hook on a weight": lambda layer: layer.weight_ih_l0.register_hook(hook),
    "a hook after a weight's gradient": lambda layer: layer.weight_ih_l0.register_post_accumulate_grad_hook(hook),
    "a forward of its own": with_own_forward,
    "frozen": lambda layer: layer.requires_grad_(False),
    "W_hh frozen": lambda layer: layer.weight_hh_l0.requires_grad_(False),
    "two biases": lambda layer: layer.bias_hh_l0.requires_grad_(True),
    "tied biases": tied,
    "parametrized": lambda layer: torch.nn.utils.parametrizations.orthogonal(layer, "weight_hh_l0"),
    "a weight with gaps": without_memory,
    "another backend": lambda layer: setattr(layer, "backend", "torch"),
    "half precision": lambda layer: layer.bfloat16(),
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_a_layer_that_is_not_plain_is_to_be_called(what: str) -> None:
    layer: Any = made()
    inputs = torch.randint(0, 3, (7, 5))
    assert quick.last_state(layer, inputs) is not None
    UNUSUAL[what](layer)
    assert quick.last_state(layer, inputs) is None


@pytest.mark.parametrize(
    "layer",
    [Other(3, 21), sg.GRU(3, 21), sg.LSTM(3, 21), sg.RNN(3, 21, num_layers=2), sg.RNN(3, 21, bidirectional=True)],
    ids=lambda layer: type(layer).__name__,
)
def test_other_layers_are_to_be_called(layer: Any) -> None:
    assert quick.last_state(layer, torch.randint(0, 3, (7, 5))) is None


def test_a_forward_or_call_that_somebody_put_in_place_of_all_layers_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.randint(0, 3, (7, 5))
    for name in ("forward", "__call__"):
        with monkeypatch.context() as patch:
            patch.setattr(sg.RNN, name, getattr(Other, name) if name == "forward" else lambda *given: None)
            assert quick.last_state(made(), inputs) is None
    assert quick.last_state(made(), inputs) is not None


@contextmanager
def globally_hooked() -> Iterator[None]:
    handle = modules.register_module_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


SURROUNDINGS: dict[str, Callable[[], Any]] = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "anomalies are looked for": torch.autograd.detect_anomaly,
    "saved tensors are packed": lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
    "a profiler": torch.profiler.profile,
    "autocast": lambda: torch.autocast("cpu"),
    "hooks of all modules": globally_hooked,
    "a device context": lambda: torch.device("cpu"),
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("what", SURROUNDINGS)
def test_where_somebody_watches_the_layer_is_to_be_called(what: str) -> None:
    layer = made()
    with SURROUNDINGS[what]():
        assert quick.last_state(layer, torch.ones((7, 5), dtype=torch.int64)) is None
    assert quick.last_state(layer, torch.ones((7, 5), dtype=torch.int64)) is not None


def test_inputs_that_want_a_gradient_are_left_to_autograd() -> None:
    assert quick.last_state(made(), torch.randn(7, 5, 3, requires_grad=True)) is None


def test_a_token_out_of_range_is_refused() -> None:
    with pytest.raises(IndexError, match="token outside 0 … 2"):
        quick.last_state(made(), torch.full((4, 2), 3))


def test_without_the_kernel_the_layer_is_to_be_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct.native, "library", lambda: None)
    assert quick.last_state(made(), torch.randint(0, 3, (7, 5))) is None

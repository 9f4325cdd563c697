"""What Hessian-free optimisation refuses: one sentence each, and the parameters stay to the bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import steadygrad as sg
from steadygrad.baselines import HessianFree

ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"damping": 0}, "damping must be a finite number above 0, not 0"),
    ({"damping": -1.0}, "damping must be a finite number above 0, not -1.0"),
    ({"damping": math.nan}, "damping must be a finite number above 0, not nan"),
    ({"structural": -0.1}, "structural must be a finite number of at least 0, not -0.1"),
    ({"hidden_distance": "tahn"}, "hidden_distance must be one of .*, not 'tahn' .did you mean 'tanh'?"),
    ({"loss": "crossentropy"}, "loss must be one of .*, not 'crossentropy' .did you mean 'cross-entropy'?"),
    ({"cg_iterations": 0}, "cg_iterations must be a whole number of at least 1, not 0"),
    ({"cg_tolerance": -1.0}, "cg_tolerance must be a finite number of at least 0, not -1.0"),
    ({"decay": 1.5}, r"decay must be a number in \[0, 1\], not 1.5"),
    ({"pieces": -1}, "pieces must be a whole number of at least 0, not -1"),
    ({"batch_first": 1}, "batch_first must be True or False, not 1"),
    ({"seed": 0.5}, "seed must be a whole number of at least 0, not 0.5"),
    ({"params": []}, "params must hold at least one parameter, and it is empty"),
    (
        {"params": [torch.zeros(2, requires_grad=True), torch.zeros(2)]},
        "params must all require gradients, and 1 of 2 do not .the first: number 1, counted from 0.: leave frozen",
    ),
    (
        {"params": [torch.zeros(2, requires_grad=True), torch.zeros(2, dtype=torch.float64, requires_grad=True)]},
        "params must be of one floating-point dtype and on one device, not torch.float32 on cpu, torch.float64 on cpu",
    ),
    (
        {"params": [{"params": [torch.zeros(2, requires_grad=True)]}, {"params": [torch.ones(2, requires_grad=True)]}]},
        "params must be one group",
    ),
]


@pytest.mark.parametrize(("arguments", "sentence"), ARGUMENTS, ids=[str(names) for names, _ in enumerate(ARGUMENTS)])
def test_arguments_outside_what_is_allowed_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    usual: dict[str, Any] = {"params": [torch.zeros(2, requires_grad=True)]}
    with pytest.raises(ValueError, match=f"^{sentence}") as refused:
        HessianFree(**(usual | arguments))
    assert "\n" not in str(refused.value)


class Small:
    """A network of one layer and a read-out, its optimizer, and a `forward` that works."""

    def __init__(self, layer: torch.nn.Module | None = None, **settings: Any) -> None:
        torch.manual_seed(1)
        self.rnn: Any = sg.RNN(2, 4) if layer is None else layer
        self.readout = torch.nn.Linear(4, 3)
        self.net = torch.nn.ModuleList([self.rnn, self.readout])
        self.inputs, self.targets = torch.randn(5, 6, 2), torch.arange(6) % 3
        self.optimizer = HessianFree(self.net.parameters(), **settings)

    def forward(self, batch: str) -> tuple[Tensor, Any, Any]:
        hidden, _ = self.rnn(self.inputs)
        return self.readout(hidden[-1]), self.targets, hidden

    def refuses(self, sentence: str, forward: Any, error: type[Exception] = ValueError) -> None:
        before = [each.detach().clone() for each in self.net.parameters()]
        settings = {name: value for name, value in self.optimizer.param_groups[0].items() if name != "params"}
        with pytest.raises(error, match=f"^{sentence}") as refused:
            self.optimizer.step(forward)
        assert "\n" not in str(refused.value)
        assert all(torch.equal(a, b) for a, b in zip(before, self.net.parameters(), strict=True))
        assert settings == {name: self.optimizer.param_groups[0][name] for name in settings}
        assert self.optimizer.stats is None


def test_a_step_without_forward_is_refused() -> None:
    small = Small()
    sentence = "forward must be a function that takes 'gradient' or 'curvature' and returns .*, not None"
    small.refuses(sentence, None)
    small.refuses("forward must be a function .*, not 3", 3, TypeError)


def returns(change: Callable[[Tensor, Any, Any], Any]) -> Callable[[Small], Callable[[str], Any]]:
    """A `forward` that returns something else than it should, from what it should."""
    return lambda small: lambda batch: change(*small.forward(batch))


WRONG_RETURNS: dict[str, tuple[Any, str]] = {
    "a loss": (
        returns(lambda z, d, h: torch.nn.functional.cross_entropy(z, d)),
        r"forward must return \(outputs, targets\) or \(outputs, targets, hidden\), not a tensor of shape \(\)",
    ),
    "nothing": (
        returns(lambda z, d, h: None),
        r"forward must return \(outputs, targets\) or \(outputs, targets, hidden\), not None",
    ),
    "four": (returns(lambda z, d, h: (z, d, h, h)), "forward must return .*, not a tuple of 4"),
    "no tensor": (
        returns(lambda z, d, h: (z.tolist(), d)),
        "forward must return outputs that are a floating-point tensor with at least one axis, not a list of 6",
    ),
    "classes": (
        returns(lambda z, d, h: (z.argmax(-1), d)),
        r"forward must return outputs that are a floating-point tensor .*, not a tensor of shape \(6,\) and torch.int64",
    ),
    "detached": (
        returns(lambda z, d, h: (z.detach(), d)),
        "forward must return outputs computed from the parameters with gradients, and these are detached",
    ),
    "too few targets": (
        returns(lambda z, d, h: (z, d[:4])),
        r"targets must be classes of shape \(6,\), the outputs' without its last axis, not \(4,\)",
    ),
    "classes that are not there": (
        returns(lambda z, d, h: (z, d + 3)),
        "targets must be classes in 0 … 2, the outputs' last axis, not in 3 … 5",
    ),
    "targets that are no tensor": (
        returns(lambda z, d, h: (z, d.tolist())),
        "targets must be a tensor for loss='cross-entropy', not a list",
    ),
}


@pytest.mark.parametrize("case", WRONG_RETURNS)
def test_a_forward_that_returns_something_else_is_refused(case: str) -> None:
    make, sentence = WRONG_RETURNS[case]
    small = Small()
    small.refuses(sentence, make(small))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda z, d, h: (z, d),
            r"forward must return \(outputs, targets, hidden\) where structural is above 0, hidden a tensor .*, not None",
        ),
        (lambda z, d, h: (z, d, [h, 1]), "forward must return .* or a list of tensors, not a list of 2"),
        (lambda z, d, h: (z, d, h.detach()), "forward must return hidden states computed .*, and these are detached"),
        (lambda z, d, h: (z, d, h[-1, 0]), r"forward must return hidden states of shape \[T, B, H\] or \[B, H\]"),
    ],
)
def test_structural_damping_needs_hidden_states(change: Any, sentence: str) -> None:
    small = Small(structural=0.1)
    small.refuses(sentence, returns(change)(small))


def test_targets_of_another_shape_than_the_outputs_are_refused() -> None:
    small = Small(loss="squared-error")
    small.refuses(
        r"targets must have the outputs' shape \(6, 3\) for loss='squared-error', not \(6, 1\)",
        returns(lambda z, d, h: (z, d[:, None].float()))(small),
    )


def test_a_loss_function_that_returns_more_than_one_number_is_refused() -> None:
    small = Small(loss=lambda z, d: torch.nn.functional.cross_entropy(z, d, reduction="none"))
    small.refuses(r"loss must return one number .*, not a tensor of shape \(6,\)", small.forward)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("kind", ["gradient", "curvature"])
def test_a_loss_that_is_not_finite_is_refused(bad: float, kind: str) -> None:
    small = Small(loss="squared-error")

    def forward(batch: str) -> tuple[Tensor, Tensor]:
        return small.forward(batch)[0], torch.full((6, 3), bad if batch == kind else 0.0)

    small.refuses(f"the loss of the {kind} batch must be finite before a step, not {bad}", forward, FloatingPointError)


def test_a_gradient_that_is_not_finite_is_refused() -> None:
    small = Small(loss="squared-error")
    # sqrt(0): a value of 0, a slope of infinity
    forward = returns(lambda z, d, h: ((z - z.detach()).sqrt(), torch.zeros(6, 3)))(small)
    small.refuses("the gradient must be finite before a step, and it is not", forward, FloatingPointError)


def test_a_forward_that_draws_new_data_each_time_is_refused() -> None:
    small = Small()

    def forward(batch: str) -> tuple[Tensor, Tensor]:
        hidden, _ = small.rnn(torch.randn(5, 6, 2))
        return small.readout(hidden[-1]), small.targets

    small.refuses("forward must return the same each time it is called in a step, and its loss was", forward)


def test_a_backward_pass_that_clips_is_refused() -> None:
    small = Small(sg.RNN(2, 4, clip_error=0.1))
    small.refuses("forward must have true derivatives, and its backward pass is not the transpose", small.forward)


def test_omega_in_the_backward_pass_is_refused() -> None:
    small = Small(sg.RNN(2, 4, alpha=1.0))
    small.refuses("Ω's part of the gradient of weight_hh can't be differentiated again", small.forward, RuntimeError)


def test_parameters_frozen_later_and_settings_changed_later_are_refused() -> None:
    small = Small()
    small.rnn.weight_hh_l0.requires_grad_(False)
    small.refuses("params must all require gradients, and 1 of 6 do not", small.forward)
    small.rnn.weight_hh_l0.requires_grad_(True)
    small.optimizer.param_groups[0]["damping"] = -1.0
    small.refuses("damping must be a finite number above 0, not -1.0", small.forward)


@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_an_interrupted_step_leaves_the_parameters(call: int) -> None:
    small = Small()
    calls: Iterator[int] = iter(range(1, 100))

    def forward(batch: str) -> Any:
        if next(calls) == call:
            raise InterruptedError("stopped")
        return small.forward(batch)

    small.refuses("stopped", forward, InterruptedError)


def test_the_state_of_another_optimizer_is_refused() -> None:
    small = Small()
    other = torch.optim.SGD(small.net.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"^state_dict must be a HessianFree's, but it lacks damping, seed, steps$"):
        small.optimizer.load_state_dict(other.state_dict())

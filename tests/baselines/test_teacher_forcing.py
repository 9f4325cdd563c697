"""Teacher forcing: what the output units take as their values, derivatives, and a figure eight that is generated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from steadygrad import tasks
from steadygrad.baselines import TeacherForced, penalty
from steadygrad.baselines.teacher_forcing import OUTPUTS, SIGMA
from steadygrad.tasks.generators import FigureEight

T, B, N, O, I = 9, 3, 7, 2, 4


def network(input_size: int = I, **options: Any) -> TeacherForced:
    torch.manual_seed(0)
    made = TeacherForced(N, O, input_size, dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(0, 0.6)
    return made


def data(input_size: int = I) -> tuple[Tensor | None, Tensor]:
    generator = torch.Generator().manual_seed(1)
    u = torch.randn(T, B, input_size, generator=generator, dtype=torch.float64)
    d = torch.randn(T, B, O, generator=generator, dtype=torch.float64)
    return (u if input_size else None), d


def by_hand(made: TeacherForced, u: Tensor | None, d: Tensor, coins: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Sequence by sequence and unit by unit, as the equation is printed; coins [T, B], c_t of every step."""
    W, W_in, b = made.weight_hh_l0, made.weight_ih_l0, made.bias_l0
    sigma, phi = SIGMA[made.nonlinearity], OUTPUTS[made.outputs]
    outputs = torch.empty(T, B, O, dtype=torch.float64)
    last = torch.empty(B, N, dtype=torch.float64)
    for k in range(B):
        state = x[k].clone()
        for t in range(T):
            a = W @ state + b + (0.0 if u is None else W_in @ u[t, k])
            new = torch.cat([phi(a[:O]), sigma(a[O:])])
            outputs[t, k] = a[:O] if made.outputs == "softmax" else new[:O]
            last[k] = new
            # what this step hands on is its target where the unit has one and the coin of the *next* step's draw says so
            state = new.clone()
            if t + 1 < T and coins[t + 1, k]:
                state[:O] = torch.where(made.mask, d[t, k], state[:O])
    return outputs, last


@pytest.mark.parametrize("input_size", [0, I])
@pytest.mark.parametrize("mask", [None, [True, False]])
@pytest.mark.parametrize("probability", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("nonlinearity", "outputs"), [("tanh", None), ("sigmoid", "identity"), ("relu", "softmax")])
def test_values_are_those_of_the_printed_equation(
    input_size: int, mask: Any, probability: float, nonlinearity: str, outputs: str | None
) -> None:
    made = network(input_size, mask=mask, nonlinearity=nonlinearity, outputs=outputs, probability=probability)
    u, d = data(input_size)
    made.generator = torch.Generator().manual_seed(5)
    x = torch.randn(B, N, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    found, last = made(u, d, state=x)
    coins = torch.rand(T, B, 1, generator=torch.Generator().manual_seed(5))[..., 0] < probability
    expected, expected_last = by_hand(made, u, d, coins, x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(last, expected_last)
    if probability == 0.5:
        assert 0 < coins[1:].sum() < coins[1:].numel()  # so the middle is neither of the two ends


@pytest.mark.parametrize("mask", [None, [False, True]])
def test_a_probability_of_one_is_teacher_forcing_and_of_zero_free_running(mask: Any) -> None:
    made = network(mask=mask)
    u, d = data()

    def gradients(outputs: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad((outputs - d).square().sum(), list(made.parameters())))

    forced = made(u, d)[0]
    made.probability = torch.ones(T)  # by the loop, with coins that all fall on one side
    scheduled = made(u, d)[0]
    torch.testing.assert_close(scheduled, forced)
    for one, other in zip(gradients(scheduled), gradients(forced), strict=True):
        torch.testing.assert_close(one, other)
    free = made.eval()(u, d)[0]
    assert torch.equal(made(u)[0], free)  # targets are not looked at
    for zero in (0.0, torch.zeros(T)):
        made.train().probability = zero
        sampled = made(u, d)[0]
        assert torch.equal(sampled, free)
        assert all(map(torch.equal, gradients(sampled), gradients(made.eval()(u)[0])))
    assert not torch.allclose(free, forced)


def test_the_probability_of_each_step_is_its_own() -> None:
    made = network()
    u, d = data()
    made.probability = torch.tensor([0.0] * 5 + [1.0] * 4)
    coins = torch.zeros(T, B, dtype=torch.bool)
    coins[5:] = True
    torch.testing.assert_close(made(u, d)[0], by_hand(made, u, d, coins, torch.zeros(B, N, dtype=torch.float64))[0])


def test_forced_steps_do_not_depend_on_outputs_of_before() -> None:
    """The loops through output units are cut: a network of output units alone has no memory of two steps ago."""
    torch.manual_seed(0)
    made = TeacherForced(O, O, dtype=torch.float64)
    _, d = data(0)
    d.requires_grad_()
    (reach,) = torch.autograd.grad(made(targets=d)[0][6].sum(), d)
    assert reach[5].abs().min() > 0
    assert (reach[:5] == 0).all()


@pytest.mark.parametrize("probability", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("outputs", [None, "softmax"])
def test_gradients_equal_finite_differences(probability: float, outputs: str | None) -> None:
    made = network(probability=probability, outputs=outputs)
    u, d = data()
    assert u is not None
    names, values = zip(*made.named_parameters(), strict=True)

    def run(u: Tensor, d: Tensor, *parameters: Tensor) -> Tensor:
        made.generator = torch.Generator().manual_seed(3)
        return torch.func.functional_call(made, dict(zip(names, parameters, strict=True)), (u, d))[0]

    given = (u.requires_grad_(), d.requires_grad_(), *(p.detach().clone().requires_grad_() for p in values))
    assert torch.autograd.gradcheck(run, given, atol=1e-7)


def test_start_is_the_target_before_the_first_step_and_state_goes_on() -> None:
    made = network()
    u, d = data()
    assert u is not None
    whole = made(u, d)[0]
    first, state = made(u[:4], d[:4])
    second, _ = made(u[4:], d[4:], start=d[3], state=state)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    partly = network(mask=[True, False])
    whole = partly(u, d)[0]
    first, state = partly(u[:4], d[:4])
    torch.testing.assert_close(torch.cat([first, partly(u[4:], d[4:], start=d[3], state=state)[0]]), whole)


@pytest.mark.parametrize("input_size", [0, I])
def test_generation_is_teacher_forced_at_first_and_then_runs_free(input_size: int) -> None:
    made = network(input_size)
    u, d = data(input_size)
    coins = torch.zeros(T, B, dtype=torch.bool)
    coins[1:5] = True  # steps 2 … 5 take the targets of steps 1 … 4
    expected = by_hand(made, u, d, coins, torch.zeros(B, N, dtype=torch.float64))[0][4:]
    for mode in (True, False):
        found = made.train(mode).generate(T - 4, d[:4], u)
        torch.testing.assert_close(found, expected.detach())
        assert not found.requires_grad


def test_coins_come_from_the_generator_alone() -> None:
    u, d = data()
    before = torch.get_rng_state()
    runs: list[Tensor] = []
    for seed in (1, 1, 2):
        made = network(probability=0.5, generator=torch.Generator().manual_seed(seed))
        torch.set_rng_state(before)
        runs.append(made(u, d)[0])
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


def test_a_trained_network_generates_a_figure_eight() -> None:
    """After 64 steps of the eight (two rounds), 300 more of its own making (nine rounds) stay on it, in phase."""
    torch.manual_seed(0)
    task, generator = FigureEight(), torch.Generator().manual_seed(0)
    made = TeacherForced(30, 2)
    optimizer = torch.optim.Adam(made.parameters(), lr=5e-3)
    updates = 1000
    for update in range(updates):
        batch = task.sample(8, 64, generator)
        outputs, _ = made(targets=batch.targets, start=batch.inputs[0])
        optimizer.param_groups[0]["lr"] = 5e-3 * (1 - update / updates)
        optimizer.zero_grad()
        (outputs - batch.targets)[8:].square().mean().backward()  # the hidden units need some steps to find the phase
        torch.nn.utils.clip_grad_norm_(made.parameters(), 1.0)
        optimizer.step()
    batch = task.sample(16, 364, torch.Generator().manual_seed(99))
    found = made.generate(300, batch.targets[:64])
    error = (found - batch.targets[64:]).square().mean().sqrt().item()
    assert error < 0.05  # of an amplitude of 0.8, and an RMS of 0.57; seen: 0.011
    assert (found[-32:] - batch.targets[-32:]).abs().max() < 0.1


def test_memorization_with_a_target_at_every_step_is_learned_from_and_without_is_refused() -> None:
    torch.manual_seed(0)
    made = TeacherForced(30, 3, 4, outputs="softmax")
    generator = torch.Generator().manual_seed(0)
    batch = tasks.get("memorization-5bit", counted="all").sample(5, 10, generator)
    u = torch.nn.functional.one_hot(batch.inputs, 4).float()
    logits, _ = made(u, batch.targets)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())
    loss.backward()
    assert made.weight_hh_l0.grad is not None
    before = made.weight_hh_l0.grad.clone()
    penalty.add_l2(made, 0.1)
    torch.testing.assert_close(made.weight_hh_l0.grad, before + 0.2 * made.weight_hh_l0)
    assert made.eval()(u)[0].shape == (20, 5, 3)
    asked = tasks.get("memorization-5bit").sample(5, 10, generator)
    with pytest.raises(
        ValueError, match=r"targets must be there at every step of every sequence, .* \[20, 5\].*\[5, 5\]"
    ):
        made.train()(u, asked.targets)


U, D = data()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: TeacherForced(5, 2, mask=[False, False]), "mask must name at least one unit that has a target"),
        (lambda: TeacherForced(5, 2, mask=[True]), r"mask must be 2 booleans, one for each output unit, .* \[1\]"),
        (lambda: TeacherForced(5, 6), "output_size must be at most hidden_size, 5, not 6"),
        (lambda: TeacherForced(5, 2, probability=1.1), r"probability must be a number in \[0, 1\], not 1\.1"),
        (
            lambda: TeacherForced(5, 2, probability=torch.tensor([2.0])),
            r"probability must be a number in \[0, 1\] or a",
        ),
        (lambda: TeacherForced(5, 2, outputs="sofmax"), r"outputs must be one of .* \(did you mean 'softmax'\?\)"),
        (lambda: network()(U), "targets must be given in training mode"),
        (lambda: network()(U, D[1:]), "targets must be there at every step of every sequence"),
        (lambda: network()(U, D[..., :1]), r"targets must be \[T, B, 2\], not \[9, 3, 1\]"),
        (lambda: network()(U, D * math.nan), "targets must be finite: a unit without a target is left out by mask"),
        (lambda: network()(None, D), r"inputs must be \[T, B, 4\], not None"),
        (lambda: network(0)(U, D), r"inputs must be None for a network without inputs, not \[9, 3, 4\]"),
        (lambda: network(0).eval()(), r"targets must be given to a network without inputs, or use generate"),
        (lambda: network(probability=torch.ones(3))(U, D), "probability must be a number or a tensor of 9"),
        (lambda: network()(U, D, start=D[0, :1]), r"start must be \[3, 2\], not \[1, 2\]"),
        (lambda: network().generate(5, D[:2], U), r"inputs must be \[7, 3, I\], start and steps, not \[9, 3, 4\]"),
        (lambda: network(0).generate(0, D), "steps must be a whole number of at least 1, not 0"),
        (lambda: network(outputs="softmax")(U, torch.full((T, B), 2)), "targets must be classes in 0 … 1, not 2"),
    ],
)
def test_bad_argument_is_named(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()

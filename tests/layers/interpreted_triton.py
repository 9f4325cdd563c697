"""The Triton kernels in Triton's interpreter, against the autograd loop. test_triton.py runs this file, which needs
TRITON_INTERPRET=1 from the start of the process on.

The options are those of recurrent_cases.py, and every three of them meet in every combination here too. The sizes are smaller:
the interpreter takes a hundredth of a second for one step.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
import torch
from recurrent_cases import CHOICES, Case, build, computed, covering, distance
from torch import Tensor

import steadygrad as sg
from steadygrad.recurrence import bptt, oracle, triton

# The interpreter computes with numpy, which warns where a device would not (e.g. of exp(1e4), which is infinite).
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
SMALL: dict[str, Any] = {
    **CHOICES,
    "steps": (1, 2, 5),
    "batch": (1, 3, 18),  # 18: two programs, the second not full
    "inputs": (1, 5),
    "hidden": (1, 5, 20),
    "layers": (1,),
}
CASES = [Case(*row) for row in covering(SMALL, strength=3, size=60, seed=2015)]
CASES += [replace(CASES[0], layers=2, hidden=5, steps=3)]
SINGLE = [case for case in CASES if case.clip_error is None][::6]
PARTS = 4
# float64 keeps 16 digits; a few steps of sums over at most 20 units lose two of them. The rest is margin.
RELATIVE = 1e-9


def part(cases: list[Case]) -> list[Case]:
    """The share of the cases that this process tests: all, or one of `PARTS`."""
    number = os.environ.get("STEADYGRAD_TEST_PART")
    return cases if number is None else cases[int(number) :: PARTS]


def check(case: Case, dtype: torch.dtype = torch.float64, scale: float = 1.0, bound: float = RELATIVE) -> None:
    expected, found = computed(case, "reference", scale=scale), computed(case, "triton", dtype, scale=scale)
    assert found.keys() == expected.keys()
    far = {name: distance(found[name], expected[name]) for name in expected}
    assert all(apart <= bound for apart in far.values()), {name: a for name, a in far.items() if not a <= bound}


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that were started: a comparison means nothing where torch operations computed."""
    names: list[str] = []
    launch: Any = triton._launch

    def seen(name: str, *rest: Any, **more: Any) -> None:
        names.append(name)
        launch(name, *rest, **more)

    monkeypatch.setattr(triton, "_launch", seen)
    return names


@pytest.mark.parametrize("case", part(CASES), ids=str)
def test_outputs_and_gradients_equal_the_reference(launched: list[str], case: Case) -> None:
    check(case)
    cells = case.layers * (1 + case.bidirectional)
    assert sorted(launched) == ["backward_kernel"] * cells + ["forward_kernel"] * cells  # one launch for all steps


@pytest.mark.parametrize("case", part(SINGLE), ids=str)
def test_float32_equals_the_reference_in_float64(case: Case) -> None:
    check(case, torch.float32, 0.01, 2e-4)  # 7 digits; three or four may be lost


@pytest.mark.parametrize("case", part(CASES[::10]), ids=str)
def test_one_sequence_for_each_program_as_on_a_device(monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    monkeypatch.setattr(triton, "ROWS_INTERPRETED", 1)
    check(replace(case, batch=3))


@pytest.mark.parametrize("hidden", [16, 100, 128])
def test_wide_layers_equal_the_reference(launched: list[str], hidden: int) -> None:
    check(replace(CASES[1], hidden=hidden, steps=3, batch=2, alpha=0.7))
    assert launched


def test_layers_that_do_not_fit_are_computed_in_torch_operations(launched: list[str]) -> None:
    case = replace(CASES[1], hidden=129, steps=2, batch=2)
    for dtype, hidden in ((torch.float64, 129), (torch.bfloat16, 5)):
        rnn = build(replace(case, hidden=hidden), "triton", dtype)
        assert (rnn.backend, rnn.computed_by) == ("triton", "torch")
    assert build(replace(case, hidden=128), "triton", torch.float32).computed_by == "triton"
    check(case)
    assert not launched


def _sigma(x: Tensor, name: str) -> Tensor:
    """σ(x) through the kernel: one step of sequences of one unit."""
    one, none = x.new_ones(1, 1), x.new_zeros(1, 1)
    given = bptt.Given(x.view(1, -1, 1), None, one, none, None, None, None)
    return triton.forward(given, oracle.Options(name))[0].output.flatten()


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nonlinearities_are_exact_to_the_last_digits(dtype: torch.dtype, name: str) -> None:
    # Both sides of 0.625, where two formulas meet; tiny numbers, where one of them would lose its digits; huge ones.
    x = torch.cat([torch.logspace(-12, 2, 60, dtype=torch.float64), torch.linspace(0.6, 0.65, 40, dtype=torch.float64)])
    x = torch.cat([x, -x, torch.tensor([0.0, 1e4, -1e4])]).to(dtype)
    exact = getattr(torch, name)(x.double())
    found = _sigma(x, name).double()
    seen = exact.abs() > 1e-30
    assert ((found - exact).abs() / exact.abs())[seen].max() < 8 * torch.finfo(dtype).eps
    assert found[~seen].abs().max() < 1e-30


@pytest.mark.parametrize("name", ["tanh", "relu", "sigmoid", "identity"])
def test_what_is_not_a_number_stays_visible(name: str) -> None:
    found = _sigma(torch.tensor([torch.nan, 1.0, torch.inf]), name)
    expected = getattr(torch, name)(torch.tensor([torch.nan, 1.0, torch.inf])) if name != "identity" else found
    assert torch.equal(found.isnan(), torch.tensor([True, False, False]))
    assert torch.allclose(found, expected, equal_nan=True)
    rnn = sg.RNN(2, 5, nonlinearity=name, clip_error=0.1, backend="triton")
    x = torch.ones(3, 2, 2)
    x[1, 0, 0] = torch.nan
    output, _ = rnn(x)
    output.sum().backward()
    assert output[1:, 0].isnan().all()
    assert output[:, 1].isfinite().all()  # the other sequence does not see it
    other = sg.RNN(2, 5, nonlinearity=name, clip_error=0.1, backend="torch")
    other(x)[0].sum().backward()
    assert rnn.flow[0].fault == other.flow[0].fault
    if name in ("tanh", "sigmoid"):  # the slopes of the others are finite also where the state is not
        assert str(rnn.flow[0].fault) == "not finite: the input of step 1"


def test_an_infinite_state_does_not_leak_through_the_padding() -> None:
    # 3 units are computed as 4: inf times the fourth's weight of 0 is NaN, and must stay there.
    rnn, loop = (sg.RNN(1, 3, nonlinearity="identity", bias=False, backend=b) for b in ("triton", "torch"))
    with torch.no_grad():
        for each in (rnn, loop):
            each.weight_ih_l0.fill_(1.0)
            each.weight_hh_l0.fill_(2.0)
    x = torch.full((4, 1, 1), 3e38)
    assert torch.equal(rnn(x)[0], loop(x)[0])
    assert rnn(x)[0][-1].isinf().all()


def test_gradients_come_expanded_and_out_of_order() -> None:
    rnn = sg.RNN(3, 5, batch_first=True, alpha=0.5, backend="triton", dtype=torch.float64)
    loop = sg.RNN(3, 5, batch_first=True, alpha=0.5, backend="reference", dtype=torch.float64)
    loop.load_state_dict(rnn.state_dict())
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    for each in (rnn, loop):
        output, _ = each(x)
        (output.sum() + output[:, -1].square().sum()).backward()
    for mine, other in zip(rnn.parameters(), loop.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-10, atol=1e-12)


def test_a_compiled_layer_computes_the_same() -> None:
    rnn = sg.RNN(3, 5, alpha=0.5, backend="triton")
    x = torch.randn(4, 2, 3)
    wanted = torch.autograd.grad(rnn(x)[0].square().sum(), list(rnn.parameters()))
    compiled: Any = torch.compile(rnn, backend="aot_eager", fullgraph=True)
    found = torch.autograd.grad(compiled(x)[0].square().sum(), list(rnn.parameters()))
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other)


def test_a_training_run_learns() -> None:
    torch.manual_seed(0)
    rnn = sg.RNN(1, 8, alpha=0.1, backend="triton")
    optimizer = torch.optim.Adam(rnn.parameters(), lr=0.05)
    x = torch.randn(4, 8, 1)
    losses: list[float] = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = (rnn(x)[0][-1, :, 0] - x[0, :, 0].tanh()).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2

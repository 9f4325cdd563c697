"""GRU and LSTM in the C++ kernel: every output, gradient and measured norm against the autograd loop of gated_reference.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gated_kernel_cases import CASES, SINGLE, Case, Loss, values
from gated_reference import reference
from torch import Tensor

from steadygrad.flow import Recorder
from steadygrad.recurrence import native, native_gated
from steadygrad.recurrence.options import Given, Gradients, Options, Wanted

pytestmark = pytest.mark.skipif(native.library() is None, reason="the C++ kernel is not built")

# float64 keeps 16 digits; 30 steps of sums over at most 150 units lose three or four of them. The rest is margin.
RELATIVE = 1e-9
EVERYTHING = Wanted(inputs=True, h0=True, weight_ih=True, weight_hh=True, bias=True, c0=True)


def computed(given: Given, options: Options, loss: Loss, recorder: Recorder | None = None) -> dict[str, Tensor]:
    """What the kernel finds, by the names of the reference."""
    saved, last_state = native_gated.forward(given, options)
    last, last_c = (*last_state, None)[:2]
    wanted = EVERYTHING._replace(inputs=given.inputs.is_floating_point())
    grads = native_gated.backward(saved, loss.output, (loss.last, loss.last_c), options, wanted, recorder)
    bias_hh = grads.bias if grads.bias_hh is None else grads.bias_hh
    found = {"output": saved.output, "last": last, "last_c": last_c, "measured": grads.measured}
    found |= {"grad bias_ih": grads.bias, "grad bias_hh": bias_hh}
    for name in ("inputs", "h0", "c0", "weight_ih", "weight_hh"):
        found[f"grad {name}"] = getattr(grads, name)
    absent = {f"grad {name}" for name, value in given._asdict().items() if value is None}
    return {name: value for name, value in found.items() if value is not None and name not in absent}


def far(found: dict[str, Tensor], expected: dict[str, Tensor], relative: float) -> dict[str, float]:
    """What differs, and by how much: ‖found − expected‖ / ‖expected‖."""
    assert found.keys() == expected.keys()
    apart = {name: float((found[name].double() - expected[name]).norm()) for name in expected}
    return {name: x for name, x in apart.items() if not x <= relative * float(expected[name].norm())}


class FreshRoom(Recorder):
    """A recorder whose room is filled with a number that no result may keep."""

    def room(self, batch: int, steps: int) -> Tensor:
        return torch.full((2, batch, steps), 1e30, dtype=torch.float64)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_everything_equals_the_reference(case: Case) -> None:
    given, loss = values(case)
    found = computed(given, case.options, loss, FreshRoom("l0"))
    assert not far(found, reference(given, case.options, loss), RELATIVE)


# float32 keeps 7 digits, and three or four are lost as above.
@pytest.mark.parametrize("case", SINGLE, ids=str)
def test_float32_equals_the_reference_in_float64(case: Case) -> None:
    given, loss = values(case, torch.float32, scale=0.01)
    found = computed(given, case.options, loss, FreshRoom("l0"))
    given, loss = values(case, scale=0.01)
    assert not far(found, reference(given, case.options, loss), 2e-4)


COMMON = Case("GRU", 7, 20, 5, 50, False, True, False, True, True, "both", "paper", None, 0.7)
BOTH = [COMMON, replace(COMMON, mode="LSTM")]


@pytest.mark.parametrize("convention", ["paper", "proceedings"])
@pytest.mark.parametrize(("scale", "alpha"), [(1e-8, 1.0), (1e-13, 1.0), (1e30, 1e28)])
@pytest.mark.parametrize("case", BOTH, ids=str)
def test_errors_whose_squares_leave_float32(case: Case, scale: float, alpha: float, convention: str) -> None:
    # A large alpha, so that Ω's part can be seen beside huge gradients of the loss.
    case = replace(case, convention=convention, alpha=alpha)
    given, loss = values(case, torch.float32, scale)
    found = computed(given, case.options, loss, FreshRoom("l0"))
    given, loss = values(case, scale=scale)
    expected = reference(given, case.options, loss)
    assert (expected["measured"][0].max() > 1e38) == (scale > 1)
    assert not far(found, expected, 2e-4)


def test_pairs_without_an_error_leave_zeros() -> None:
    for case in BOTH:
        given, loss = values(case, torch.float32, scale=0.0)
        found = computed(given, case.options, loss, FreshRoom("l0"))
        assert all(not value.any() for name, value in found.items() if name == "measured" or name.startswith("grad"))


WIDE = [replace(case, batch=70, steps=min(case.steps, 7)) for case in CASES[::16]]


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", WIDE, ids=str)
def test_results_are_the_same_bits_on_any_number_of_threads(case: Case, dtype: torch.dtype) -> None:
    given, loss = values(case, dtype)
    torch.set_num_threads(1)
    alone = computed(given, case.options, loss)
    for count in (2, 5):
        torch.set_num_threads(count)
        together = computed(given, case.options, loss)
        assert all(torch.equal(together[name], alone[name]) for name in alone)


@pytest.mark.parametrize("case", BOTH, ids=str)
def test_what_is_not_wanted_is_not_there_and_changes_nothing_else(case: Case) -> None:
    given, loss = values(case)
    saved, _ = native_gated.forward(given, case.options)
    before = {name: value.clone() for name, value in saved._asdict().items() if isinstance(value, torch.Tensor)}
    plain = case.options._replace(alpha=0.0)

    def gradients(wanted: Wanted, options: Options) -> Gradients:
        return native_gated.backward(saved, loss.output, (loss.last, loss.last_c), options, wanted, None)

    everything, without_omega = gradients(EVERYTHING, case.options), gradients(EVERYTHING, plain)
    for name in Wanted._fields:
        found = gradients(EVERYTHING._replace(**{name: False}), case.options)
        for key, value in found._asdict().items():
            full = getattr(everything, key)
            absent = key == name or (key, name) in {("bias_hh", "bias"), ("measured", "weight_hh")}
            assert value is None if absent or full is None else torch.equal(value, full), (name, key)
    assert everything.measured is not None
    assert without_omega.measured is None
    assert {"activation", "memory", "output"} <= before.keys()
    for name, copy in before.items():
        assert torch.equal(getattr(saved, name), copy)  # a second backward finds what the first one found


def test_tensors_of_other_strides_or_sign_are_read_as_what_they_are() -> None:
    for case in BOTH:
        given, loss = values(case)
        expected = computed(given, case.options, loss)

        def turned(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor.transpose(0, -1).contiguous().transpose(0, -1)

        def negative(tensor: Tensor | None) -> Tensor | None:
            return tensor if tensor is None or not tensor.is_floating_point() else torch._neg_view(-tensor)

        for change in (turned, negative):
            other = Loss(*(change(value) for value in vars(loss).values()))
            found = computed(Given(*(change(value) for value in given)), case.options, other)
            assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_tensor_that_does_not_fit_is_refused_by_name() -> None:
    given, loss = values(COMMON)
    assert given.h0 is not None
    assert given.bias_ih is not None
    empty = given.weight_hh.clone()
    empty.untyped_storage().resize_(8)

    class Other(Tensor):
        pass

    wrong = {
        "weight_ih": given.weight_ih[:-1],
        "weight_hh": empty,
        "h0": given.h0.float(),
        "bias_ih": given.bias_ih.as_subclass(Other),
        "lengths": torch.ones(3, dtype=torch.int64),
        "inputs": torch.zeros(7, 20, dtype=torch.int32),
    }
    for name, tensor in wrong.items():
        shown = "input" if name == "inputs" else name
        with pytest.raises(RuntimeError, match=rf"^{shown} must (be an ordinary CPU tensor of|hold its numbers)"):
            native_gated.forward(given._replace(**{name: tensor}), COMMON.options)
    saved, _ = native_gated.forward(given, COMMON.options)
    assert loss.last is not None
    with pytest.raises(RuntimeError, match="grad_last must be"):
        native_gated.backward(saved, None, (loss.last[:, 1:], None), COMMON.options, EVERYTHING, None)
    with pytest.raises(RuntimeError, match=r"computes in .*, not in torch\.float16"):
        native_gated.forward(
            Given(*(x if x is None or x is given.lengths else x.half() for x in given)), COMMON.options
        )


def test_a_token_outside_the_inputs_is_refused() -> None:
    for case in BOTH:
        given, _ = values(replace(case, tokens=True))
        for token in (-1, case.inputs):
            given.inputs[3, 4] = token
            with pytest.raises(IndexError, match=r"input holds a token outside 0 … 4 \(input_size is 5\)"):
                native_gated.forward(given, case.options)


BY_CAPABILITY = {"AVX512": ["avx512", "avx2", "baseline"], "AVX2": ["avx2", "baseline"]}
AVAILABLE = BY_CAPABILITY.get(torch.backends.cpu.get_cpu_capability(), ["baseline"])


@pytest.mark.skipif(len(AVAILABLE) == 1, reason="the other tests run on this machine's only instruction set")
@pytest.mark.parametrize("isa", AVAILABLE[1:])
def test_lesser_instruction_sets_equal_the_reference(isa: str) -> None:
    tests = [f"test_everything_equals_the_reference[{case}]" for case in CASES[::2]]
    tests += [f"test_float32_equals_the_reference_in_float64[{case}]" for case in SINGLE]
    tests += ["test_the_kernel_uses_the_instruction_set_it_was_asked_for"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *(f"{__file__}::{test}" for test in tests)],
        env=os.environ | {"STEADYGRAD_ISA": isa, "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert f"{len(tests)} passed" in run.stdout


def test_the_kernel_uses_the_instruction_set_it_was_asked_for() -> None:
    # The test above runs this file once per set.
    wanted = os.environ.get("STEADYGRAD_ISA")
    assert native.instruction_set() in ({wanted} if wanted else {"baseline", "avx2", "avx512"})

"""Every output, every gradient and every measured norm of the hand-written backends against the autograd loop."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from recurrent_cases import CASES, CHOICES, GATED, SINGLE, Case, computed, distance
from torch import Tensor

from steadygrad.recurrence import native

# float64 keeps 16 digits; 50 steps of sums over at most 67 units lose three or four of them. The rest is margin.
RELATIVE = 1e-9
needs_kernel = pytest.mark.skipif(native.library() is None, reason="the C++ kernel is not built")
ENGINES = ["torch", pytest.param("native", marks=needs_kernel)]


@functools.lru_cache(maxsize=4)  # the backends of a case are tested one after the other
def _expected(case: Case, scale: float = 1.0) -> dict[str, Tensor]:
    return computed(case, "reference", scale=scale)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients_equal_the_reference(engine: str, case: Case) -> None:
    expected, found = _expected(case), computed(case, engine)
    assert found.keys() == expected.keys()
    far = {name: distance(found[name], expected[name]) for name in expected}
    assert all(apart <= RELATIVE for apart in far.values()), {name: a for name, a in far.items() if not a <= RELATIVE}


@pytest.mark.parametrize("case", CASES[::10], ids=str)
def test_every_gradient_is_there_and_not_all_zero(fast_backend: str, case: Case) -> None:
    # Guards the comparison above: two backends that both return nothing would agree.
    found = computed(case, fast_backend)
    cells = case.layers * (1 + case.bidirectional)
    wanted = cells * (4 if case.bias else 2) + (not case.tokens) + case.h0 * (2 if case.cell == "LSTM" else 1)
    gradients = {
        name: value for name, value in found.items() if name not in ("output", "last") and "measured" not in name
    }
    assert len(gradients) == wanted
    # Without an earlier state (one step from zeros) W_hh multiplies nothing, and units of a relu may all be off.
    if case.steps > 1 and case.nonlinearity != "relu":  # (gated cells are tanh here)
        assert all(value.abs().max() > 0 for value in gradients.values())


@pytest.mark.parametrize("choices", [CHOICES, GATED], ids=["plain", "gated"])
def test_every_three_options_meet_in_every_combination(choices: dict[str, Sequence[Any]]) -> None:
    rows = [[getattr(case, name) for name in choices] for case in CASES if case.cell in choices["cell"]]
    for names in itertools.combinations(range(len(choices)), 3):
        combinations = itertools.product(*(list(choices.values())[i] for i in names))
        assert set(combinations) <= {tuple(row[i] for i in names) for row in rows}


# float32 keeps 7 digits, and three or four are lost as above.
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", SINGLE, ids=str)
def test_float32_equals_the_reference_in_float64(engine: str, case: Case) -> None:
    expected, found = _expected(case, 0.01), computed(case, engine, torch.float32, scale=0.01)
    far = {name: distance(found[name], expected[name]) for name in expected}
    assert all(apart <= 2e-4 for apart in far.values()), {name: a for name, a in far.items() if not a <= 2e-4}


# The kernel computes the columns past the last whole vector in one of three ways, by how many they are.
PLAIN: dict[str, Any] = {"layers": 1, "bidirectional": False, "nonlinearity": "tanh", "leak": 0.0, "packed": False}
PLAIN |= {"omega": "paper", "clip_error": None, "tokens": False, "bias": True, "alpha": 0.7, "h0": True, "loss": "last"}


@needs_kernel
@pytest.mark.parametrize("inputs", [1, 6, 90])  # with many, the two products of a step are computed one after the other
@pytest.mark.parametrize("first", range(2, 72, 10))
def test_layers_of_every_width_equal_torch_operations(first: int, inputs: int) -> None:
    for hidden, batch in zip(range(first, first + 10), itertools.cycle((1, 3, 10, 13)), strict=False):
        case = Case("RNN", steps=4, batch=batch, inputs=inputs, hidden=hidden, **PLAIN)
        expected = computed(case, "torch")
        for dtype, allowed in ((torch.float64, RELATIVE), (torch.float32, 2e-5)):
            found = computed(case, "native", dtype)
            far = {name: distance(found[name], expected[name]) for name in expected}
            assert all(apart <= allowed for apart in far.values()), (case, dtype, far)


@needs_kernel
def test_the_kernel_uses_the_instruction_set_it_was_asked_for() -> None:
    # test_instruction_sets.py runs this file once per set.
    wanted = os.environ.get("STEADYGRAD_ISA")
    assert native.instruction_set() in ({wanted} if wanted else {"baseline", "avx2", "avx512"})

"""The kernel on every instruction set this machine has, and on one thread or several."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from recurrent_cases import CASES, SINGLE, Case, computed

from steadygrad.recurrence import native

pytestmark = pytest.mark.skipif(native.library() is None, reason="the C++ kernel is not built")
SUITE = Path(__file__).with_name("test_gradients_agree.py")

# What the machine can do, best first. The best is what every other test runs on.
BY_CAPABILITY = {"AVX512": ["avx512", "avx2", "baseline"], "AVX2": ["avx2", "baseline"]}
AVAILABLE = BY_CAPABILITY.get(torch.backends.cpu.get_cpu_capability(), ["baseline"])


@pytest.mark.skipif(len(AVAILABLE) == 1, reason="the other tests run on this machine's only instruction set")
@pytest.mark.parametrize("isa", AVAILABLE[1:])
def test_lesser_instruction_sets_equal_the_reference(isa: str) -> None:
    # Every fifth case; among them are all nonlinearities, and widths that end within a vector.
    tests = [f"{SUITE}::test_outputs_and_gradients_equal_the_reference[{case}-native]" for case in CASES[::5]]
    tests += [f"{SUITE}::test_float32_equals_the_reference_in_float64[{case}-native]" for case in SINGLE[::5]]
    tests += [f"{SUITE}::test_layers_of_every_width_equal_torch_operations[{first}-6]" for first in range(2, 72, 10)]
    tests += [f"{SUITE}::test_the_kernel_uses_the_instruction_set_it_was_asked_for"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests],
        env=os.environ | {"STEADYGRAD_ISA": isa, "OMP_NUM_THREADS": "1"},
        cwd=SUITE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert f"{len(tests)} passed" in run.stdout


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


# Batches of 16 and more are cut into slices that threads share; whoever adds them up must do it in one order.
WIDE = [replace(case, batch=70, steps=min(case.steps, 7)) for case in CASES[::12]]


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", WIDE, ids=str)
def test_results_are_the_same_bits_on_any_number_of_threads(case: Case, dtype: torch.dtype) -> None:
    torch.set_num_threads(1)
    alone = computed(case, "native", dtype)
    for count in (2, 5):
        torch.set_num_threads(count)
        together = computed(case, "native", dtype)
        assert together.keys() == alone.keys()
        assert all(torch.equal(together[name], alone[name]) for name in alone)


@pytest.mark.usefixtures("threads")
def test_calls_of_changing_width_never_mix_up_their_threads() -> None:
    # A thread that took no part in a narrow call must not be counted twice in the wide one that follows.
    narrow, wide = (replace(CASES[0], batch=batch, steps=3, hidden=3, layers=1, packed=False) for batch in (16, 256))
    torch.set_num_threads(8)
    expected = {case: computed(case, "native") for case in (narrow, wide)}
    for _ in range(60):
        for case, wanted in expected.items():
            found = computed(case, "native")
            assert all(torch.equal(found[name], wanted[name]) for name in wanted)

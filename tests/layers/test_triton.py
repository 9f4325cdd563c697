"""backend="triton" without a GPU: what is refused, the kernels in Triton's interpreter, and compiled for devices."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from interpreted_triton import PARTS
from recurrent_cases import CHOICES

import steadygrad as sg
from steadygrad.recurrence import run, triton

FOLDER = Path(__file__).parent
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed: pip install 'steadygrad[triton]'"
)


def _pytest(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | variables,
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )


@needs_triton
@pytest.mark.parametrize("part", range(PARTS))
def test_the_interpreted_kernels_equal_the_reference(part: int) -> None:
    only = () if part == 0 else ("-k", "reference or device")  # the tests that are not about cases run once
    ran = _pytest("interpreted_triton.py", *only, TRITON_INTERPRET="1", STEADYGRAD_TEST_PART=str(part))
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    assert "passed" in ran.stdout
    assert "skipped" not in ran.stdout


def test_the_interpreted_cases_cover_what_the_other_backends_are_tested_with() -> None:
    from interpreted_triton import CASES

    for name, choices in CHOICES.items():
        if name not in ("steps", "batch", "inputs", "hidden"):
            assert {getattr(case, name) for case in CASES} == set(choices), name


@needs_triton
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_the_kernels_compile_for_a_device_and_hold_the_matrix_in_registers(dtype: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "compiled_triton.py", dtype],
        env=os.environ | {"TRITON_CACHE_DIR": str(tmp_path), "TRITON_INTERPRET": "0"},
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    lines = ran.stdout.splitlines()
    assert len(lines) == 4, ran.stdout
    assert all(line.endswith("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") for line in lines), lines


@needs_triton
def test_a_layer_on_the_cpu_is_refused_when_it_computes_in_one_sentence() -> None:
    rnn = sg.RNN(3, 5, backend="triton")  # made here, to be moved to a GPU
    with pytest.raises(RuntimeError, match=r"^backend='triton' needs the layer on a CUDA device, and it is on cpu: "):
        rnn(torch.randn(4, 2, 3))
    assert rnn.computed_by == "triton"


@pytest.mark.parametrize("cell", [sg.GRU, sg.LSTM])
def test_gated_layers_are_refused_by_name(cell: type[sg.GRU | sg.LSTM]) -> None:
    with pytest.raises(ValueError, match=rf"for {cell.__name__}, not 'triton', which computes sg.RNN alone$"):
        cell(3, 5, backend="triton")


def test_a_missing_triton_is_refused_when_the_layer_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "_is_found", lambda: False)
    with pytest.raises(RuntimeError, match=r"^backend='triton' needs Triton, which is not installed: pip install"):
        sg.RNN(3, 5, backend="triton")


@needs_triton
def test_auto_never_takes_triton_and_the_layer_says_what_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnAGpu:
        is_cpu, is_cuda, is_meta, dtype, shape = False, True, False, torch.float32, (5, 5)

    weight = OnAGpu()
    chosen = {name: run.choose(name, weight) for name in run.BACKENDS if name != "native"}  # type: ignore[arg-type]
    assert chosen == {"auto": "torch", "reference": "reference", "torch": "torch", "triton": "triton"}
    assert sg.RNN(3, 129, backend="triton").computed_by == "torch"
    assert sg.RNN(3, 128, backend="triton", dtype=torch.float16).computed_by == "torch"
    assert sg.RNN(3, 5, backend="reference").computed_by == "reference"


def test_the_kernels_are_not_loaded_until_they_are_needed() -> None:
    # (torch may load Triton itself.)
    code = (
        "import sys, steadygrad as sg; sg.RNN(3, 5); assert 'steadygrad.recurrence.triton_kernels' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

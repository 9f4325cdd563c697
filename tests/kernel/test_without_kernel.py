"""Without a C++ compiler the package installs and computes in torch operations; asking for the kernel says how to get it."""

from __future__ import annotations

import inspect
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

import steadygrad as sg
from steadygrad.recurrence import native

ROOT = Path(__file__).parents[2]
LIBRARIES = (".so", ".dylib", ".dll")
PIP = ("--no-index", "--no-build-isolation", "--no-deps", "--verbose", "--wheel-dir")

USE_IT = """
import torch, steadygrad as sg
from steadygrad.recurrence import native
assert native.library() is None and native.instruction_set() is None, native.library()
rnn = sg.RNN(3, 5, alpha=0.5)
rnn(torch.randn(6, 2, 3))[0][-1].sum().backward()
assert rnn.flow.active == 1.0
try:
    sg.RNN(3, 5, backend="native")
except RuntimeError as refusal:
    print(refusal)
"""


def test_a_wheel_is_built_without_a_compiler_and_works(tmp_path: Path) -> None:
    source = tmp_path / "source"
    unwanted = shutil.ignore_patterns("*.so", "*.dylib", "*.dll", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", source / "src", ignore=unwanted)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", str(source), *PIP, str(tmp_path)],
        env=os.environ | {"CC": "/bin/false", "CXX": "/bin/false"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = build.stdout + build.stderr
    assert build.returncode == 0, said[-4000:]
    assert "the C++ kernel was not built" in said
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "installed")
    assert "steadygrad/layers/rnn.py" in names
    assert "steadygrad/kernel/recurrence.cpp" in names  # so that it can be built later
    assert not [name for name in names if name.endswith(LIBRARIES)]

    use = subprocess.run(
        [sys.executable, "-W", "error", "-c", USE_IT],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "installed")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert use.returncode == 0, use.stderr
    assert use.stdout.strip() == native.HOW_TO_GET_IT


def test_auto_equals_torch_where_the_kernel_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "library", lambda: None)
    torch.manual_seed(0)
    auto = sg.RNN(3, 5, alpha=0.5)
    by_hand = sg.RNN(3, 5, alpha=0.5, backend="torch")
    by_hand.load_state_dict(auto.state_dict())
    x = torch.randn(6, 2, 3)
    for rnn in (auto, by_hand):
        rnn(x)[0].square().sum().backward()
    for first, second in zip(auto.parameters(), by_hand.parameters(), strict=True):
        assert first.grad is not None
        assert second.grad is not None
        assert torch.equal(first.grad, second.grad)


def test_native_is_refused_where_the_kernel_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as missing:
        missing.setattr(native, "library", lambda: None)
        with pytest.raises(RuntimeError, match=r"^backend='native' needs the C\+\+ kernel, which was not built"):
            sg.RNN(3, 5, backend="native")


@pytest.mark.skipif(native.library() is None, reason="the C++ kernel is not built")
def test_a_layer_that_comes_from_a_machine_with_the_kernel_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rnn = sg.RNN(3, 5, backend="native")
    monkeypatch.setattr(native, "library", lambda: None)
    with pytest.raises(RuntimeError, match="install a C"):
        rnn(torch.randn(6, 2, 3))


@pytest.mark.skipif(native.library() is None, reason="the C++ kernel is not built")
def test_a_library_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    # A structure of another size has other fields: the kernel would read anywhere.
    look = inspect.unwrap(native.library)  # past its cache
    assert look() is not None
    for name in ("PROBLEM", "GATED_PROBLEM"):
        with monkeypatch.context() as other:
            other.setattr(native, name, struct.Struct(getattr(native, name).format + "q"))
            assert look() is None

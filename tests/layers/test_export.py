"""Exported layers run where steadygrad is not installed: torch.export, torch.jit.trace, and both ONNX exporters."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import exported_layers
import pytest
import torch
from exported_layers import LAYERS, given, layer

import steadygrad as sg


@pytest.fixture(autouse=True)
def _warnings_of_torchs_exporters() -> None:
    """Exporters warn of their own deprecations; what this library warns of is tested by name."""
    for category in (DeprecationWarning, FutureWarning, UserWarning, torch.jit.TracerWarning):
        warnings.simplefilter("ignore", category)


def test_exported_and_traced_layers_run_in_a_process_without_steadygrad(tmp_path: Path) -> None:
    for name in LAYERS:
        x, made = given(name), layer(name)
        torch.save(made(x)[0].detach(), tmp_path / f"{name}.expected")
        torch.export.save(torch.export.export(made, (x,)), tmp_path / f"{name}.pt2")
        torch.jit.save(torch.jit.trace(made, x), tmp_path / f"{name}.pt")
    run = subprocess.run(
        [sys.executable, exported_layers.__file__, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert set(run.stdout.split()) == {f"{name}.{kind}" for name in LAYERS for kind in ("pt", "pt2")}


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("name", LAYERS)
def test_onnx_gives_the_layers_numbers(name: str, exporter: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="ONNX export needs the package onnx (the extra 'export')")
    runtime = pytest.importorskip("onnxruntime", reason="running an ONNX file needs onnxruntime (the extra 'export')")
    if exporter == "dynamo":
        pytest.importorskip("onnxscript", reason="this exporter needs onnxscript (the extra 'export')")
    x, made, file = given(name), layer(name), tmp_path / "layer.onnx"
    torch.onnx.export(made, (x,), str(file), dynamo=exporter == "dynamo", input_names=["x"], verbose=False)
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    found = torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
    torch.testing.assert_close(found, made(x)[0].detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [{"alpha": 0.5}, {"clip_error": 1.0}], ids=["omega", "clip_error"])
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_what_an_exported_layer_leaves_out_is_said(cell: str, options: dict[str, float]) -> None:
    made = getattr(sg, cell)(3, 4, **options)
    with pytest.warns(UserWarning, match="an exported layer is the network alone: trained further, it has no Ω"):
        torch.export.export(made, (torch.randn(5, 2, 3),))
    with pytest.warns(UserWarning, match="an exported layer is the network alone"):
        torch.jit.trace(made, torch.randn(5, 2, 3))


def test_an_exported_layer_in_training_leaves_the_flow_of_others_alone() -> None:
    made, other = sg.RNN(3, 4), sg.RNN(3, 4)
    other(torch.randn(7, 2, 3))[0].sum().backward()
    program = torch.export.export(made, (torch.randn(5, 2, 3),)).module()
    program(torch.randn(5, 2, 3))[0].sum().backward()
    assert other.flow.norms.shape == (7,)
    assert len(made.flow) == 0


@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_an_export_changes_nothing_of_the_layer_itself(cell: str) -> None:
    made = getattr(sg, cell)(3, 4, alpha=0.5)
    x = torch.randn(5, 2, 3)
    made(x)[0].sum().backward()
    before = made.weight_hh_l0.grad.clone()
    torch.export.export(made, (x,))
    made.zero_grad()
    made(x)[0].sum().backward()
    assert torch.equal(made.weight_hh_l0.grad, before)

"""Edges that once were wrong: range of float32, parameters exchanged for others, compilation, other devices."""

import subprocess
import sys

import pytest
import torch

import steadygrad as sg

FAST = pytest.mark.parametrize("backend", ["torch", "native"])


@FAST
@pytest.mark.parametrize("scale", [1e-28, 1e-9, 1.0, 30.0, 1e25, 1e34])
def test_float32_flow_equals_float64(backend, scale):
    torch.manual_seed(1)
    rnn = sg.RNN(2, 4, nonlinearity="identity", bias=False, alpha=1.0, backend=backend)
    exact = sg.RNN(2, 4, nonlinearity="identity", bias=False, alpha=1.0, backend="reference", dtype=torch.float64)
    exact.load_state_dict(rnn.state_dict())
    w = torch.randn(3, 4, generator=torch.Generator().manual_seed(3))
    for each in (rnn, exact):
        x = torch.zeros(6, 3, 2, dtype=each.weight_hh_l0.dtype)  # zero states: dE/dW_hh is 0, only Ω's part is left
        (each(x)[0][-1] * w * scale).sum().backward()
    assert rnn.flow.omega == pytest.approx(exact.flow.omega, rel=1e-5)
    torch.testing.assert_close(rnn.weight_hh_l0.grad.double(), exact.weight_hh_l0.grad, rtol=1e-4, atol=1e-5)


@FAST
def test_float32_errors_that_vanish_in_one_step_still_count(backend):
    rnn = sg.RNN(2, 4, nonlinearity="identity", bias=False, alpha=1.0, backend=backend)
    with torch.no_grad():
        rnn.weight_hh_l0.mul_(1e-25)
    rnn(torch.zeros(2, 3, 2))[0][-1].sum().backward()
    assert rnn.flow.omega == pytest.approx(1.0)
    assert rnn.flow.active == 1.0


@pytest.mark.parametrize("backend", ["auto", "native"])
def test_compiled_layer_equals_eager(backend):
    torch._dynamo.reset()
    rnn, x = sg.RNN(3, 5, alpha=0.5, backend=backend, dtype=torch.float64), torch.randn(6, 4, 3, dtype=torch.float64)
    eager = torch.autograd.grad(rnn(x)[0].square().sum(), list(rnn.parameters()))
    compiled = torch.compile(lambda x: rnn(x)[0].square().sum(), backend="aot_eager", fullgraph=True)
    found = torch.autograd.grad(compiled(x), list(rnn.parameters()))
    for a, b in zip(found, eager, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-14)


def test_reference_takes_undefined_gradients():
    rnn = sg.RNN(2, 3, backend="reference", dtype=torch.float64)
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: rnn(x), (x,))


def test_meta_device_works_as_in_torch():
    output, _ = sg.RNN(3, 5, device="meta")(torch.ones(4, 2, 3, device="meta"))
    assert output.shape == (4, 2, 5)


@pytest.mark.parametrize(
    "change",
    [
        "rnn.weight_ih_l0 = torch.nn.Parameter(rnn.weight_ih_l0.detach().float())",
        "rnn.weight_ih_l0 = torch.nn.Parameter(torch.randn(2, 3).double())",
        "rnn.weight_hh_l0 = torch.nn.Parameter(torch.randn(50, 7).double())",
        "rnn.bias_ih_l0 = torch.nn.Parameter(torch.randn(3).double())",
    ],
)
def test_parameters_that_do_not_fit_each_other_are_refused(change):
    code = f"""
import torch, steadygrad as sg
rnn = sg.RNN(3, 50, backend="native", dtype=torch.float64)
{change}
try:
    rnn(torch.randn(4, 2, 3, dtype=torch.float64))[0].sum().backward()
except (ValueError, TypeError, RuntimeError) as refusal:
    print("refused", refusal)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout[:7]) == (0, "refused"), (run.stdout, run.stderr)


@pytest.mark.parametrize(
    "changed",
    [
        {"errors": torch.ones(3, 2, 5).double()},
        {"weight_hh": torch.eye(5).double()},
        {"errors": torch.ones(3, 2, 5, device="meta")},
        {"hidden": torch.ones(3, 2, 5).long(), "errors": torch.ones(3, 2, 5).long(), "weight_hh": torch.eye(5).long()},
    ],
)
def test_omega_refuses_mixed_dtypes_and_devices_by_name(changed):
    given = {
        "hidden": torch.ones(3, 2, 5),
        "errors": torch.ones(3, 2, 5),
        "weight_hh": torch.eye(5),
        "nonlinearity": "tanh",
    }
    with pytest.raises((ValueError, TypeError), match=r"errors|weight_hh|hidden"):
        sg.omega(**(given | changed))


@pytest.mark.parametrize("token", [3, -1])
def test_reference_refuses_tokens_out_of_range_with_the_same_sentence(token):
    with pytest.raises(IndexError, match="input holds a token outside 0 … 2"):
        sg.RNN(3, 5, backend="reference")(torch.full((4, 2), token))

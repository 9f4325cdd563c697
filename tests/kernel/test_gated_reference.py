"""The reference of the gated kernel: its outputs and gradients are torch's, and Ω's derivative has the kernel's closed form."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from gated_kernel_cases import CASES, Case, Loss, values
from gated_reference import cell, reference
from torch import Tensor

from steadygrad.recurrence.options import Given, Options

# Both sides compute in float64, in another order: all but three or four of its 16 digits agree.
RELATIVE = 1e-11


def distance(found: Tensor, expected: Tensor) -> float:
    """‖found − expected‖ / ‖expected‖; 0 where both are zero, NaN where either is not a number."""
    apart = (found - expected).norm()
    return 0.0 if apart == 0 else float(apart / expected.norm())


PLAIN = [replace(c, tokens=False, lengths=False, reverse=False, clip_error=None, alpha=0.0) for c in CASES[::12]]


@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_the_reference_computes_what_torchs_layer_computes(case: Case) -> None:
    given, loss = values(case)
    layer = getattr(torch.nn, case.mode)(case.inputs, case.hidden, bias=case.bias, dtype=torch.float64)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.copy_(getattr(given, name.removesuffix("_l0")))
    zeros = torch.zeros(1, case.batch, case.hidden, dtype=torch.float64)
    h0 = (zeros if given.h0 is None else given.h0.unsqueeze(0)).requires_grad_()
    c0 = (zeros.clone() if given.c0 is None else given.c0.unsqueeze(0)).requires_grad_()
    x = given.inputs.clone().requires_grad_()
    output, last = layer(x, (h0, c0) if case.mode == "LSTM" else h0)
    found = {"output": output}
    found |= {"last": last[0], "last_c": last[1]} if case.mode == "LSTM" else {"last": last}
    total = sum(
        ((found[name] * weights).sum() for name, weights in vars(loss).items() if weights is not None),
        torch.zeros((), dtype=torch.float64),
    )
    total.backward()
    found |= {f"grad {name.removesuffix('_l0')}": p.grad for name, p in layer.named_parameters()}
    found["grad inputs"] = x.grad
    if case.state:
        found |= {"grad h0": h0.grad[0]} | ({"grad c0": c0.grad[0]} if case.mode == "LSTM" else {})
    expected = reference(given, case.options, loss)
    assert found.keys() == expected.keys() - {"measured"}
    far = {name: distance(found[name].detach(), expected[name]) for name in found}
    assert all(apart <= RELATIVE for apart in far.values()), far


def closed_form(
    mode: str, x: Tensor, state: tuple[Tensor, ...], e: tuple[Tensor, ...], w: tuple[Tensor, ...], given: Given
) -> tuple[tuple[Tensor, ...], Tensor]:
    """v, and Σ P ⊗ h + G ⊗ w_h: the derivative of Σ v · w with respect to W_hh, w held constant."""
    h, W = state[0], given.weight_hh
    a = torch.nn.functional.linear(x, given.weight_ih, given.bias_ih)
    b = torch.nn.functional.linear(h, W, given.bias_hh)
    if mode == "GRU":
        r, z = (a + b).chunk(3, 1)[0].sigmoid(), (a + b).chunk(3, 1)[1].sigmoid()
        m = b.chunk(3, 1)[2]
        n = torch.tanh(a.chunk(3, 1)[2] + r * m)
        (e_h,), (w_h,) = e, w
        dn = e_h * (1 - z) * (1 - n**2)
        G = torch.cat([dn * m * r * (1 - r), e_h * (h - n) * z * (1 - z), dn * r], 1)
        gamma_r, gamma_z, gamma_m = (w_h @ W.T).chunk(3, 1)
        t = gamma_r * m * r * (1 - r) + gamma_m * r
        to_z = e_h * (w_h + gamma_z * (h - n) * (1 - 2 * z) - t * (1 - n**2))
        to_n = -e_h * (1 - z) * (gamma_z * z + 2 * n * t)
        to_r = (gamma_r * m * (1 - 2 * r) + gamma_m) * dn
        to_m = gamma_r * dn * r * (1 - r)
        a_n = to_n * (1 - n**2)
        P = torch.cat([(to_r + a_n * m) * r * (1 - r), to_z * z * (1 - z), to_m + a_n * r], 1)
        return (e_h * z + G @ W,), P.T @ h + G.T @ w_h
    i, f, g, o = (a + b).chunk(4, 1)
    i, f, g, o, c = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid(), state[1]
    p = torch.tanh(f * c + i * g)
    (e_h, e_c), (w_h, w_c) = e, w
    d = e_c + e_h * o * (1 - p**2)
    G = torch.cat([d * g * i * (1 - i), d * c * f * (1 - f), d * i * (1 - g**2), e_h * p * o * (1 - o)], 1)
    gamma_i, gamma_f, gamma_g, gamma_o = (w_h @ W.T).chunk(4, 1)
    to_d = f * w_c + gamma_i * g * i * (1 - i) + gamma_f * c * f * (1 - f) + gamma_g * i * (1 - g**2)
    to_c = e_h * (gamma_o * o * (1 - o) - 2 * p * o * to_d) * (1 - p**2)
    to_i = d * (gamma_i * g * (1 - 2 * i) + gamma_g * (1 - g**2)) + to_c * g
    to_f = d * (w_c + gamma_f * c * (1 - 2 * f)) + to_c * c
    to_g = d * (gamma_i * i * (1 - i) - 2 * g * i * gamma_g) + to_c * i
    to_o = e_h * (gamma_o * p * (1 - 2 * o) + to_d * (1 - p**2))
    P = torch.cat([to_i * i * (1 - i), to_f * f * (1 - f), to_g * (1 - g**2), to_o * o * (1 - o)], 1)
    return (G @ W, d * f), P.T @ h + G.T @ w_h


@pytest.mark.parametrize("mode", ["GRU", "LSTM"])
def test_the_closed_form_of_omegas_derivative_equals_the_double_backward(mode: str) -> None:
    given, _ = values(Case(mode, 1, 9, 3, 7, False, False, False, True, True, "both", "paper", None, 1.0))
    draw = torch.Generator().manual_seed(1)
    parts = 2 if mode == "LSTM" else 1
    error = tuple(torch.randn(9, 7, dtype=torch.float64, generator=draw) for _ in range(parts))
    towards = tuple(torch.randn(9, 7, dtype=torch.float64, generator=draw) for _ in range(parts))
    state = tuple(part.requires_grad_() for part in (given.h0, given.c0) if part is not None)
    weight = given.weight_hh.clone().requires_grad_()
    after = cell(mode, given.inputs[0], state, given, weight)
    v = torch.autograd.grad(after, state, error, create_graph=True)
    (expected,) = torch.autograd.grad(v, weight, towards)
    with torch.no_grad():
        found_v, found = closed_form(mode, given.inputs[0], state, error, towards, given)
    assert all(distance(a, b.detach()) <= RELATIVE for a, b in zip(found_v, v, strict=True))
    assert distance(found, expected) <= RELATIVE


def test_omega_is_part_of_the_references_gradient() -> None:
    # Guards the tests that compare with it: they must see Ω's derivative.
    case = Case("LSTM", 7, 3, 5, 5, False, True, True, True, True, "both", "paper", 0.05, 0.7)
    given, loss = values(case)
    with_omega, without = (reference(given, case.options._replace(alpha=alpha), loss) for alpha in (0.7, 0.0))
    assert distance(with_omega["grad weight_hh"], without["grad weight_hh"]) > 1e-3
    assert torch.equal(with_omega["grad weight_ih"], without["grad weight_ih"])
    assert isinstance(loss, Loss)
    assert isinstance(case.options, Options)

"""Every analysis of every kind of network against a slow version: the module's own forward pass under autograd."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from analysed_networks import NETWORKS, D, H, Minimal, OverTime, as_h0, jacobian, network, parts, state_size, step
from torch import Tensor, nn

import steadygrad as sg
from steadygrad.analysis import fixed_points, jacobian_norms, lyapunov_spectrum, temporal_components

F64 = torch.float64
T, B = 7, 3
every_network = pytest.mark.parametrize("name", NETWORKS)
PLAIN = ("RNNCell", "RNNCell with relu", "OverTime(RNNCell)")
# Off units; h' is a function of the other part of the state, so the rank is 6 of 10.
SINGULAR = ("RNNCell with relu", "OverTime(cell with two parts)")


def given(made: nn.Module) -> tuple[Tensor, Tensor]:
    """Inputs [T, B, D] and initial states [B, n]."""
    generator = torch.Generator().manual_seed(5)
    u = torch.randn(T, B, D, generator=generator, dtype=F64)
    return u, 0.5 * torch.randn(B, state_size(made), generator=generator, dtype=F64)


def quadratic(h: Tensor) -> Tensor:
    weights = torch.linspace(-1, 2, h.numel(), dtype=h.dtype).reshape(h.shape)
    return (h * weights).sum() ** 2 + h.pow(3).sum()


@every_network
def test_singular_values_and_errors_equal_products_of_autograds_jacobians(name: str):
    made = network(name)
    u, s0 = given(made)
    error = torch.randn(state_size(made), dtype=F64)
    state = "h" if name in PLAIN else None
    found = jacobian_norms(made, u, as_h0(made, s0), sample=1, error=error, state=state)
    s, jacobians = s0[1], []
    for t in range(T):
        jacobians.append(jacobian(made, u[t, 1], s))
        s = step(made, u[t, 1:2], s.unsqueeze(0))[0].detach()
    assert found.lags.tolist() == list(range(T + 1))
    assert found.log_error is not None
    product, norms = torch.eye(len(s), dtype=F64), 0.0
    for lag, J in enumerate(reversed(jacobians), 1):
        product = product @ J
        values = torch.linalg.svdvals(product)
        if values[0] == 0:  # relu units may all be off at once
            assert found.log_largest[lag] == found.log_error[lag] == -math.inf
            continue
        norms += math.log(torch.linalg.matrix_norm(J, 2))
        assert found.log_largest[lag].item() == pytest.approx(math.log(values[0]), abs=1e-10)
        along = (error @ product).norm() / error.norm()
        assert found.log_error[lag].item() == pytest.approx(math.log(along), abs=1e-10)
        if name not in PLAIN:
            assert found.log_bound[lag].item() == pytest.approx(norms, abs=1e-10)
        # The plain product carries its smallest value to eps · (largest / smallest) only.
        blur = 1e-14 * (values[0] / values[-1]).item() if values[-1] > 0 else math.inf
        if blur < 1e-3:
            assert found.log_smallest[lag].item() == pytest.approx(math.log(values[-1]), abs=1e-9 + 10 * blur)
        else:
            assert found.log_smallest[lag] < math.log(values[0]) - 20
    assert (found.log_largest <= found.log_bound + 1e-12).all()
    if name not in SINGULAR:
        assert found.log_smallest.isfinite().all()


@every_network
def test_temporal_components_equal_autograds_for_a_copy_of_the_network_at_each_step(name: str):
    made = network(name)
    u, s0 = given(made)
    found = temporal_components(made, u, quadratic, t=T - 1, h0=as_h0(made, s0))
    copies = [network(name) for _ in range(T - 1)]
    s = s0
    for k, copy in enumerate(copies):
        s = step(copy, u[k], s)
    quadratic(parts(made, s)[0]).backward()
    inner = [getattr(copy, "cell", copy) if isinstance(copy, OverTime) else copy for copy in copies]
    expected: dict[str, list[Tensor]] = {}
    for copy in inner:
        for key, parameter in copy.named_parameters():
            assert parameter.grad is not None
            expected.setdefault(key.removesuffix("_l0"), []).append(parameter.grad)
    if name in PLAIN:
        expected["bias"] = expected.pop("bias_ih")
        del expected["bias_hh"]
    assert set(found.sum) == set(expected)
    for key, gradients in expected.items():
        norms = torch.stack([gradient.norm() for gradient in gradients])
        torch.testing.assert_close(found.norms[key], norms, rtol=1e-9, atol=1e-14)
        total = torch.stack(gradients).sum(0)
        torch.testing.assert_close(found.sum[key], total, rtol=1e-9, atol=1e-10 * total.abs().max().item())


@every_network
def test_exponents_equal_a_plain_qr_iteration_over_autograds_jacobians(name: str):
    made = network(name)
    u, s0 = given(made)
    found = lyapunov_spectrum(made, u, as_h0(made, s0), burn_in=2)
    n = state_size(made)
    for b in range(B):
        s, J = s0[b], []
        for t in range(T):
            J.append(jacobian(made, u[t, b], s))
            s = step(made, u[t, b : b + 1], s.unsqueeze(0))[0].detach()
        Q, _ = torch.linalg.qr(torch.randn(n, n, generator=torch.Generator().manual_seed(0), dtype=F64))
        sums = torch.zeros(n, dtype=F64)
        for t in range(T):
            Q, R = torch.linalg.qr(J[t] @ Q)
            if t >= 2:
                sums += R.diagonal().abs().log()
        expected = (sums / (T - 2)).sort(descending=True).values
        lost = found.per_sequence[b].isinf()
        torch.testing.assert_close(found.per_sequence[b][~lost], expected[~lost], rtol=0, atol=1e-8)
        # What is lost for good was rounding to the plain iteration.
        assert (expected[lost] < -4).all()
    assert found.steps == T - 2
    if name not in SINGULAR:
        assert found.exponents.isfinite().all()
    if name == "OverTime(cell with two parts)":
        assert found.exponents.isfinite().tolist() == [True] * 6 + [False] * 4


@every_network
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_fixed_points_stay_where_they_are_and_nearby_states_follow_the_eigenvalues(name: str, scale: float):
    made = network(name, scale=scale, seed=3)
    u = torch.tensor([0.3, -0.2, 0.1], dtype=F64)
    points = fixed_points(made, u, starts=40)
    assert points
    for point in points:
        again = step(made, u.unsqueeze(0), point.state.unsqueeze(0))[0].detach()
        torch.testing.assert_close(again, point.state, rtol=0, atol=1e-9 * (1 + point.state.norm().item()))
        assert torch.equal(point.h, point.state[:H])
        assert (point.x is not None) == (name in PLAIN)
        J = jacobian(made, u, point.state)
        expected = torch.linalg.eigvals(J).abs().sort(descending=True).values
        torch.testing.assert_close(point.eigenvalues.abs(), expected, rtol=1e-6, atol=1e-6)
        assert point.stable == bool(expected[0] < 1)
        if point.stable:  # it draws a neighbour back
            near = point.state + 1e-4 * torch.randn(len(point.state), dtype=F64)
            for _ in range(400):
                near = step(made, u.unsqueeze(0), near.unsqueeze(0))[0].detach()
            assert (near - point.state).norm() < 1e-4 * max(point.spectral_radius**200, 1e-6)


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
@pytest.mark.parametrize("maker", [nn, sg], ids=["torch", "sg"])
def test_an_upper_layer_is_driven_by_the_one_below(kind: str, maker: Any):
    torch.manual_seed(1)
    both = getattr(maker, kind)(D, H, num_layers=2, dropout=0.5).double()
    above = getattr(nn, kind)(H, H).double()
    below = getattr(nn, kind)(D, H).double()
    with torch.no_grad():
        for name, parameter in above.named_parameters():
            parameter.copy_(getattr(both, name.replace("l0", "l1")))
        for name, parameter in below.named_parameters():
            parameter.copy_(getattr(both, name))
    u = torch.randn(9, 2, D, dtype=F64)
    hidden = below(u)[0].detach()
    for analysis in (
        lambda net, x, **layer: jacobian_norms(net, x, sample=1, **layer).log_largest,
        lambda net, x, **layer: lyapunov_spectrum(net, x, **layer).exponents,
        lambda net, x, **layer: temporal_components(net, x, quadratic, **layer).log_norms["weight_hh"],
    ):
        torch.testing.assert_close(analysis(both, u), analysis(above, hidden), rtol=0, atol=1e-10)
        torch.testing.assert_close(analysis(both, u, layer=0), analysis(below, u), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["torch.nn.LSTM", "sg.GRU", "GRUCell", "LSTMCell", "OverTime(LSTMCell)"])
def test_tokens_one_state_for_all_and_single_sequences_are_understood(name: str):
    made = network(name)
    tokens = torch.randint(D, (T, B), generator=torch.Generator().manual_seed(0))
    vectors = nn.functional.one_hot(tokens, D).double()
    by_token, by_vector = jacobian_norms(made, tokens, sample=1), jacobian_norms(made, vectors, sample=1)
    assert torch.equal(by_token.log_largest, by_vector.log_largest)
    alone = jacobian_norms(made, vectors[:, 1])
    torch.testing.assert_close(alone.log_largest, by_token.log_largest, rtol=0, atol=1e-12)
    s = torch.randn(state_size(made), dtype=F64)
    shared = as_h0(made, s.unsqueeze(0))
    squeeze = 1 if isinstance(made, nn.RNNBase) else 0
    one = shared.squeeze(squeeze) if isinstance(shared, Tensor) else tuple(part.squeeze(squeeze) for part in shared)
    for_all = lyapunov_spectrum(made, vectors, one)
    each = lyapunov_spectrum(made, vectors, as_h0(made, s.expand(B, -1)))
    assert torch.equal(for_all.exponents, each.exponents)


@pytest.mark.parametrize("inner", [nn.GRUCell, nn.LSTMCell, Minimal])
def test_batch_first_and_reverse_of_a_wrapper_are_read(inner: Any):
    torch.manual_seed(0)
    cell = inner() if inner is Minimal else inner(D, H)
    u = torch.randn(T, B, D)
    plain = lyapunov_spectrum(OverTime(cell), u).exponents
    turned = lyapunov_spectrum(OverTime(cell, batch_first=True, reverse=True), u.flip(0).transpose(0, 1)).exponents
    assert torch.equal(plain, turned)


def test_an_error_of_h_alone_is_one_with_no_part_in_c():
    made, u = network("torch.nn.LSTM"), torch.randn(T, B, D, dtype=F64)
    short, long = torch.ones(B, H), torch.cat([torch.ones(B, H), torch.zeros(B, H)], 1)
    found, expected = (jacobian_norms(made, u, error=error, sample=2).log_error for error in (short, long))
    assert found is not None
    assert expected is not None
    assert torch.equal(found, expected)
    assert jacobian_norms(made, u).state == "hc"


@pytest.mark.parametrize("name", ["torch.nn.GRU", "LSTMCell", "OverTime(cell with two parts)"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_the_model_its_gradients_and_the_random_state_are_left_alone(name: str, mode: Any):
    made = network(name)
    u, s0 = given(made)
    for parameter in made.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = [(parameter.detach().clone(), parameter._version) for parameter in made.parameters()]
    random, training = torch.get_rng_state(), [module.training for module in made.modules()]
    with mode():
        h0 = as_h0(made, s0)
        results = [
            jacobian_norms(made, u, h0).log_largest,
            temporal_components(made, u, quadratic, h0=h0).sum,
            lyapunov_spectrum(made, u, h0).exponents,
            fixed_points(made, starts=4)[0].state,
        ]
    assert torch.equal(torch.get_rng_state(), random)
    assert [module.training for module in made.modules()] == training
    assert not any(result.requires_grad for result in results if isinstance(result, Tensor))
    for parameter, (value, version) in zip(made.parameters(), before, strict=True):
        assert torch.equal(parameter, value)
        assert parameter.grad is not None
        assert (parameter.grad == 1).all()
        assert parameter._version == version


def test_a_float32_model_is_analysed_in_float64_and_its_loss_sees_float32():
    torch.manual_seed(0)
    seen = []

    def loss(h: Tensor) -> Tensor:
        seen.append((h.dtype, tuple(h.shape)))
        return h.pow(2).sum()

    for made in (nn.LSTM(D, H), nn.GRUCell(D, H), OverTime(Minimal())):
        found = temporal_components(made, torch.randn(T, B, D), loss)
        assert all(value.dtype == F64 for value in found.sum.values())
    assert seen == [(torch.float32, (B, H))] * 3

"""Products with the Gauss-Newton matrix equal the matrix made entry by entry, with and without structural damping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, jacrev, jvp

import steadygrad as sg
from steadygrad.baselines import output_losses
from steadygrad.baselines.curvature import GaussNewton, flat, split

T, B, I, H, O = 5, 3, 2, 4, 3
LOSSES = ("cross-entropy", "squared-error", "sigmoid-cross-entropy")
TORCHS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy": lambda z, d: torch.nn.functional.cross_entropy(z.flatten(0, 1), d.flatten()),
    "squared-error": torch.nn.functional.mse_loss,
    "sigmoid-cross-entropy": torch.nn.functional.binary_cross_entropy_with_logits,
}


class Network(torch.nn.Module):
    """A recurrent layer and a read-out at every step: outputs [T, B, O] and hidden states [T, B, H]."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer, self.readout = layer, torch.nn.Linear(H, O)
        self.double()

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.layer(inputs)[0]
        return self.readout(hidden), hidden


class Loop(torch.nn.Module):
    """A loop over a cell of torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.RNNCell(I, H)

    def forward(self, inputs: Tensor) -> tuple[Tensor, None]:
        states = [inputs.new_zeros(B, H)]
        for u in inputs:
            states.append(self.cell(u, states[-1]))
        return torch.stack(states[1:]), None


LAYERS: dict[str, Callable[[], torch.nn.Module]] = {
    "loop": Loop,
    "torch RNN": lambda: torch.nn.RNN(I, H),
    "torch LSTM": lambda: torch.nn.LSTM(I, H),
    "reference": lambda: sg.RNN(I, H, backend="reference"),
    "torch operations": lambda: sg.RNN(I, H, backend="torch"),
    "auto": lambda: sg.RNN(I, H),
    "leaky": lambda: sg.RNN(I, H, leak=0.3),
    "GRU": lambda: sg.GRU(I, H),
    "LSTM": lambda: sg.LSTM(I, H),
    "any cell": lambda: sg.Recurrent(torch.nn.GRUCell(I, H)),
}


def network(layer: str = "auto") -> Network:
    torch.manual_seed(1)
    return Network(LAYERS[layer]())


def data(loss: str) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(2)
    inputs = torch.randn(T, B, I, dtype=torch.float64, generator=draw)
    if loss == "cross-entropy":
        return inputs, torch.randint(O, (T, B), generator=draw)
    return inputs, torch.rand(T, B, O, dtype=torch.float64, generator=draw)


def jacobian(net: Network, inputs: Tensor, which: int) -> Tensor:
    """∂(outputs or hidden states)/∂θ, [entries, n], by torch.func."""
    parameters = {name: each.detach() for name, each in net.named_parameters()}
    parts = jacrev(lambda p: functional_call(net, p, (inputs,))[which].flatten())(parameters)
    return torch.cat([part.flatten(1) for part in parts.values()], 1)


def explicit(net: Network, loss: str, inputs: Tensor, targets: Tensor) -> Tensor:
    """G = JᵀL J, [n, n]; L, the Hessian of torch's own loss, by torch.autograd.functional."""
    z = net(inputs)[0].detach()
    hessian: Any = torch.autograd.functional.hessian(lambda y: TORCHS[loss](y, targets), z)
    J = jacobian(net, inputs, 0)
    return J.T @ hessian.reshape(z.numel(), z.numel()) @ J


def by_products(
    net: Network, loss: Any, inputs: Tensor, targets: Any, structural: float = 0.0, **options: Any
) -> Tensor:
    """The matrix whose columns are the products with unit vectors."""
    outputs, hidden = net(inputs)
    curvature = GaussNewton(
        list(net.parameters()),
        outputs,
        output_losses.hessian_product(loss, outputs, targets),
        [hidden] if structural > 0 else [],
        **options,
    )
    n = sum(each.numel() for each in net.parameters())
    return torch.stack([curvature.product(v, structural) for v in torch.eye(n, dtype=torch.float64)], 1)


def assert_same(found: Tensor, expected: Tensor) -> None:
    # float64, and sums of some hundred terms: rounding is far below 1e-10 of the largest entry
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12 * float(expected.abs().max()))


@pytest.mark.parametrize("loss", LOSSES)
def test_products_equal_the_explicit_matrix_for_every_loss(loss: str) -> None:
    net, (inputs, targets) = network(), data(loss)
    assert_same(by_products(net, loss, inputs, targets), explicit(net, loss, inputs, targets))


@pytest.mark.parametrize("layer", LAYERS)
def test_products_equal_the_explicit_matrix_for_every_layer(layer: str) -> None:
    net, (inputs, targets) = network(layer), data("cross-entropy")
    assert_same(by_products(net, "cross-entropy", inputs, targets), explicit(net, "cross-entropy", inputs, targets))


SLOPES: dict[str, Callable[[Tensor], Tensor]] = {
    "squared": lambda h: torch.ones_like(h),
    "tanh": lambda h: 1 - h.square(),
    "sigmoid": lambda h: h * (1 - h),
}


@pytest.mark.parametrize("distance", SLOPES)
def test_structural_damping_adds_the_curvature_of_the_hidden_states(distance: str) -> None:
    net, (inputs, targets) = network(), data("squared-error")
    if distance == "sigmoid":
        net.layer = sg.RNN(I, H, nonlinearity="sigmoid", dtype=torch.float64)
    h = net(inputs)[1].detach()
    J_h = jacobian(net, inputs, 1)
    # a mean over the B sequences of a sum over steps and units
    S = J_h.T @ ((1 / SLOPES[distance](h)).flatten()[:, None] * J_h) / B
    expected = explicit(net, "squared-error", inputs, targets) + 0.7 * S
    assert_same(by_products(net, "squared-error", inputs, targets, 0.7, distance=distance), expected)


def test_several_layers_of_hidden_states_add_up() -> None:
    net, (inputs, targets) = network(), data("squared-error")
    outputs, hidden = net(inputs)
    L = output_losses.hessian_product("squared-error", outputs, targets)
    parameters = list(net.parameters())
    v = torch.randn(len(flat(parameters)), dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    whole = GaussNewton(parameters, outputs, L, [hidden]).product(v, 0.7)
    by_step = GaussNewton(parameters, outputs, L, list(hidden)).product(v, 0.7)
    assert_same(by_step, whole)


def test_the_matching_distance_of_tanh_is_the_curvature_of_a_cross_entropy() -> None:
    # D as a function: the cross-entropy of p' = (1 + h')/2 beside p = (1 + h)/2, h' = tanh(a'), differentiated twice in a'
    a = torch.linspace(-2, 2, 7, dtype=torch.float64)
    p = (1 + a.tanh()) / 2

    def distance(moved: Tensor) -> Tensor:
        q = (1 + moved.tanh()) / 2
        return -(p * q.log() + (1 - p) * (1 - q).log()).sum()

    second: Any = torch.autograd.functional.hessian(distance, a)
    assert_same(second, torch.diag(1 - a.tanh().square()))  # so in h: (1 − h²) / (1 − h²)² = 1 / (1 − h²)


def test_batch_first_divides_by_the_other_axis() -> None:
    net, (inputs, targets) = network(), data("squared-error")
    zero = explicit(net, "squared-error", inputs, targets)
    usual, first = (
        by_products(net, "squared-error", inputs, targets, 1.0, batch_first=first) for first in (False, True)
    )
    assert_same(B * (usual - zero), T * (first - zero))


def test_a_saturated_unit_adds_nothing_rather_than_nan() -> None:
    net, (inputs, targets) = network(), data("squared-error")
    with torch.no_grad():
        net.layer.get_parameter("bias_hh_l0")[0] = 1e3
    assert float(net(inputs)[1].detach().max()) == 1.0
    found = by_products(net, "squared-error", inputs, targets, 1.0, distance="tanh")
    assert bool(found.isfinite().all())


def test_a_distance_that_does_not_fit_the_states_is_refused() -> None:
    net, (inputs, targets) = network(), data("squared-error")
    with pytest.raises(
        ValueError, match=r"^hidden_distance='sigmoid' needs hidden states between 0 and 1, and they lie"
    ):
        by_products(net, "squared-error", inputs, targets, 1.0, distance="sigmoid")


@pytest.mark.parametrize("loss", LOSSES)
def test_a_function_as_loss_gives_the_products_of_its_name(loss: str) -> None:
    net, (inputs, targets) = network(), data(loss)
    assert_same(by_products(net, TORCHS[loss], inputs, targets), by_products(net, loss, inputs, targets))


def test_a_loss_that_is_linear_in_the_outputs_has_no_curvature() -> None:
    net, (inputs, targets) = network(), data("squared-error")
    assert not by_products(net, lambda z, d: (z * d).mean(), inputs, targets).any()


def test_a_loss_that_is_not_convex_is_refused() -> None:
    net, (inputs, targets) = network(), data("squared-error")
    with pytest.raises(ValueError, match=r"^loss must be convex in the outputs"):
        by_products(net, lambda z, d: -(z - d).square().mean(), inputs, targets)


# torch's jvp compiles some of its rules on first use, with what torch itself calls deprecated
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated:DeprecationWarning")
def test_forward_equals_torchs_own_forward_mode() -> None:
    net, (inputs, _) = network("reference"), data("squared-error")
    parameters = list(net.parameters())
    outputs, hidden = net(inputs)
    curvature = GaussNewton(parameters, outputs, lambda u: u, [hidden])
    v = torch.randn(len(flat(parameters)), dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    named = {name: each.detach() for name, each in net.named_parameters()}
    along = dict(zip(named, split(v, parameters), strict=True))
    expected = jvp(lambda p: functional_call(net, p, (inputs,)), (named,), (along,))[1]
    for found, one in zip(curvature.forward(v), expected, strict=True):
        assert_same(found, one)


def test_a_parameter_that_is_not_used_has_no_curvature() -> None:
    net, (inputs, targets) = network(), data("squared-error")
    expected = by_products(net, "squared-error", inputs, targets)
    net.spare = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    found = by_products(net, "squared-error", inputs, targets)
    assert next(iter(net.named_parameters()))[0] == "spare"
    assert_same(found[2:, 2:], expected)
    assert not found[:2].any()
    assert not found[:, :2].any()


def squared_gradients(net: Network, inputs: Tensor, targets: Tensor, signs: Tensor, pieces: int) -> Tensor:
    outputs, _ = net(inputs)
    (error,) = torch.autograd.grad(output_losses.value("squared-error", outputs, targets), outputs, retain_graph=True)
    curvature = GaussNewton(list(net.parameters()), outputs, lambda u: u)
    return curvature.mean_square_gradient(error, signs, 1, pieces)


def test_the_preconditioner_is_the_mean_of_the_squared_gradients_of_single_examples() -> None:
    net, (inputs, targets) = network("reference"), data("squared-error")
    of_each = []
    for b in range(B):
        outputs, _ = net(inputs[:, b : b + 1])
        one = output_losses.value("squared-error", outputs, targets[:, b : b + 1])
        of_each.append(flat(torch.autograd.grad(one, list(net.parameters()))).square())
    expected = torch.stack(of_each).mean(0)
    assert_same(squared_gradients(net, inputs, targets, torch.ones(B), B), expected)
    # in fewer pieces it is exact on average over all signs: 2³ of them
    all_signs = torch.cartesian_prod(*[torch.tensor([-1, 1])] * B)
    mean = torch.stack([squared_gradients(net, inputs, targets, signs, 2) for signs in all_signs]).mean(0)
    assert_same(mean, expected)

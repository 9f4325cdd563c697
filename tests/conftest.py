"""What the tests of the core share: the backends, every error of every step from a loop by hand, and Ω as it is printed."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import steadygrad as sg
from steadygrad.recurrence import native

# Each folder may have a conftest.py. They hold no examples, and as modules to look for some in they would share one name.
collect_ignore_glob = ["conftest.py", "*/conftest.py"]

needs_kernel = pytest.mark.skipif(native.library() is None, reason="the C++ kernel is not built")
NATIVE = pytest.param("native", marks=needs_kernel)


@pytest.fixture(params=["reference", "torch", NATIVE])
def backend(request: pytest.FixtureRequest) -> str:
    """Each backend in turn."""
    return request.param


@pytest.fixture(params=["torch", NATIVE])
def fast_backend(request: pytest.FixtureRequest) -> str:
    """Each backend whose derivatives are written by hand."""
    return request.param


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium without a window."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (extra 'integrations')")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"):
        options.add_argument(f"--{flag}")
    options.add_argument("--disable-background-networking")
    options.add_argument("--disable-component-update")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield browser
    browser.quit()


@dataclass(frozen=True)
class CellErrors:
    """Of one layer and direction, all [T, B, H]: states, slopes and total errors, steps in the order of the input."""

    weight_hh: Tensor
    before: Tensor  # a_k
    after: Tensor  # h_k
    slope: Tensor  # σ'(a_k)
    error_before: Tensor  # ∂E/∂a_k
    error_after: Tensor  # ∂E/∂h_k


ErrorsByHand = Callable[..., list[CellErrors]]
SIGMA: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x * 1,
}


@pytest.fixture
def errors_by_hand() -> ErrorsByHand:
    """`errors_by_hand(rnn, input, loss, lengths=None)`: a plain loop over the layer's parameters, read with retain_grad."""
    return _errors_by_hand


def _errors_by_hand(
    rnn: sg.RNN, sequence: Tensor, loss: Callable[[Tensor], Tensor], lengths: Tensor | None = None
) -> list[CellErrors]:
    sigma = SIGMA[rnn.nonlinearity]
    steps, batch, _ = sequence.shape
    kept: list[tuple[Tensor, list[Tensor], list[Tensor]]] = []
    for layer in range(rnn.num_layers):
        outputs: list[Tensor] = []
        for suffix in ("", "_reverse") if rnn.bidirectional else ("",):
            parameters = {
                part: getattr(rnn, f"{part}_l{layer}{suffix}").detach() for part in ("weight_ih", "weight_hh")
            }
            bias = sum(getattr(rnn, f"{part}_l{layer}{suffix}").detach() for part in ("bias_ih", "bias_hh"))
            before, after, states = ([torch.empty(0)] * steps for _ in range(3))
            state = sequence.new_zeros(batch, rnn.hidden_size).requires_grad_()
            for k in reversed(range(steps)) if suffix else range(steps):
                before[k] = sequence[k] @ parameters["weight_ih"].T + state @ parameters["weight_hh"].T + bias
                after[k] = rnn.leak * state + (1 - rnn.leak) * sigma(before[k])
                before[k].retain_grad()
                after[k].retain_grad()
                state = after[k] if lengths is None else torch.where((k < lengths).unsqueeze(1), after[k], state)
                states[k] = state
            kept.append((parameters["weight_hh"], before, after))
            outputs.append(torch.stack(states))
        sequence = torch.cat(outputs, -1)
    loss(sequence).backward()
    return [_cell(sigma, *cell) for cell in kept]


def _cell(
    sigma: Callable[[Tensor], Tensor], weight_hh: Tensor, before: list[Tensor], after: list[Tensor]
) -> CellErrors:
    a = torch.stack(before).detach().requires_grad_()
    (slope,) = torch.autograd.grad(sigma(a).sum(), a)
    return CellErrors(weight_hh, a.detach(), torch.stack(after).detach(), slope, _grads(before), _grads(after))


def _grads(tensors: list[Tensor]) -> Tensor:
    return torch.stack([torch.zeros_like(each) if each.grad is None else each.grad for each in tensors])


OmegaAsPrinted = Callable[..., tuple[Tensor, Tensor]]


@pytest.fixture
def omega_as_printed() -> OmegaAsPrinted:
    """`omega_as_printed(weight, slope, errors, …)`: Ω and its derivative by autograd, all but `weight` held constant.

    Ω = mean over active pairs of (‖δ_{k+1} ∂x_{k+1}/∂x_k‖ / ‖δ_{k+1}‖ − 1)²     (Pascanu et al. 2013, eq. 9 and 10)
    """

    def value_and_gradient(weight: Tensor, *given: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
        leaf = weight.clone().requires_grad_()
        value = _printed_omega(leaf, *given, **options)
        return value.detach(), torch.autograd.grad(value, leaf)[0]

    return value_and_gradient


def _printed_omega(
    weight: Tensor,
    slope: Tensor,
    errors: Tensor,
    *,
    leak: float = 0.0,
    lengths: Tensor | None = None,
    convention: str = "paper",
    reverse: bool = False,
) -> Tensor:
    """Pair by pair, with the Jacobian as a matrix. `slope` is σ'(x_k), `errors` those of the state, all [T, B, H]."""
    steps, batch, units = slope.shape
    terms: list[Tensor] = []
    for k, b in itertools.product(range(steps - 1), range(batch)):
        sender, receiver = (k, k + 1) if reverse else (k + 1, k)
        if lengths is not None and max(sender, receiver) >= int(lengths[b]):
            continue
        if leak == 0 and convention != "program":  # the state is x: x_{k+1} = W σ(x_k) + …
            jacobian = weight @ torch.diag(slope[receiver, b])
        else:  # the state is h: h_{k+1} = λ h_k + (1 − λ) σ(W h_k + …)
            jacobian = leak * torch.eye(units).to(weight) + (1 - leak) * torch.diag(slope[sender, b]) @ weight
        error = errors[sender, b]
        back = error @ jacobian
        if error.square().sum() < 1e-20 or not back.any():
            continue
        ratio = back.norm() / error.norm()
        terms.append(((ratio if convention == "paper" else ratio**2) - 1) ** 2)
    return torch.stack(terms).mean() if terms else weight.sum() * 0

"""One training step, forward and backward with all weight gradients, as each peer's user would write it.

Every peer gets the same weights and inputs, and the same gradient g of the loss with respect to the states that have one
(`loss="last"`: the last step, as in the synthetic tasks; `loss="all"`: every step, as in language modelling). The loss itself,
the same for all, is left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import steadygrad as sg

Step = Callable[[], Any]


@dataclass(frozen=True)
class Size:
    steps: int
    batch: int
    hidden: int
    inputs: int
    loss: str

    def __str__(self) -> str:
        return f"T {self.steps}, batch {self.batch}, hidden {self.hidden}"


SMALL = Size(100, 20, 50, 6, "last")
LARGE = Size(200, 32, 500, 88, "all")


@dataclass(frozen=True)
class Setting:
    """What all peers are given."""

    size: Size
    inputs: torch.Tensor
    weights: dict[str, torch.Tensor]
    g: torch.Tensor

    @staticmethod
    def make(size: Size) -> Setting:
        generator = torch.Generator().manual_seed(0)
        layer = torch.nn.RNN(size.inputs, size.hidden)
        for parameter in layer.parameters():
            torch.nn.init.zeros_(parameter)
        # An orthogonal recurrent matrix: errors neither vanish into denormal numbers, which are slow to multiply, nor
        # explode. Every peer would look better or worse for reasons of its own otherwise.
        torch.nn.init.orthogonal_(layer.weight_hh_l0, generator=generator)
        torch.nn.init.normal_(layer.weight_ih_l0, 0.0, 0.1, generator=generator)
        inputs = torch.randn(size.steps, size.batch, size.inputs, generator=generator)
        shape = (size.batch, size.hidden) if size.loss == "last" else (size.steps, size.batch, size.hidden)
        return Setting(size, inputs, layer.state_dict(), torch.randn(shape, generator=generator))


def layer_step(layer: torch.nn.Module, setting: Setting) -> Step:
    layer.load_state_dict(setting.weights)

    parameters = list(layer.parameters())
    g = setting.g.unsqueeze(0) if setting.size.loss == "last" else setting.g

    def step() -> Any:
        output, last = layer(setting.inputs)
        return torch.autograd.grad(last if setting.size.loss == "last" else output, parameters, g)

    return step


def torch_rnn(setting: Setting) -> Step:
    return layer_step(torch.nn.RNN(setting.size.inputs, setting.size.hidden), setting)


def steady(setting: Setting, alpha: float = 1.0, backend: str = "auto", record: bool = True) -> Step:
    layer = sg.RNN(setting.size.inputs, setting.size.hidden, alpha=alpha, backend=backend)
    layer.record = record
    return layer_step(layer, setting)


def naive_omega(setting: Setting) -> Step:
    """Ω by an RNNCell loop and autograd: what one writes without a library."""
    size = setting.size
    cell = torch.nn.RNNCell(size.inputs, size.hidden)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in setting.weights.items()})

    def step() -> None:
        cell.zero_grad(set_to_none=True)
        h = setting.inputs.new_zeros(size.batch, size.hidden)
        states: list[torch.Tensor] = []
        for u in setting.inputs:
            h = cell(u, h)
            h.retain_grad()
            states.append(h)
        seen = states[-1] if size.loss == "last" else torch.stack(states)
        (seen * setting.g).sum().backward()
        omega, active = torch.zeros(()), 0
        for before, after in itertools.pairwise(states):
            if after.grad is None:
                continue
            delta = (after.grad * (1 - after**2)).detach()
            v = (1 - before.detach() ** 2) * (delta @ cell.weight_hh)
            norm = delta.norm(dim=1)
            keep = norm**2 >= 1e-20
            omega = omega + ((v.norm(dim=1)[keep] / norm[keep] - 1) ** 2).sum()
            active += int(keep.sum())
        (omega / max(active, 1)).backward()

    return step


UNROLLS = (1, 4, 16)
"""Steps of a scan that JAX compiles as one, each tried: the best of them is the peer."""


def jax_scan(setting: Setting, unroll: int = 1) -> Step | None:
    """A jitted lax.scan with jax.grad, without Ω; None where JAX is not installed."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    weights = {name: jnp.asarray(value.numpy()) for name, value in setting.weights.items()}
    inputs, g = jnp.asarray(setting.inputs.numpy()), jnp.asarray(setting.g.numpy())
    h0 = jnp.zeros((setting.size.batch, setting.size.hidden))

    def loss(w: Any, inputs: Any) -> Any:
        projected = inputs @ w["weight_ih_l0"].T + w["bias_ih_l0"] + w["bias_hh_l0"]

        def cell(h: Any, a: Any) -> Any:
            h = jnp.tanh(a + h @ w["weight_hh_l0"].T)
            return h, h

        last, states = jax.lax.scan(cell, h0, projected, unroll=unroll)
        return ((last if setting.size.loss == "last" else states) * g).sum()

    gradient = jax.jit(jax.grad(loss))
    return lambda: jax.block_until_ready(gradient(weights, inputs))


def compiled_loop(setting: Setting) -> Step | None:
    """torch.compile of a loop over torch.nn.RNNCell, without Ω; None where there is no compiler for it."""
    size = setting.size
    cell = torch.nn.RNNCell(size.inputs, size.hidden)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in setting.weights.items()})
    parameters = list(cell.parameters())

    def states(inputs: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        seen: list[torch.Tensor] = []
        for u in inputs:
            h = cell(u, h)
            seen.append(h)
        return h if size.loss == "last" else torch.stack(seen)

    compiled: Any = torch.compile(states, dynamic=False)
    h0 = setting.inputs.new_zeros(size.batch, size.hidden)

    def step() -> Any:
        return torch.autograd.grad(compiled(setting.inputs, h0), parameters, setting.g)

    try:
        step()
    except Exception:  # whatever it is that a compiler misses on this machine
        return None
    return step


def numba_loop(setting: Setting) -> Step | None:
    """BPTT by hand in numba, without Ω: numpy's products, compiled; None where numba is not installed."""
    try:
        import numba
        import numpy as np
    except ImportError:
        return None
    size = setting.size
    x, g = setting.inputs.numpy(), setting.g.numpy()
    w_ih, w_hh, b_ih, b_hh = (
        setting.weights[f"{name}_l0"].numpy() for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    every = size.loss != "last"
    error = g if every else np.zeros((size.steps, size.batch, size.hidden), np.float32)
    if not every:
        error[-1] = g

    @numba.njit(fastmath=True)
    def gradients(x: Any, error: Any, w_ih: Any, w_hh: Any, bias: Any) -> Any:
        steps, batch, inputs = x.shape
        hidden = len(w_hh)
        a = np.dot(x.reshape(steps * batch, inputs), w_ih.T).reshape(steps, batch, hidden)
        h = np.zeros((steps + 1, batch, hidden), np.float32)
        right = np.ascontiguousarray(w_hh.T)
        for t in range(steps):
            h[t + 1] = np.tanh(a[t] + bias + np.dot(h[t], right))
        delta = np.empty((steps, batch, hidden), np.float32)
        back = np.zeros((batch, hidden), np.float32)
        for t in range(steps - 1, -1, -1):
            delta[t] = (1 - h[t + 1] * h[t + 1]) * (error[t] + back)
            back = np.dot(delta[t], w_hh)
        flat = delta.reshape(steps * batch, hidden)
        before = np.ascontiguousarray(h[:steps]).reshape(steps * batch, hidden)
        return np.dot(flat.T, x.reshape(steps * batch, inputs)), np.dot(flat.T, before), flat.sum(0)

    bias = b_ih + b_hh
    return lambda: gradients(x, error, w_ih, w_hh, bias)


def optional_peers(setting: Setting) -> tuple[dict[str, Step], list[str]]:
    """The peers whose libraries are installed, by name; and a sentence for each that is left out."""
    peers: dict[str, Step] = {}
    left_out = [
        "oneDNN's plain RNN primitive is left out: torch.ops.aten.mkldnn_rnn_layer makes an LSTM alone, "
        "and no other package reaches it from Python"
    ]
    for unroll in UNROLLS:
        scan = jax_scan(setting, unroll)
        if scan is not None:
            peers[f"JAX scan, unroll {unroll}"] = scan
    if not peers:
        left_out.append("JAX is left out: it is not installed (pip install 'steadygrad[bench]')")
    loop = numba_loop(setting)
    if loop is None:
        left_out.append("numba is left out: it is not installed (pip install 'steadygrad[bench]')")
    else:
        peers["BPTT by hand in numba"] = loop
    if setting.size.steps > LONGEST_COMPILED:
        left_out.append(
            f"torch.compile is left out above {LONGEST_COMPILED} steps: it writes them all out, for minutes"
        )
        return peers, left_out
    loop = compiled_loop(setting)
    if loop is None:
        left_out.append("torch.compile is left out: it finds no compiler here")
    else:
        peers["RNNCell loop, torch.compile"] = loop
    return peers, left_out


LONGEST_COMPILED = 100

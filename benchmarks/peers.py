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


def jax_scan(setting: Setting) -> Step | None:
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

        last, states = jax.lax.scan(cell, h0, projected)
        return ((last if setting.size.loss == "last" else states) * g).sum()

    gradient = jax.jit(jax.grad(loss))
    return lambda: jax.block_until_ready(gradient(weights, inputs))

"""Small networks that each have one illness, the same after the advice was followed, and healthy ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import steadygrad as sg

T, B, I, H = 60, 8, 3, 16

Loss = Callable[[Tensor], Tensor]


def everywhere(output: Tensor) -> Tensor:
    return output.square().mean()


def at_the_end(output: Tensor) -> Tensor:
    return output[-1].square().mean()


def noise(scale: float = 1.0, steps: int = T) -> Tensor:
    return scale * torch.randn(steps, B, I, generator=torch.Generator().manual_seed(7))


@dataclass
class Patient:
    """A network and how it is trained."""

    model: nn.Module
    inputs: Tensor
    loss: Loss = at_the_end
    updates: int = 1
    rate: float = 0.0
    threshold: Any = None
    odd_one: float = 1.0
    """The loss of the 7th update is so many times larger."""

    def watched(self) -> sg.Watch:
        optimizer = torch.optim.SGD(self.model.parameters(), lr=self.rate)
        clipper = None
        if self.threshold is not None:
            clipper = sg.NormClipper(optimizer, self.threshold, named_parameters=self.model.named_parameters())
        with sg.watch(self.model, every=1, optimizer=optimizer, clipper=clipper) as watch:
            for update in range(self.updates):
                optimizer.zero_grad()
                result = self.model(self.inputs)
                loss = self.loss(result[0] if isinstance(result, tuple) else result)
                (loss * (self.odd_one if update == 6 else 1.0)).backward()
                optimizer.step()
        return watch


def number_of(watch: sg.Watch, kind: str, where: str | None = None) -> float:
    """The number of that kind; of the worst place, where no place is named."""
    return next(each.number for each in watch.examined() if each.kind == kind and where in (None, each.where))


def layer(kind: Any, *sizes: int, seed: int = 0, **options: Any) -> Any:
    torch.manual_seed(seed)
    return kind(*(sizes or (I, H)), **options)


@torch.no_grad()
def gate_bias(rnn: Any, gate: int, value: float) -> Any:
    rnn.bias_hh_l0[gate * H : (gate + 1) * H] = value
    return rnn


@torch.no_grad()
def scaled(rnn: Any, name: str, factor: float) -> Any:
    getattr(rnn, name).mul_(factor)
    return rnn


def plain(gain: float = 1.0, **options: Any) -> Any:
    rnn = sg.init.orthogonal_(layer(nn.RNN, **options), gain)
    with torch.no_grad():
        for name, parameter in rnn.named_parameters():
            if name.startswith("bias"):
                parameter.zero_()
    return rnn


class Unused(nn.Module):
    """A layer whose read-out is used only on demand."""

    def __init__(self, uses: bool) -> None:
        super().__init__()
        self.rnn, self.head, self.uses = plain(), nn.Linear(H, 2), uses

    def forward(self, x: Tensor) -> Tensor:
        output = self.rnn(x)[0]
        return self.head(output) if self.uses else output


def _dead(bias: float) -> Any:
    rnn = sg.init.identity_(layer(nn.RNN, nonlinearity="relu"), 0.5)
    with torch.no_grad():
        rnn.bias_ih_l0[: H // 2] = bias
    return rnn


def _stacked(factor: float) -> Any:
    rnn = sg.init.orthogonal_(layer(nn.RNN, num_layers=2))
    return scaled(rnn, "weight_ih_l1", factor)


def _broken(scale: float) -> Any:
    rnn = sg.init.orthogonal_(layer(nn.RNN, nonlinearity="relu"))
    return scaled(rnn, "weight_hh_l0", scale)


@dataclass
class Illness:
    kind: str
    ill: Callable[[], Patient]
    cured: Callable[[], Patient]
    """The advice, followed."""
    words: str
    """In the advice: what was followed."""


SMALL = noise(0.1)
ILLNESSES = [
    Illness(
        "not-finite",
        lambda: Patient(_broken(40.0), noise()),
        lambda: Patient(_broken(1.0), noise()),
        "sg.init.orthogonal_",
    ),
    Illness(
        "skipped",
        lambda: Patient(_overflowing(None), _late_pulse(), _steep, updates=3, threshold=1.0),
        lambda: Patient(_overflowing(1.0), _late_pulse(), _steep, updates=3, threshold=1.0),
        "clip_error=1.0",
    ),
    Illness(
        "explodes",
        lambda: Patient(plain(1.2), SMALL * 1e-6),
        lambda: Patient(scaled(plain(1.2), "weight_hh_l0", 0.83), SMALL * 1e-6),
        "multiply weight_hh_l0 by 0.83",
    ),
    Illness(
        "state-grows",
        lambda: Patient(_growing(1.15), noise()),
        lambda: Patient(_growing(1.15 * 0.87), noise()),
        "Multiply weight_hh_l0 by 0.87",
    ),
    Illness(
        "forgets",
        lambda: Patient(layer(nn.LSTM), noise()),
        lambda: Patient(gate_bias(layer(nn.LSTM), 1, 4.1), noise()),
        "raise the forget gate's bias to 4.1 (bias_hh_l0[16:32], or sg.init.remember_(layer, 4.1))",
    ),
    Illness(
        "late-loss",
        lambda: Patient(layer(nn.GRU), noise()),
        lambda: Patient(layer(nn.GRU), noise(), everywhere),
        "Give more steps a loss",
    ),
    Illness(
        "forget-gate-closed",
        lambda: Patient(gate_bias(layer(nn.LSTM), 1, -4.0), noise()),
        lambda: Patient(gate_bias(layer(nn.LSTM), 1, 1.0), noise()),
        "Raise the forget gate's bias to 1 (bias_hh_l0[16:32], or sg.init.remember_(layer, 1))",
    ),
    Illness(
        "update-gate-low",
        lambda: Patient(gate_bias(layer(nn.GRU), 1, -4.0), noise()),
        lambda: Patient(gate_bias(layer(nn.GRU), 1, 1.0), noise()),
        "Raise the update gate's bias to 1 (bias_hh_l0[16:32], or sg.init.remember_(layer, 1))",
    ),
    Illness(
        "input-gate-closed",
        lambda: Patient(gate_bias(layer(nn.LSTM), 0, -8.0), noise()),
        lambda: Patient(gate_bias(layer(nn.LSTM), 0, 0.0), noise()),
        "Raise the input gate's bias to 0 (bias_hh_l0[0:16])",
    ),
    Illness(
        "output-gate-closed",
        lambda: Patient(gate_bias(layer(nn.LSTM), 3, -8.0), noise()),
        lambda: Patient(gate_bias(layer(nn.LSTM), 3, 0.0), noise()),
        "Raise the output gate's bias to 0 (bias_hh_l0[48:64])",
    ),
    Illness(
        "update-gate-high",
        lambda: Patient(gate_bias(layer(nn.GRU), 1, 9.0), noise()),
        lambda: Patient(gate_bias(layer(nn.GRU), 1, 4.1), noise()),
        "Lower the update gate's bias (bias_hh_l0[16:32]) to 4.1",
    ),
    Illness(
        "saturated",
        lambda: Patient(scaled(plain(6.0), "weight_ih_l0", 8.0), noise()),
        lambda: Patient(scaled(plain(3.0), "weight_ih_l0", 4.0), noise()),
        "Make weight_ih_l0 and weight_hh_l0 smaller (by half)",
    ),
    Illness(
        "input-too-large",
        lambda: Patient(layer(nn.GRU), noise(100.0)),
        lambda: Patient(layer(nn.GRU), noise(100.0) / 25),
        "Divide the layer's input by 25",
    ),
    Illness(
        "dead-units",
        lambda: Patient(_dead(-9.0), noise()),
        lambda: Patient(_dead(0.0), noise()),
        "Raise bias_ih_l0 to 0",
    ),
    Illness(
        "contracting",
        lambda: Patient(plain(0.7), SMALL),
        lambda: Patient(scaled(plain(0.7), "weight_hh_l0", 1.4), SMALL),
        "multiply weight_hh_l0 by 1.4",
    ),
    Illness(
        "matrix-too-large",
        lambda: Patient(plain(2.5), noise()),
        lambda: Patient(scaled(plain(2.5), "weight_hh_l0", 0.4), noise()),
        "Multiply weight_hh_l0 by 0.40",
    ),
    Illness(
        "layers-differ",
        lambda: Patient(_stacked(1e-7), noise()),
        lambda: Patient(_stacked(1.0), noise()),
        "Draw weight_ih_l1 anew: it is too small",
    ),
    Illness(
        "clips-always",
        lambda: Patient(plain(), noise(), everywhere, updates=20, threshold=1e-5),
        lambda: Patient(plain(), noise(), everywhere, updates=20, threshold="auto"),
        "threshold='auto'",
    ),
    Illness(
        "spikes",
        lambda: Patient(plain(), noise(), everywhere, updates=12, odd_one=500.0),
        lambda: Patient(plain(), noise(), everywhere, updates=12, odd_one=500.0, threshold=1.0),
        "sg.NormClipper(optimizer, threshold=1)",
    ),
    Illness(
        "no-gradient", lambda: Patient(Unused(False), noise()), lambda: Patient(Unused(True), noise()), "in the loss"
    ),
]


def _overflowing(clip_error: float | None) -> Any:
    """States stay finite, errors grow 10,000-fold a step. Both patients have the same weights: only clip_error differs."""
    torch.manual_seed(0)
    rnn = sg.init.identity_(sg.RNN(I, H, nonlinearity="relu", bias=False, clip_error=clip_error), 1e4)
    with torch.no_grad():
        rnn.weight_ih_l0.fill_(1e-30)
    return rnn


def _late_pulse() -> Tensor:
    x = torch.zeros(T, B, I)
    x[-4:] = 1.0
    return x


def _steep(output: Tensor) -> Tensor:
    return 1e29 * output[-1].sum()


def _growing(scale: float) -> Any:
    return sg.init.identity_(layer(nn.RNN, nonlinearity="relu"), scale)


def healthy() -> dict[str, Patient]:
    """Networks whose errors get through, trained for a few updates; some with a clipper."""
    training: dict[str, Any] = {"updates": 12, "rate": 0.01}
    lstm, gru = gate_bias(layer(nn.LSTM), 1, 4.1), gate_bias(layer(nn.GRU), 1, 4.1)
    return {
        "tanh, orthogonal": Patient(plain(), SMALL, everywhere, **training),
        "tanh, orthogonal, loss at the end": Patient(plain(), SMALL, **training),
        "tanh, orthogonal, clipped": Patient(plain(), SMALL, everywhere, threshold="auto", **training),
        "sigmoid, short": Patient(layer(sg.RNN, nonlinearity="sigmoid"), noise(steps=12), everywhere, **training),
        "relu, identity": Patient(_growing(1.0), noise(), everywhere, updates=12, rate=1e-4),
        "LSTM with a memory": Patient(lstm, noise(), everywhere, **training),
        "LSTM with a memory, loss at the end": Patient(lstm, noise(), **training),
        "GRU with a memory": Patient(gru, noise(), everywhere, threshold="auto", **training),
        "two tanh layers": Patient(_stacked(1.0), SMALL, everywhere, **training),
        "both directions": Patient(plain(bidirectional=True), SMALL, everywhere, **training),
    }

"""Signals to be generated: a target at every step, and no input but the value before it.

    targets d_1 … d_T  [T, B, O],    inputs d_0 … d_{T−1}  [T, B, O],    every step counts;    t_0 is drawn per sequence

    sines           d_t = A/K Σ_k sin(2π (t + t_0) / P_k)                                    t_0 uniform over [0, 10⁴)
    figure eight    d_t = A (sin θ_t, sin 2θ_t),  θ_t = 2π (t + t_0) / P                     t_0 uniform over [0, P)
    Mackey-Glass    dx/dt = 0.2 x(t−τ) / (1 + x(t−τ)¹⁰) − 0.1 x(t),   d_t = tanh(x(t + t_0) − 1)      τ = 17

The eight crosses itself at (0, 0): where it goes from there is not told by where it is, so a generator must remember
(Pearlmutter 1989). Mackey-Glass is chaotic; it is integrated once (Runge-Kutta of fourth order, 0.1 a step, x = 1.2 before
t = 0, the first 500 left out), squashed as by Jaeger & Haas 2004; t_0 is a whole number, uniform over what is left of 10,500.

A generator is trained on its own targets (baselines.TeacherForced); to any other network this is prediction one step ahead.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from steadygrad.checks import number, whole
from steadygrad.tasks.task import Batch, Regression

SERIES, TRANSIENT, FINE = 10_500, 500, 10


@dataclass(frozen=True)
class Signal(Regression):
    """What the signals share: inputs are the targets of one step before."""

    hidden_size = 50
    minimum_length = 2

    def _draw(self, batch: int, length: int, generator: torch.Generator) -> Batch:
        d = self._values(batch, length + 1, generator).float()
        return Batch(d[:-1], d[1:], slice(0, length))

    @abstractmethod
    def _values(self, batch: int, steps: int, generator: torch.Generator) -> Tensor:
        """d_0 … d_{steps − 1}, float64 [steps, batch, O]."""


def _times(steps: int, batch: int, span: float, generator: torch.Generator) -> Tensor:
    """t + t_0, [steps, batch], t_0 uniform over [0, span)."""
    device = generator.device
    start = span * torch.rand(batch, generator=generator, device=device, dtype=torch.float64)
    return torch.arange(steps, device=device, dtype=torch.float64).unsqueeze(1) + start


@dataclass(frozen=True)
class Sines(Signal):
    """The mean of several sines, of amplitude A.

    Args:
        criterion: when an answer is right, as for every regression.
        periods: the period of each, in steps; above 2.
        amplitude: the most that |d_t| can be, in (0, 1).

    >>> batch = Sines().sample(3, 200, torch.Generator().manual_seed(0))
    >>> batch.targets.shape, bool(torch.equal(batch.inputs[1:], batch.targets[:-1]))
    (torch.Size([200, 3, 1]), True)
    """

    name = "sines"
    input_size = 1
    output_size = 1

    periods: tuple[float, ...] = (12.0, 20.0, 30.0)
    amplitude: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.periods:
            raise ValueError("periods must hold one at least, not be empty")
        for period in self.periods:
            number("a period", period, low=2, open_low=True)
        number("amplitude", self.amplitude, low=0, high=1, open_low=True, open_high=True)

    def _values(self, batch: int, steps: int, generator: torch.Generator) -> Tensor:
        t = _times(steps, batch, 1e4, generator)
        waves = torch.stack([torch.sin(2 * math.pi * t / period) for period in self.periods])
        return (self.amplitude * waves.mean(0)).unsqueeze(-1)


@dataclass(frozen=True)
class FigureEight(Signal):
    """A figure eight in the plane.

    Args:
        criterion: when an answer is right, as for every regression.
        period: steps for one eight, above 4.
        amplitude: the most that |d_t| can be, in (0, 1).

    >>> batch = FigureEight(period=20.0).sample(3, 60, torch.Generator().manual_seed(0))
    >>> bool(torch.allclose(batch.targets[20:], batch.targets[:-20], atol=1e-5))
    True
    """

    name = "figure-eight"
    input_size = 2
    output_size = 2

    period: float = 32.0
    amplitude: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        number("period", self.period, low=4, open_low=True)
        number("amplitude", self.amplitude, low=0, high=1, open_low=True, open_high=True)

    def _values(self, batch: int, steps: int, generator: torch.Generator) -> Tensor:
        angle = 2 * math.pi / self.period * _times(steps, batch, self.period, generator)
        return self.amplitude * torch.stack([angle.sin(), (2 * angle).sin()], -1)


@dataclass(frozen=True)
class MackeyGlass(Signal):
    """Windows of one Mackey-Glass series, squashed by tanh(x − 1).

    Args:
        criterion: when an answer is right, as for every regression.
        delay: τ, a whole number of at least 1; from 17 on the series is chaotic.

    >>> batch = MackeyGlass().sample(3, 100, torch.Generator().manual_seed(0))
    >>> batch.targets.shape, bool(batch.targets.abs().max() < 1)
    (torch.Size([100, 3, 1]), True)
    """

    name = "mackey-glass"
    input_size = 1
    output_size = 1

    delay: int = 17

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("delay", self.delay)

    def _values(self, batch: int, steps: int, generator: torch.Generator) -> Tensor:
        series = torch.tanh(mackey_glass(SERIES, self.delay)[TRANSIENT:] - 1.0).to(generator.device)
        if steps > len(series):
            raise ValueError(f"length of {self.name} must be at most {len(series) - 1}, not {steps - 1}")
        start = torch.randint(len(series) - steps + 1, (batch,), generator=generator, device=generator.device)
        t = torch.arange(steps, device=generator.device).unsqueeze(1) + start
        return series[t].unsqueeze(-1)


@lru_cache(maxsize=8)
def mackey_glass(steps: int, delay: int = 17, fine: int = FINE) -> Tensor:
    """x(0), x(1), …, x(steps − 1) with x = 1.2 up to t = 0, float64 [steps].

    Args:
        steps: how many.
        delay: τ.
        fine: Runge-Kutta steps for each unit of time, at least 2. Half-way between them, what lies τ back is read by the
            cubic through the four points around.
    """
    h, back = 1.0 / fine, delay * fine
    x = [1.2] * (back + 2)  # x[i] is at time (i − back − 1) h

    def inflow(late: float) -> float:
        return 0.2 * late / (1.0 + late**10)

    for _ in range((steps - 1) * fine):
        now, i = x[-1], len(x) - 1 - back
        first, last = inflow(x[i]), inflow(x[i + 1])
        middle = inflow((9.0 * (x[i] + x[i + 1]) - x[i - 1] - x[i + 2]) / 16.0)
        k1 = first - 0.1 * now
        k2 = middle - 0.1 * (now + 0.5 * h * k1)
        k3 = middle - 0.1 * (now + 0.5 * h * k2)
        k4 = last - 0.1 * (now + h * k3)
        x.append(now + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4))
    return torch.tensor(x[back + 1 :: fine], dtype=torch.float64)

"""A unit pre-programmed to hold one bit: w, b and w_in for thresholds that are asked for (Doya 1993, in the one-unit world).

    x_t = w σ(x_{t−1}) + b + w_in u_t

With a constant input u this is the one-unit map with the bias b + w_in u. For w > 1/γ that map has two stable fixed points
while its bias lies between its two folds, b₁ < b + w_in u < b₂ (`OneUnit.bifurcations`); above b₂ only the upper one is left,
below b₁ only the lower one. So the unit holds its bit for −θ_down < u < θ_up, and for no other input, where

    b + w_in θ_up = b₂,    b − w_in θ_down = b₁
    w_in = (b₂ − b₁) / (θ_up + θ_down),    b = b₁ + w_in θ_down

    tanh:  b₂ = −b₁ = √(w (w − 1)) − artanh √(1 − 1/w);    θ_up = θ_down gives b = 0

The map rises in x and in u. Hence any sequence of inputs with −θ_down < u_t < θ_up, noise included, keeps a state that is
on the upper fixed point of the smallest input, or above it, there for ever; likewise for the lower one. An input beyond a
threshold, held for long enough, always flips the bit, sooner the further it lies beyond. One step is enough where
w_in u > x_boundary − x_low: then the input alone carries the resting state over the basin boundary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from steadygrad import checks
from steadygrad.dynamics.one_unit import OneUnit

if TYPE_CHECKING:
    from torch import nn


RESOLVED = 1e-9


@dataclass(frozen=True)
class Latch:
    """What `latch` returns: a unit with two stable states, and what moves it from one to the other.

    Args:
        w, b, w_in: the recurrent weight, the bias and the input weight.
        threshold_up: the input above which the unit goes to its upper state.
        threshold_down: the unit goes to its lower state where the input is below −threshold_down.
        nonlinearity: "tanh" or "sigmoid".
    """

    w: float
    b: float
    w_in: float
    threshold_up: float
    threshold_down: float
    nonlinearity: str

    def unit(self, u: float = 0.0) -> OneUnit:
        """The one-unit map under a constant input u."""
        return OneUnit(self.w, self.b + self.w_in * checks.number("u", u), self.nonlinearity)

    @property
    def states(self) -> tuple[float, float, float]:
        """Without input: the lower stable state, the basin boundary and the upper stable state."""
        low, boundary, high = (point.x for point in self.unit().fixed_points())
        return low, boundary, high

    @property
    def pulses(self) -> tuple[float, float]:
        """The inputs that flip a resting unit in one step: below the first it goes down, above the second up."""
        low, boundary, high = self.states
        return (boundary - high) / self.w_in, (boundary - low) / self.w_in

    def safe(self, noise: float) -> tuple[float, float]:
        """The states that no sequence of inputs of at most `noise` moves across: at most the first, at least the second.

        These are the boundaries of the two extreme maps: below the boundary at u = +noise the state can only go on to the
        lower side, above that at u = −noise only to the upper one.

        Args:
            noise: the largest |u|, at least 0 and below both thresholds.
        """
        largest = min(self.threshold_up, self.threshold_down)
        noise = checks.number("noise", noise, low=0, high=largest, open_high=True)
        return self.unit(noise).fixed_points()[1].x, self.unit(-noise).fixed_points()[1].x

    def flips_after(self, u: float) -> int | None:
        """How many steps of constant input u flip a resting unit for good; None where no number of steps does.

        Args:
            u: the input; above 0 the unit begins in its lower state, otherwise in its upper one.
        """
        u = checks.number("u", u)
        if -self.threshold_down <= u <= self.threshold_up:
            return None
        low, boundary, high = self.states
        under, x = self.unit(u), low if u > 0 else high
        for steps in range(1, 1_000_000):
            x = float(under(x))
            if (x > boundary) if u > 0 else (x < boundary):
                return steps
        return None  # so close to the threshold that rounding decides

    def write_(self, rnn: nn.Module, unit: int = 0, channel: int = 0) -> nn.Module:
        """Make unit `unit` of a plain recurrent layer this latch, driven by input `channel` alone. All else stays.

        The layer computes h = σ(x), so its weight_hh is w, its weight_ih w_in. The unit's other incoming weights are set to 0;
        what it sends to other units stays.

        Args:
            rnn: a plain layer (one layer, one direction) of torch or steadygrad, of the same nonlinearity and with biases.
            unit: which of its units.
            channel: which of its inputs.

        Returns:
            The same layer.
        """
        parameters = dict(rnn.named_parameters(recurse=False))
        wanted = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        if any(name not in parameters for name in wanted) or len(parameters) != len(wanted):
            raise ValueError(f"rnn must be a recurrent layer of one layer, one direction and with biases, not {rnn!r}")
        weight_ih, weight_hh, bias_ih, bias_hh = (parameters[name] for name in wanted)
        given, leak = getattr(rnn, "nonlinearity", None), getattr(rnn, "leak", 0.0)
        if weight_hh.shape[0] != weight_hh.shape[1] or given != self.nonlinearity or leak != 0.0:
            raise ValueError(f"rnn must be a plain layer of {self.nonlinearity} units without leak, not {rnn!r}")
        _index("unit", unit, weight_hh)
        _index("channel", channel, weight_ih.T)
        with torch.no_grad():
            weight_hh[unit] = 0.0
            weight_hh[unit, unit] = self.w
            weight_ih[unit] = 0.0
            weight_ih[unit, channel] = self.w_in
            bias_ih[unit], bias_hh[unit] = self.b, 0.0
        return rnn


def latch(
    threshold: float = 1.0, *, threshold_down: float | None = None, w: float = 2.0, nonlinearity: str = "tanh"
) -> Latch:
    """The bias and the input weight that make a unit of weight w hold a bit against all inputs below the threshold.

    Args:
        threshold: θ_up: an input held above it sets the bit; above 0.
        threshold_down: θ_down: an input held below −θ_down clears it; the same by default.
        w: the recurrent weight: above 1 for tanh, above 4 for sigmoid. The larger, the harder the states saturate: gradients
            through the unit then vanish although its bit stays.
        nonlinearity: "tanh" or "sigmoid".

    Example:
        >>> unit = latch(threshold=0.5)
        >>> unit.w, unit.b, round(unit.w_in, 4)
        (2.0, 0.0, 1.0657)
        >>> [round(x, 4) for x in unit.states]
        [-1.915, 0.0, 1.915]
        >>> unit.flips_after(0.49), unit.flips_after(0.6)
        (None, 9)

    Reference:
        Doya 1993, "Bifurcations of recurrent neural networks in gradient descent learning"; Pascanu et al. 2013, section 3.1.
    """
    up = checks.number("threshold", threshold, low=0, open_low=True)
    down = up if threshold_down is None else checks.number("threshold_down", threshold_down, low=0, open_low=True)
    smallest = {"tanh": 1.0, "sigmoid": 4.0}[checks.one_of("nonlinearity", nonlinearity, ("tanh", "sigmoid"))]
    w = checks.number("w", w, low=smallest, open_low=True)
    folds = [bifurcation.b for bifurcation in OneUnit(w, 0.0, nonlinearity).bifurcations()]
    # The folds are differences of numbers of the size of w: so the thresholds are right to a millionth at least.
    if len(folds) < 2 or not folds[1] - folds[0] > RESOLVED * w:
        raise ValueError(f"w must be further above {smallest:g}: the folds of {w!r} can't be told apart")
    w_in = (folds[1] - folds[0]) / (up + down)
    # Where both thresholds are one, the middle of the folds is exact and b₁ + w_in θ_down has a rounding error.
    b = 0.5 * (folds[0] + folds[1]) if up == down else folds[0] + w_in * down
    return Latch(w, b, w_in, up, down, nonlinearity)


def _index(name: str, value: int, weight: Tensor) -> None:
    if checks.whole(name, value, low=0) >= len(weight):
        raise ValueError(f"{name} must be one of 0 … {len(weight) - 1}, not {value}")

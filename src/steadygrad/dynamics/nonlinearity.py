"""The nonlinearity σ of one unit, its first two derivatives, and where its slope takes a given value.

    σ: [...] → [...],   σ' = dσ/dx,   σ'' = d²σ/dx²,   {x : σ'(x) = m}

All in numpy float64. The derivatives are written so that they keep their relative precision where σ saturates
(1 − tanh² does not), because products of fifty of them are what the error surface is made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from steadygrad import checks
from steadygrad.dynamics.arrays import Array


@dataclass(frozen=True)
class Nonlinearity:
    """σ with its derivatives and the inverse of its slope.

    Args:
        name: the name users give it.
        value: σ, elementwise, [...] → [...].
        slope: σ', elementwise. relu'(0) is 0, as in torch.
        value_and_slope: both at once, for loops that need them at every step.
        bend: σ'', elementwise. relu''(0) is 0.
        bounds: (inf σ, sup σ).
        points_of_slope: m > 0 ↦ every x where σ' passes through or touches m, in rising order. Empty where σ' is
            piecewise constant.
    """

    name: str
    value: Callable[[Any], Array]
    slope: Callable[[Any], Array]
    value_and_slope: Callable[[Any], tuple[Array, Array]]
    bend: Callable[[Any], Array]
    bounds: tuple[float, float]
    points_of_slope: Callable[[float], tuple[float, ...]]


def _sigmoid(x: Any) -> Array:
    return _sigmoid_and_slope(x)[0]


def _sigmoid_slope(x: Any) -> Array:
    return _sigmoid_and_slope(x)[1]


def _sigmoid_and_slope(x: Any) -> tuple[Array, Array]:
    e = np.exp(-np.abs(x))
    large = 1.0 / (1.0 + e)
    small = e * large
    return np.where(np.asarray(x) >= 0.0, large, small), large * small


def _sigmoid_bend(x: Any) -> Array:
    return -_sigmoid_slope(x) * np.tanh(0.5 * np.asarray(x, dtype=np.float64))


def _tanh_slope(x: Any) -> Array:
    return 4.0 * _sigmoid_slope(2.0 * np.asarray(x, dtype=np.float64))


def _tanh_bend(x: Any) -> Array:
    return -2.0 * np.tanh(x) * _tanh_slope(x)


def _sigmoid_points(m: float) -> tuple[float, ...]:
    # s(1 − s) = m has the larger root s; then s/(1 − s) = s²/m, which unlike 1 − s does not cancel for small m.
    if m > 0.25:
        return ()
    s = 0.5 * (1.0 + math.sqrt(1.0 - 4.0 * m))
    return _mirror(2.0 * math.log(s) - math.log(m))


def _tanh_points(m: float) -> tuple[float, ...]:
    # 1 − t² = m, and artanh t = ½ log((1 + t)/(1 − t)) = log(1 + t) − ½ log m.
    if m > 1.0:
        return ()
    return _mirror(math.log1p(math.sqrt(1.0 - m)) - 0.5 * math.log(m))


def _mirror(x: float) -> tuple[float, ...]:
    return (-x, x) if x > 0.0 else (0.0,)


def _nowhere(m: float) -> tuple[float, ...]:
    return ()


def _apart(
    name: str,
    value: Callable[[Any], Array],
    slope: Callable[[Any], Array],
    bend: Callable[[Any], Array],
    bounds: tuple[float, float],
    points: Callable[[float], tuple[float, ...]],
) -> Nonlinearity:
    return Nonlinearity(name, value, slope, lambda x: (value(x), slope(x)), bend, bounds, points)


NONLINEARITIES: dict[str, Nonlinearity] = {
    "tanh": _apart("tanh", np.tanh, _tanh_slope, _tanh_bend, (-1.0, 1.0), _tanh_points),
    "sigmoid": Nonlinearity(
        "sigmoid", _sigmoid, _sigmoid_slope, _sigmoid_and_slope, _sigmoid_bend, (0.0, 1.0), _sigmoid_points
    ),
    "relu": _apart(
        "relu",
        lambda x: np.maximum(x, 0.0),
        lambda x: np.where(np.asarray(x) > 0.0, 1.0, 0.0),
        lambda x: np.zeros(np.shape(x)),
        (0.0, math.inf),
        _nowhere,
    ),
    "identity": _apart(
        "identity",
        lambda x: np.asarray(x, dtype=np.float64),
        lambda x: np.ones(np.shape(x)),
        lambda x: np.zeros(np.shape(x)),
        (-math.inf, math.inf),
        _nowhere,
    ),
}


def nonlinearity_named(name: str) -> Nonlinearity:
    """The nonlinearity called `name`: tanh, sigmoid, relu or identity.

    >>> nonlinearity_named("sigmoid").points_of_slope(0.25)
    (0.0,)
    >>> nonlinearity_named("elu")
    Traceback (most recent call last):
    ValueError: nonlinearity must be one of 'tanh', 'sigmoid', 'relu', 'identity', not 'elu' (did you mean 'relu'?)
    """
    return NONLINEARITIES[checks.one_of("nonlinearity", name, NONLINEARITIES)]

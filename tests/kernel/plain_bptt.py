"""Back-propagation through time in numpy, sequence by sequence and step by step, with Ω: what the kernel must compute.

    a_k = W_ih u_k + W_hh h_{k−1} + b,   h_k = λ h_{k−1} + (1 − λ) σ(a_k)
    e_k = c_k + ∂E/∂h_k,   δ_k = (1 − λ) σ'(a_k) ⊙ e_k,   c_{k−1} = W_hhᵀ δ_k + λ e_k

All in float64, whatever comes in. Only the steps a sequence really has are run: those past its length hold its state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
NONLINEARITIES = ("tanh", "relu", "sigmoid", "identity")


@dataclass(frozen=True)
class Case:
    steps: int
    batch: int
    hidden: int
    nonlinearity: str
    inputs: int
    leak: float
    reverse: bool
    alpha: float
    clip_error: float
    convention: int
    threads: int


@dataclass(frozen=True)
class Values:
    """What is given; shapes as in problem.hpp."""

    x: Array | None
    tokens: Array | None
    h0: Array | None
    weight_ih: Array
    weight_hh: Array
    bias_ih: Array | None
    bias_hh: Array | None
    lengths: Array | None
    grad_output: Array | None
    grad_last: Array | None


def sigma(name: str, a: Array) -> tuple[Array, Array]:
    """σ(a) and σ'(a)."""
    if name == "tanh":
        return np.tanh(a), 1 - np.tanh(a) ** 2
    if name == "sigmoid":
        value = 1 / (1 + np.exp(-a))
        return value, value * (1 - value)
    return (np.maximum(a, 0), (a > 0) * 1.0) if name == "relu" else (a, np.ones_like(a))


def plain_bptt(case: Case, values: Values) -> dict[str, Array]:
    """Outputs, gradients and squared norms by the names they have in problem.hpp."""
    T, B, H, I = case.steps, case.batch, case.hidden, case.inputs
    found = {"output": np.zeros((T, B, H)), "error_sq": np.zeros((B, T)), "back_sq": np.zeros((B, T))}
    found |= {"grad_x": np.zeros((T, B, I)), "grad_h0": np.zeros((B, H)), "grad_weight_ih": np.zeros((H, I))}
    found |= {"grad_weight_hh": np.zeros((H, H)), "grad_bias": np.zeros(H)}
    pairs = [pair for row in range(B) for pair in _sequence(case, values, row, found)]
    active = [pair for pair in pairs if pair[0] >= 1e-20 and pair[1] > 0]
    for error_sq, back_sq, left, right in active:
        if case.convention == 0:
            c = 2 * (np.sqrt(back_sq / error_sq) - 1) / np.sqrt(back_sq * error_sq)
        else:
            c = 4 * (back_sq / error_sq - 1) / error_sq
        found["grad_weight_hh"] += case.alpha / len(active) * c * np.outer(left, right)
    found["last"] = found["output"][0 if case.reverse else -1]
    return found


def _sequence(case: Case, values: Values, row: int, found: dict[str, Array]) -> list[tuple[float, float, Array, Array]]:
    """Adds one sequence's share to `found`; returns ‖error‖², ‖v‖² and both factors of ∂⁺Ω/∂W of its pairs."""
    H, leak, clip = case.hidden, case.leak, case.clip_error
    W_ih, W_hh = values.weight_ih.astype(np.float64), values.weight_hh.astype(np.float64)
    bias = sum((b.astype(np.float64) for b in (values.bias_ih, values.bias_hh) if b is not None), np.zeros(H))
    length = case.steps if values.lengths is None else int(values.lengths[row])
    times = list(range(length))[:: -1 if case.reverse else 1]

    u: list[Array] = []
    for t in times:
        if values.tokens is not None:
            u.append(np.eye(case.inputs)[values.tokens[t, row]])
        elif values.x is not None:
            u.append(values.x[t, row].astype(np.float64))
    h = [np.zeros(H) if values.h0 is None else values.h0[row].astype(np.float64)]
    slopes: list[Array] = []
    for k in range(length):
        value, slope = sigma(case.nonlinearity, W_ih @ u[k] + W_hh @ h[k] + bias)
        h.append(leak * h[k] + (1 - leak) * value)
        slopes.append((1 - leak) * slope)
    found["output"][:, row] = h[
        0 if case.reverse else -1
    ]  # held steps: after all the others, or in reverse before them
    for k, t in enumerate(times):
        found["output"][t, row] = h[k + 1]

    direct = np.zeros((case.steps, H)) if values.grad_output is None else values.grad_output[:, row].astype(np.float64)
    held = direct[length:].sum(0)
    back = np.zeros(H) if values.grad_last is None else values.grad_last[row].astype(np.float64)
    back = back if case.reverse else back + held
    state_is_after = leak > 0 or case.convention == 1
    pairs: list[tuple[float, float, Array, Array]] = []
    delta = np.zeros(H)
    for k in range(length - 1, -1, -1):
        t = times[k]
        if k + 1 < length:
            v = back if state_is_after else slopes[k] * back
            later = times[k + 1]
            found["back_sq"][row, later] = v @ v
            right = v if state_is_after else slopes[k] * v
            pairs.append((float(found["error_sq"][row, later]), float(v @ v), delta, right))
        e = back + direct[t]
        e = np.clip(e, -clip, clip) if leak > 0 else e
        delta = slopes[k] * e
        delta = delta if leak > 0 else np.clip(delta, -clip, clip)
        found["error_sq"][row, t] = e @ e if state_is_after else delta @ delta
        found["grad_x"][t, row] = delta @ W_ih
        found["grad_weight_ih"] += np.outer(delta, u[k])
        found["grad_weight_hh"] += np.outer(delta, h[k])
        found["grad_bias"] += delta
        back = delta @ W_hh + leak * e
    found["grad_h0"][row] = back + held if case.reverse else back
    return pairs

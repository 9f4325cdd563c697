"""The benchmarks that echo state networks are published with, beside reservoirpy on the same data in the same run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from steadygrad.baselines import EchoState, nrmse

reservoirpy = pytest.importorskip(
    "reservoirpy", reason="reservoirpy is not installed: pip install 'steadygrad[integrations]'"
)

WASHOUT = 200


def narma10(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """y_{t+1} = .3 y_t + .05 y_t Σ_{i<10} y_{t−i} + 1.5 u_{t−9} u_t + .1, u uniform on [0, .5]  (Atiya & Parlos 2000)."""
    from reservoirpy.datasets import narma

    u, y = narma(4000, order=10, a1=0.3, a2=0.05, b=1.5, c=0.1, seed=seed)
    return u[10:], y


def mackey_glass(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """84 steps ahead, τ = 17, as Jaeger & Haas 2004 score it."""
    from reservoirpy import datasets

    x = np.tanh(datasets.mackey_glass(4084, tau=17, seed=seed) - 1.0)
    return x[:-84], x[84:]


SETTINGS: dict[str, dict[str, Any]] = {
    "narma10": {"data": narma10, "sr": 0.9, "lr": 1.0, "input_scaling": 0.5, "ridge": 1e-6},
    "mackey-glass-84": {"data": mackey_glass, "sr": 1.1, "lr": 0.5, "input_scaling": 1.0, "ridge": 1e-7},
}


def theirs(name: str, seed: int, ridge: float | None = None) -> tuple[float, Any]:
    """reservoirpy's NRMSE on 2,000 steps after 2,000 of training, and its reservoir."""
    from reservoirpy.nodes import Reservoir, Ridge

    u, y = SETTINGS[name]["data"](seed)
    kept = {key: SETTINGS[name][key] for key in ("sr", "lr", "input_scaling")}
    reservoir = Reservoir(200, **kept, input_connectivity=1.0, rc_connectivity=0.1, seed=seed)
    model = reservoir >> Ridge(ridge=SETTINGS[name]["ridge"] if ridge is None else ridge)
    model.fit(u[:2000], y[:2000], warmup=WASHOUT)
    reservoir.reset()
    return nrmse(model.run(u[2000:])[WASHOUT:], y[2000 + WASHOUT :]), reservoir


def dense(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)


@pytest.mark.parametrize("name", SETTINGS)
def test_nrmse_is_reservoirpys_with_the_same_reservoir(name: str) -> None:
    expected, reservoir = theirs(name, seed=1)
    u, y = SETTINGS[name]["data"](1)
    network = EchoState(200, leak=SETTINGS[name]["lr"], washout=WASHOUT, ridge=SETTINGS[name]["ridge"])
    network.use(dense(reservoir.W), dense(reservoir.Win)).fit(u[:2000], y[:2000])
    found = nrmse(network.predict(u[2000:])[WASHOUT:], y[2000 + WASHOUT :])
    # Both solve the same normal equations; what is left is their rounding, times a condition number of 1e9 or so.
    assert found == pytest.approx(expected, rel=1e-4)
    assert found < 0.5


@pytest.mark.parametrize("name", SETTINGS)
def test_chosen_penalty_is_as_good_as_the_best_of_reservoirpy(name: str) -> None:
    tried = [theirs(name, seed=1, ridge=10.0**power) for power in range(-12, 1, 2)]
    best = min(error for error, _ in tried)
    _, reservoir = tried[0]
    u, y = SETTINGS[name]["data"](1)
    network = EchoState(200, leak=SETTINGS[name]["lr"], washout=WASHOUT)
    network.use(dense(reservoir.W), dense(reservoir.Win)).fit(u[:2000], y[:2000])
    found = nrmse(network.predict(u[2000:])[WASHOUT:], y[2000 + WASHOUT :])
    # The best of theirs is chosen on the test series itself; ours by cross-validation on the training series alone.
    assert found < 1.05 * best

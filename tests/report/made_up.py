"""Records and folders of runs, made up for the tests of reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from steadygrad.experiments import Config


def record(
    task: str = "temporal-order",
    length: tuple[int, int] = (50, 200),
    algorithm: str = "sgd-cr",
    preset: str = "steady",
    seed: int = 1,
    solved: bool = True,
    **other: Any,
) -> dict[str, Any]:
    low, high = length
    span = str(low) if low == high else f"{low}-{high}"
    result = {
        "solved": solved,
        "updates": 1000 * seed if solved else 40_000,
        "error": 0.002 if solved else 0.75,
        "seconds": 60.0 * seed,
        "reason": "solved" if solved else "max_updates",
        "total_seconds": 90.0,
    }
    return {
        "id": f"{task}_{span}_{algorithm}_{preset}_seed{seed}",
        "grid": "tasks",
        "command": "steadygrad reproduce tasks --budget hours",
        "problem": task,
        "length": list(length),
        "algorithm": algorithm,
        "preset": preset,
        "seed": seed,
        "config": {"lr": 0.003},
        "result": result,
        "generalisation": {"250": 0.001, "300": 0.002, "400": 0.003 * seed} if high > low else {},
        "commit": "abc1234",
        "version": "0.1.0",
        "machine": {"cpu": "A fine processor", "threads": 2},
        "date": "2026-11-15",
        **other,
    }


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def run_folder(folder: Path, config: Config | None = None, result: bool = True) -> Path:
    """A run of five checks, whose lengths grow and whose error vanishes by a factor of 0.9 a step."""
    config = config or Config("temporal-order", "sgd-cr", (50, 200), threshold=1.0, alpha=2.0)
    rng = np.random.default_rng(0)
    flow, metrics = [], []
    for check in range(5):
        steps, updates = 20 * (check + 1), 1000 * check
        norms = [float(f"{0.9**lag:.4g}") for lag in range(steps)]
        eigenvalues = (rng.normal(size=(8, 2)) * (0.2 + 0.1 * check)).round(4).tolist()
        flow.append({"updates": updates, "steps": steps, "stride": 1, "norms": norms, "eigenvalues": eigenvalues})
        shared = {"omega": 0.01, "spectral_radius": 1.0, "horizon": steps - 1, "high": steps, "seconds": float(check)}
        norm = {"gradient_norm": None if check == 0 else 1.0, "gradient_norm_max": None if check == 0 else 5.0}
        loss = None if check == 0 else 1.0 / check
        metrics.append({"updates": updates, "error": 0.75 / (check + 1), "loss": loss, **norm, **shared})
    write_lines(folder / "flow.jsonl", flow)
    write_lines(folder / "metrics.jsonl", metrics)
    (folder / "config.json").write_text(config.to_json())
    if result:
        verdict = {
            "solved": True,
            "updates": 4000,
            "error": 0.0,
            "seconds": 90.0,
            "reason": "solved",
            "version": "0.1.0",
        }
        (folder / "result.json").write_text(json.dumps(verdict))
    return folder

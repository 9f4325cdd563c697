"""Runs of a few milliseconds, and what a run leaves behind, made up. A module of its own, so that workers can import it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from steadygrad import storage
from steadygrad.experiments import Config, Result, files
from steadygrad.sweep import Grid

TINY = {
    "hidden": 4,
    "max_updates": 3,
    "check_every": 3,
    "check_sequences": 20,
    "test_sequences": 20,
    "after_success": "stop",
}


def tiny(**axes: Any) -> Grid:
    """A grid of real runs that take no time and learn nothing."""
    common: dict[str, Any] = {"lengths": [(10, 10)], "presets": ["steady"], "algorithms": ["sgd", "sgd-cr"]}
    return Grid.product("tiny", **{**common, **TINY, **axes})


def pretend(
    config: Config, directory: Path, *, solved: bool = True, max_updates: int | None = None, **_: Any
) -> Result:
    """In place of `experiments.run`: a verdict without the work. Notes every call in calls.txt beside the cells."""
    directory.mkdir(exist_ok=True)
    with open(directory.parent / "calls.txt", "a", encoding="utf-8") as file:
        file.write(f"{directory.name}\n")
    updates = 100 if solved else (max_updates or config.max_updates)
    reason = "solved" if solved else "max_updates"
    error = 0.004 if solved else 0.75
    result = Result(reason, updates, 1.5, updates, 2.5, updates, solved, error, {"wrong": 0.004})
    storage.write(directory / files.CONFIG, config.to_json().encode())
    result.write(directory, config)
    return result


def evaluated(directory: Path, length: int, **_: Any) -> dict[str, Any]:
    """In place of `experiments.evaluate`: an error that tells its length."""
    return {"length": [length, length], "error": length / 10_000, "errors": {"wrong": length / 10_000}}


def contents(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))

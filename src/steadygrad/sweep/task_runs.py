"""Runs on a synthetic task, as a sweep sees them: solved or not, and after how many updates.

seconds of an update = s + c / check_every        s: of the update itself, c: of a test on check_sequences
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from steadygrad import training
from steadygrad.sweep.kind import Kind, Result
from steadygrad.sweep.outcome import Outcome, duration
from steadygrad.training import RunConfig
from steadygrad.training.evaluation import score
from steadygrad.training.learner import Learner
from steadygrad.training.network import stream
from steadygrad.training.result import ended

UPDATES = 50
"""That a measurement takes, after a few to warm up."""


class TaskRuns(Kind):
    """Runs of `training.run`."""

    name = "task"
    limit = "max_updates"
    reached = "total_updates"
    told = ("task", "length", "algorithm")
    kept = (
        *("solved", "updates", "error", "seconds", "reason", "errors", "best_updates"),
        *("total_updates", "total_seconds"),
    )
    shape = (
        *("task", "algorithm", "length", "batch", "hidden", "nonlinearity", "optimizer"),
        *("backend", "dtype", "threads"),
    )

    def config(self, values: dict[str, Any]) -> RunConfig:
        return RunConfig.from_dict(values)

    def usual(self, config: RunConfig) -> dict[str, Any]:
        return RunConfig(config.task, "sgd").as_dict()

    @property
    def train(self) -> Callable[..., Any]:
        return training.run

    @property
    def test(self) -> Callable[..., Any]:
        return training.evaluate

    def outcome(self, cell: str, result: Result) -> Outcome:
        """What became of it.

        >>> solved = {"solved": True, "reason": "solved", "updates": 12_000, "error": 0.004, "seconds": 14.0}
        >>> print(TaskRuns().outcome("a", solved))
        solved after 12,000 updates (14 s, 0.40 % wrong)
        """
        numbers = {key: result[key] for key in ("solved", "reason", "updates", "error", "seconds")}
        verdict = ended(result["solved"], result["reason"], result["updates"])
        share = f"{100 * result['error']:.{2 if result['solved'] else 1}f} % wrong"
        summary = f"{verdict} ({duration(result['seconds'])}, {share})"
        return Outcome(cell, "finished", **numbers, summary=summary)

    def seconds(self, result: Result) -> float:
        return result["total_seconds"]

    def beyond(self, tested: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"generalisation": {length: each["error"] for length, each in tested.items()}}
        squared = {length: each["errors"]["squared"] for length, each in tested.items() if "squared" in each["errors"]}
        return found | ({"generalisation_squared": squared} if squared else {})

    def alike(self, config: RunConfig) -> tuple[Any, ...]:
        return config.task, config.length, config.algorithm

    def work(self, config: RunConfig) -> float:
        return config.max_updates * sum(config.length)

    def read(self, folder: Path) -> RunConfig:
        return training.read_config(folder)

    def pace(self, result: Result) -> float | None:
        return super().pace(result) if result["total_updates"] > UPDATES else None

    def measured(self, config: RunConfig, updates: int = UPDATES) -> float:
        """Seconds of one update at the config's full lengths, and its share of a test."""
        learner = Learner(config)
        learner.lengths.now = config.length
        for _ in range(5):
            learner.update()
        start = time.perf_counter()
        for _ in range(updates):
            learner.update()
        one = (time.perf_counter() - start) / updates
        few = min(config.check_sequences, 200)
        start = time.perf_counter()
        score(learner.network, config.length, few, stream(config.seed, "estimate"))
        test = (time.perf_counter() - start) * config.check_sequences / few
        return one + test / config.check_every

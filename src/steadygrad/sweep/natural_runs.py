"""Runs on music or text, as a sweep sees them: a figure of merit, and after how many epochs.

The room `steadygrad.natural` is opened when the first such cell is met: a sweep of tasks has no use for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steadygrad.data.sources import SOURCES
from steadygrad.sweep.kind import Kind, Result
from steadygrad.sweep.outcome import Outcome, duration

if TYPE_CHECKING:
    from steadygrad.natural import NaturalConfig

UPDATES = 10
"""That a measurement takes, after one to warm up."""


class NaturalRuns(Kind):
    """Runs of `natural.run`."""

    name = "natural"
    limit = "epochs"
    reached = "epochs"
    told = ("data", "ahead", "algorithm")
    kept = ("train", "valid", "test", "best_epoch", "epochs", "updates", "seconds", "reason", "tokens_per_second")
    shape = ("data", "batch", "steps", "hidden", "nonlinearity", "optimizer", "backend", "dtype", "threads")

    def config(self, values: dict[str, Any]) -> NaturalConfig:
        from steadygrad import natural

        return natural.NaturalConfig.from_dict(values)

    def usual(self, config: NaturalConfig) -> dict[str, Any]:
        return {field.name: field.default for field in fields(config) if field.default is not MISSING}

    @property
    def train(self) -> Callable[..., Any]:
        from steadygrad import natural

        return natural.run

    @property
    def test(self) -> Callable[..., Any]:
        raise ValueError("test_lengths must be left out of a cell of music or text, whose test set is its own")

    def outcome(self, cell: str, result: Result) -> Outcome:
        """What became of it.

        >>> ended = {"train": 3.21, "test": 3.456, "epochs": 40, "updates": 9000, "seconds": 600.0, "reason": "patience"}
        >>> print(NaturalRuns().outcome("a", ended))
        test 3.456, train 3.210 after 40 epochs (10 min, patience)
        """
        numbers = {key: result[key] for key in ("reason", "updates", "seconds")}
        figures = ", ".join(f"{part} {_figure(result[part])}" for part in ("test", "train"))
        summary = f"{figures} after {result['epochs']:,} epochs ({duration(result['seconds'])}, {result['reason']})"
        return Outcome(cell, "finished", **numbers, summary=summary)

    def seconds(self, result: Result) -> float:
        return result["seconds"]

    def beyond(self, tested: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def alike(self, config: NaturalConfig) -> tuple[Any, ...]:
        return config.data, config.ahead, config.algorithm

    def work(self, config: NaturalConfig) -> float:
        return config.epochs * _bytes(config)

    def read(self, folder: Path) -> NaturalConfig:
        from steadygrad.natural.saved import read_config

        return read_config(folder)

    def measured(self, config: NaturalConfig, updates: int = UPDATES) -> float:
        """Seconds of an epoch, validation included, from a few updates and one chunk of validation."""
        from steadygrad.natural.corpus import open_corpus
        from steadygrad.natural.learner import Learner

        corpus = open_corpus(config)
        learner = Learner(config, corpus)
        learner.update()
        before = learner.tokens
        start = time.perf_counter()
        for _ in range(updates):
            if learner.at_end_of_epoch:
                learner.next_epoch()
            learner.update()
        learned = (time.perf_counter() - start) / (learner.tokens - before)
        chunk = next(corpus.whole("valid"))
        start = time.perf_counter()
        read = learner.network.read(chunk)
        tested = (time.perf_counter() - start) / read.predictions
        return learned * corpus.predictions("train") + tested * corpus.predictions("valid")


def _bytes(config: NaturalConfig) -> int:
    """How large the training data is as a file: about proportional to its steps, and known without reading it."""
    if config.data in SOURCES:
        return SOURCES[config.data][0].size
    path = Path(config.path or "")
    return sum(file.stat().st_size for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"

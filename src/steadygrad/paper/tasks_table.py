"""The pathological tasks: how many seeds solve each, how soon, and how far beyond the lengths they were trained on.

One row for each (task, length, preset, algorithm). `updates` and `minutes` are medians over the seeds that solved it;
`errors` at 250, 300, 400 steps are those of the same seeds' best weights, and of no other: an unsolved network's error
says nothing about generalisation.

Reference: Pascanu, Mikolov & Bengio 2013, section 4.1 and supplement, "The pathological synthetic tasks".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steadygrad.experiments.config import TASKS, Config
from steadygrad.paper import PRINTED
from steadygrad.success import SuccessRate, grouped, until_success

CLAIMS: dict[str, str] = PRINTED["tasks"]
"""What the paper says of each task with SGD-CR."""

WITHOUT = {"sgd-cr": "", "sgd-c": " without Ω", "sgd-r": " without clipping", "sgd": " without Ω and clipping"}
"""What an algorithm lacks of SGD-CR, in the order of the table."""
Key = tuple[str, tuple[int, int], str, str]
SUCCESS: float = Config.model_fields["success"].default


@dataclass(frozen=True)
class Row:
    """What is known of a task at some length, under a preset, by an algorithm."""

    problem: str
    length: tuple[int, int]  # low, high
    preset: str
    algorithm: str
    success: SuccessRate
    updates: float | None  # medians until the first success; None where no seed succeeded
    minutes: float | None
    errors: Mapping[int, list[float]] = field(default_factory=dict)  # by length, of the seeds that succeeded
    failed: int = 0  # how many cells have no result
    limit: int = 0  # the updates after which the others gave up
    allowed: float = SUCCESS  # the share that may be wrong where a run counts as solved; of several, the largest
    within: SuccessRate = field(
        default_factory=lambda: SuccessRate(0, 0)
    )  # the seeds whose best weights err in at most 1 %

    @property
    def label(self) -> str:
        """The preset, and what is left out of it: 'steady without Ω'."""
        return self.preset + WITHOUT[self.algorithm]


def rows(records: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The rows of the table, in the paper's order of tasks; records of data sets are left out."""
    drawn = (record for record in records if "length" in record)
    groups = grouped(drawn, lambda r: (r["problem"], tuple(r["length"]), r["preset"], r["algorithm"]))
    return [_row(key, groups[key]) for key in sorted(groups, key=_order)]


def _order(key: Key) -> tuple[Any, ...]:
    problem, length, preset, algorithm = key
    place = TASKS.index(problem) if problem in TASKS else len(TASKS)
    return place, problem, length, preset, list(WITHOUT).index(algorithm)


def _row(key: Key, records: list[Mapping[str, Any]]) -> Row:
    ended = [record for record in records if record["result"] is not None]
    solved = [record for record in ended if record["result"]["solved"]]
    tests = grouped((each for r in solved for each in r.get("generalisation", {}).items()), lambda each: int(each[0]))
    errors = {length: [error for _, error in tests[length]] for length in sorted(tests)}
    gave_up = max((r["result"]["updates"] for r in ended if not r["result"]["solved"]), default=0)
    allowed = max(record.get("config", {}).get("success", SUCCESS) for record in records)
    found = until_success([record["result"] for record in ended])
    within = SuccessRate.of(record["result"].get("error", 1.0) <= SUCCESS for record in ended)
    return Row(*key, *found, errors, len(records) - len(ended), gave_up, allowed, within)

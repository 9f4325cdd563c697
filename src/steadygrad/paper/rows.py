"""The lines of tables: how many seeds of the same settings solve a problem, how soon, and how far beyond their lengths.

`updates` and `minutes` are medians over the seeds that solved it; `errors` at 250, 300, 400 steps are those of the same seeds'
best weights, and of no other: an unsolved network's error says nothing about generalisation.

Reference: Pascanu, Mikolov & Bengio 2013, section 4.1 and supplement, "The pathological synthetic tasks".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from steadygrad.experiments.config import TASKS, default
from steadygrad.paper import PRINTED
from steadygrad.success import SuccessRate, grouped

Record = Mapping[str, Any]
CLAIMS: dict[str, str] = PRINTED["tasks"]
"""What the paper says of each task with SGD-CR."""
WITHOUT = {"sgd-cr": "", "sgd-c": " without Ω", "sgd-r": " without clipping", "sgd": " without Ω and clipping"}
"""What an algorithm lacks of SGD-CR, in the order of the table."""
SUCCESS: float = default("success")


@dataclass(frozen=True)
class Row:
    """What is known of a task at some length, under a preset, by an algorithm."""

    problem: str
    length: tuple[int, int]  # low, high
    preset: str
    algorithm: str
    more: Any  # what else tells the rows apart
    success: SuccessRate
    updates: float | None  # medians until the first success; None where no seed succeeded
    minutes: float | None
    errors: Mapping[int, list[float]]  # by length, of the seeds that succeeded
    failed: int  # how many cells have no result
    limit: int  # the updates after which the others gave up
    allowed: float  # the share that may be wrong where a run counts as solved; of several, the largest
    within: SuccessRate  # the seeds whose best weights err in at most 1 %
    error: float  # the median share of wrong answers at the end
    horizon: float  # the median of how many steps back the error came at the last test; 0 where none is sent back

    @property
    def label(self) -> str:
        """The preset, and what is left out of it: 'steady without Ω'."""
        return self.preset + WITHOUT[self.algorithm]


def rows(records: Iterable[Record], more: Callable[[Record], Any] = lambda _: None) -> list[Row]:
    """The rows of the table, in the paper's order of tasks; records of data sets are left out."""
    drawn = (record for record in records if "length" in record)
    groups = grouped(drawn, lambda r: (r["problem"], tuple(r["length"]), r["preset"], r["algorithm"], more(r)))
    return [_row(key, groups[key]) for key in sorted(groups, key=_order)]


def _order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    problem, length, preset, algorithm, more = key
    place = TASKS.index(problem) if problem in TASKS else len(TASKS)
    return place, problem, length, preset, list(WITHOUT).index(algorithm), more or ()


def _row(key: tuple[Any, ...], records: list[Record]) -> Row:
    ended = [record["result"] for record in records if record["result"] is not None]
    solved = [record for record in records if record["result"] and record["result"]["solved"]]
    seconds = [record["result"]["seconds"] for record in solved if "seconds" in record["result"]]
    tests = grouped((each for r in solved for each in r.get("generalisation", {}).items()), lambda each: int(each[0]))
    return Row(
        *key,
        success=SuccessRate(len(solved), len(ended)),
        updates=median(record["result"]["updates"] for record in solved) if solved else None,
        minutes=median(seconds) / 60 if seconds else None,
        errors={length: [error for _, error in tests[length]] for length in sorted(tests)},
        failed=len(records) - len(ended),
        limit=max((result["updates"] for result in ended if not result["solved"]), default=0),
        allowed=max(record.get("config", {}).get("success", SUCCESS) for record in records),
        within=SuccessRate.of(result.get("error", 1.0) <= SUCCESS for result in ended),
        error=median(result.get("error", 1.0) for result in ended) if ended else 1.0,
        horizon=median(result.get("horizon") or 0 for result in ended) if ended else 0,
    )

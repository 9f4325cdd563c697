"""Tables 1 and 2: what the paper printed, and what our records put beside it.

    figure of merit   music: −Σ over 88 notes of log p, mean over the steps of a split; text: bits per character
    order             SGD > SGD+C > SGD+CR on the test split, lower being better, each step by 0.005 or more

Within a run the weights that were best on validation decide; of several seeds, the one that was best on validation.
Nothing is chosen by the test split, which is read once, at the end. The runs are cells of the grids `table1` and `table2`.

Reference: Pascanu, Mikolov & Bengio 2013, section 4.2 and Tables 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from steadygrad.paper import PRINTED

Record = Mapping[str, Any]

ALGORITHMS = {"sgd": "SGD", "sgd-c": "SGD+C", "sgd-cr": "SGD+CR"}
FOLDS = ("train", "test")
PRESETS = ("paper", "steady")  # in the order of the rows; others follow
TOLD_APART = 0.005  # half of what the last digit of the paper's figures is worth: what is closer is not told apart


@dataclass(frozen=True)
class Printed:
    """A block of the paper's table."""

    label: str  # what the paper calls it
    problem: str
    ahead: int | None  # of music None
    # The figures of SGD, SGD+C and SGD+CR; the paper has none of SGD for five characters.
    train: tuple[float | None, float, float]
    test: tuple[float | None, float, float]

    def figure(self, algorithm: str, fold: str) -> float | None:
        """The paper's figure, if it has one."""
        return getattr(self, fold)[list(ALGORITHMS).index(algorithm)]


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper: its grid's name, a title, what its figures are, what the paper says of it, and its blocks."""

    name: str
    title: str
    figures: str
    claim: str
    blocks: tuple[Printed, ...]


TABLES = {
    name: PaperTable(name, **{**PRINTED[name], "blocks": tuple(Printed(**block) for block in PRINTED[name]["blocks"])})
    for name in ("table1", "table2")
}


@dataclass(frozen=True)
class Found:
    """The results of one algorithm's seeds, the best on validation first; those without a figure are left out."""

    records: tuple[Record, ...]

    def figure(self, fold: str) -> float | None:
        return self.records[0]["result"][fold] if self.records else None

    def all(self, fold: str) -> list[float]:
        return [record["result"][fold] for record in self.records]

    @property
    def minutes(self) -> float:
        return sum(record["result"]["seconds"] for record in self.records) / 60 / max(1, len(self.records))


@dataclass(frozen=True)
class Row:
    """A block of the table under one preset: what was found by each algorithm."""

    printed: Printed
    preset: str
    found: Mapping[str, Found]

    @property
    def tested(self) -> dict[str, float | None]:
        """The figure on the test split, by the algorithm's label; None where one is missing."""
        return {name: self.found[algorithm].figure("test") for algorithm, name in ALGORITHMS.items()}

    @property
    def order(self) -> bool | None:
        """Whether SGD > SGD+C > SGD+CR on the test split; None where one of them is missing."""
        return _falls([*self.tested.values()])

    @property
    def alike(self) -> list[tuple[str, str]]:
        """Neighbours in that order whose figures are not told apart."""
        known = [(name, value) for name, value in self.tested.items() if value is not None]
        return [(one, two) for (one, a), (two, b) in pairwise(known) if abs(a - b) < TOLD_APART]

    @property
    def order_by_seed(self) -> list[bool]:
        """The same for every seed that all three algorithms have."""
        by_seed = [{record["seed"]: record["result"]["test"] for record in self.found[a].records} for a in ALGORITHMS]
        shared = sorted(set.intersection(*(set(each) for each in by_seed)))
        return [bool(_falls([each[seed] for each in by_seed])) for seed in shared]


def rows(table: PaperTable, records: Iterable[Record]) -> list[Row]:
    """A row for each block and preset that has a record, in the paper's order, `paper` before `steady`.

    Records of other problems are left out.
    """
    listed = list(records)
    found: list[Row] = []
    for printed in table.blocks:
        block = printed.problem, printed.ahead
        mine = [record for record in listed if (record["problem"], record.get("ahead")) == block]
        presets = sorted({record["preset"] for record in mine}, key=lambda name: (name not in PRESETS, name))
        for preset in presets:
            by_algorithm = {
                algorithm: _found(r for r in mine if (r["preset"], r["algorithm"]) == (preset, algorithm))
                for algorithm in ALGORITHMS
            }
            found.append(Row(printed, preset, by_algorithm))
    return found


def _found(records: Iterable[Record]) -> Found:
    figures = ("valid", *FOLDS)
    whole = [r for r in records if r["result"] and all(r["result"][name] is not None for name in figures)]
    return Found(tuple(sorted(whole, key=lambda record: (record["result"]["valid"], record["seed"]))))


def _falls(figures: Sequence[float | None]) -> bool | None:
    known = [figure for figure in figures if figure is not None]
    return None if len(known) < len(figures) else all(a - b >= TOLD_APART for a, b in pairwise(known))

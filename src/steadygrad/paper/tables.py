"""Tables 1 and 2: what the paper printed, and what our records put beside it.

    figure of merit   music: −Σ over 88 notes of log p, mean over the steps of a split; text: bits per character
    order             SGD > SGD+C > SGD+CR on the test split, lower being better, each step by 0.005 or more

Within a run the weights that were best on validation decide; of several seeds, the mean. Nothing is chosen by the test split,
which is read once, at the end. The runs are cells of the grids `table1` and `table2`.

Reference: Pascanu, Mikolov & Bengio 2013, section 4.2 and Tables 1 and 2; Bai, Kolter & Koltun 2018, "An empirical evaluation
of generic convolutional and recurrent networks for sequence modeling", Table 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import mean

from steadygrad.paper import PRINTED
from steadygrad.paper.rows import Record
from steadygrad.success import grouped

ALGORITHMS = {"sgd": "SGD", "sgd-c": "SGD+C", "sgd-cr": "SGD+CR"}
FOLDS, FIGURES = ("train", "test"), ("train", "valid", "test")
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
    final: Mapping[str, float] = field(default_factory=dict[str, float])
    """Figures of SGD+CR, by fold, where the final edition (the proceedings) printed others."""
    others: Mapping[str, float] = field(default_factory=dict[str, float])
    """What Bai et al. 2018 found on the test split of the same files, by network."""

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
class Row:
    """A block of the table under one preset: the records of each algorithm; those without a figure are left out."""

    printed: Printed
    preset: str
    found: Mapping[str, Sequence[Record]]

    def figures(self, algorithm: str, fold: str) -> list[float]:
        """Of every seed."""
        return [record["result"][fold] for record in self.found[algorithm]]

    @property
    def tested(self) -> dict[str, float | None]:
        """The mean on the test split over the seeds that all algorithms with a record share; None where it is missing."""
        there = [name for name in ALGORITHMS if self.found[name]]
        shared = [mean(figures) for figures in zip(*self.by_seed(*there), strict=True)] if there else []
        known = dict(zip(there, shared, strict=False))
        return {label: known.get(name) for name, label in ALGORITHMS.items()}

    @property
    def order(self) -> bool | None:
        """Whether SGD > SGD+C > SGD+CR on the test split; None where one of them is missing."""
        known = [figure for figure in self.tested.values() if figure is not None]
        return _falls(known) if len(known) == len(ALGORITHMS) else None

    @property
    def alike(self) -> list[tuple[str, str]]:
        """Neighbours in that order whose figures are not told apart."""
        known = [(name, value) for name, value in self.tested.items() if value is not None]
        return [(one, two) for (one, a), (two, b) in pairwise(known) if abs(a - b) < TOLD_APART]

    @property
    def order_by_seed(self) -> list[bool]:
        """The same for every seed that all three algorithms have."""
        return [_falls(figures) for figures in self.by_seed(*ALGORITHMS)]

    def by_seed(self, *algorithms: str) -> list[list[float]]:
        """The figures on the test split of each seed that all of these algorithms have."""
        by_seed = [{record["seed"]: record["result"]["test"] for record in self.found[a]} for a in algorithms]
        return [[each[seed] for each in by_seed] for seed in sorted(set.intersection(*map(set, by_seed)))]


def rows(table: PaperTable, records: Iterable[Record]) -> list[Row]:
    """A row for each block and preset that has a record, in the paper's order, then by preset; others are left out."""
    blocks = grouped(records, lambda record: (record["problem"], record.get("ahead")))
    found: list[Row] = []
    for printed in table.blocks:
        by_preset = grouped(blocks.get((printed.problem, printed.ahead), ()), lambda record: record["preset"])
        for preset in sorted(by_preset, key=lambda name: (name not in PRESETS, name)):
            whole = [r for r in by_preset[preset] if r["result"] and None not in map(r["result"].get, FIGURES)]
            whole.sort(key=lambda record: record["seed"])
            by_algorithm = {name: [r for r in whole if r["algorithm"] == name] for name in ALGORITHMS}
            found.append(Row(printed, preset, by_algorithm))
    return found


def _falls(figures: Sequence[float]) -> bool:
    return all(a - b >= TOLD_APART for a, b in pairwise(figures))

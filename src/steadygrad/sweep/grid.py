"""A grid of runs: task × lengths × algorithm × preset × initialisation × seed, each cell a config and a readable name.

temporal-order_50-200_sgd-cr_steady_seed1       one model for all lengths from 50 to 200
temporal-order_50_sgd_paper_smart_tanh_seed3    a model for length 50 alone, with another initialisation
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steadygrad.checks import one_of, whole
from steadygrad.sweep.kind import Config
from steadygrad.training import ConfigError, RunConfig, preset
from steadygrad.training.config import ALGORITHMS

# Fields that only some cells have a use for. In a grid they are meant for those that do.
OF_CLIPPING = ("threshold", "nonfinite")
OF_OMEGA = ("alpha", "alpha_schedule")
OF_CURRICULUM = ("curriculum", "growth", "patience", "curriculum_loss")


@dataclass(frozen=True)
class Cell:
    """One run of a grid.

    Attributes:
        id: readable, unique in its grid, the name of its folder.
        config: everything the run needs.
        preset: the name of the settings it began from.
        test_lengths: where the trained model is tested beyond the lengths it saw.
    """

    id: str
    config: Config
    preset: str
    test_lengths: tuple[int, ...] = ()


@dataclass(frozen=True)
class Grid:
    """Runs to be made, in the order in which they are begun.

    Args:
        name: what it is called in records.
        cells: with distinct ids.

    >>> grid = Grid.product("mine", lengths=[(10, 10), (50, 200)], algorithms=["sgd", "sgd-cr"], presets=["steady"])
    >>> [cell.id for cell in grid.cells][:2]
    ['temporal-order_10_sgd_steady_seed1', 'temporal-order_10_sgd-cr_steady_seed1']
    """

    name: str
    cells: tuple[Cell, ...]

    def __post_init__(self) -> None:
        if not self.cells:
            raise ValueError(f"grid {self.name!r} must have a cell, and has none")
        twice = [cell for cell, count in Counter(cell.id for cell in self.cells).items() if count > 1]
        if twice:
            raise ValueError(f"cells of grid {self.name!r} must be distinct, but {', '.join(twice)} is there twice")

    @classmethod
    def product(
        cls,
        name: str,
        *,
        tasks: Sequence[str] = ("temporal-order",),
        lengths: Sequence[tuple[int, int]] | None = None,
        algorithms: Sequence[str] = ("sgd", "sgd-c", "sgd-cr"),
        presets: Sequence[str] = ("paper",),
        inits: Sequence[str] | None = None,
        seeds: Sequence[int] = (1,),
        test_lengths: Sequence[int] = (),
        **overrides: Any,
    ) -> Grid:
        """Every combination; all cells of the first seed come first, so that a sweep cut short has whole rows.

        Args:
            name: what it is called in records.
            tasks: names of `steadygrad.tasks`.
            lengths: ranges (low, high), both included; (50, 50) is one length. None means the preset's.
            algorithms: 'sgd', 'sgd-c', 'sgd-r', 'sgd-cr'.
            presets: 'paper', 'program', 'steady'.
            inits: names of initialisations; None means the preset's.
            seeds: whole numbers.
            test_lengths: where each trained model is tested beside.
            **overrides: fields of `RunConfig` that shall be otherwise; those of clipping and of Ω in the cells whose
                algorithm has it, those of a curriculum in the cells whose lengths it can grow into.

        Returns:
            the grid; all faults of all cells are reported at once (`ConfigError`).
        """
        for algorithm in algorithms:
            one_of("algorithm", algorithm, ALGORITHMS)
        test = tuple(whole("test_lengths", length) for length in test_lengths)
        cells: list[Cell] = []
        faults: dict[str, None] = {}
        unused = dict.fromkeys(overrides)
        for seed in seeds:
            for task in tasks:
                for settings in presets:
                    for init in inits or [None]:
                        for length in lengths or [None]:
                            for algorithm in algorithms:
                                fields = _fields(algorithm, length, overrides)
                                unused = dict.fromkeys(name for name in unused if name not in fields)
                                fields |= {"seed": seed} | ({} if init is None else {"init": init})
                                fields |= {} if length is None else {"length": length}
                                try:
                                    config = preset(task, algorithm, settings, **fields)
                                except ConfigError as found:
                                    faults |= dict.fromkeys(found.faults)
                                    continue
                                cells.append(Cell(_name(config, settings, init), config, settings, test))
        faults |= dict.fromkeys(f"{field} must be left out: no cell of the grid would read it" for field in unused)
        if faults:
            raise ConfigError(list(faults))
        return cls(name, tuple(cells))

    def __add__(self, other: Grid) -> Grid:
        """Both grids' cells under this one's name; a cell that is in both is there once."""
        mine = {cell.id for cell in self.cells}
        return Grid(self.name, self.cells + tuple(cell for cell in other.cells if cell.id not in mine))


def _name(config: RunConfig, settings: str, init: str | None) -> str:
    low, high = config.length
    length = f"{low}" if low == high else f"{low}-{high}"
    parts = [config.task, length, config.algorithm, settings, *([] if init is None else [init]), f"seed{config.seed}"]
    return "_".join(parts)


def read_by(algorithm: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """Those of `overrides` that a run by `algorithm` reads.

    >>> read_by("sgd-c", {"lr": 0.1, "threshold": 1.0, "alpha": 2.0})
    {'lr': 0.1, 'threshold': 1.0}
    """
    absent: tuple[str, ...] = ()
    if algorithm not in ("sgd-c", "sgd-cr"):
        absent += OF_CLIPPING
    if algorithm not in ("sgd-r", "sgd-cr"):
        absent += OF_OMEGA
    return {field: value for field, value in overrides.items() if field not in absent}


def _fields(algorithm: str, length: tuple[int, int] | None, overrides: dict[str, Any]) -> dict[str, Any]:
    fields = read_by(algorithm, overrides)
    curriculum = overrides.get("curriculum")
    if curriculum is not None and length is not None and (curriculum[0] >= length[0] or curriculum[1] > length[1]):
        fields = {field: value for field, value in fields.items() if field not in OF_CURRICULUM}
    return fields

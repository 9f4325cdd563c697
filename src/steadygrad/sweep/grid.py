"""A grid of runs: problem × lengths (or steps ahead) × algorithm × preset × initialisation × seed.

temporal-order_50-200_sgd-cr_steady_seed1       one model for all lengths from 50 to 200
temporal-order_50_sgd_paper_smart_tanh_seed3    a model for length 50 alone, with another initialisation
nottingham_sgd-cr_paper_seed1                   music, whose next step is predicted
ptb_ahead5_sgd-c_steady_seed2                   text, five characters ahead
recall_50_sgd-cr_steady_gru_chrono_longest-50_alpha-4_seed1   a GRU, with settings that are not the preset's
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steadygrad.checks import whole
from steadygrad.experiments import Config, ConfigError, preset
from steadygrad.experiments import problem as problems_
from steadygrad.experiments.config import DRAWN, TEXTS
from steadygrad.experiments.presets import OF_CURRICULUM, unread, without

NAMED = (
    *("longest", "optimizer", "lr", "threshold", "alpha", "omega", "radius", "input_scaling", "per", "clip_error"),
    *("noise", "dropout", "transpose", "l1", "l2", "truncate", "teacher_forcing", "damping", "structural"),
)
"""Settings that an id names where they are not the preset's, so that cells that differ in them can share a folder and a file of
records. Limits are not among them: a cell goes on to a higher limit under its own id."""
RECORDED: dict[str, dict[str, Any]] = {"recall": {"lr": 0.001, "alpha": 1.0}}
"""What ids leave out in place of the preset's: the records of recall were made with these before ids named them."""
Seeds = int | Sequence[int] | None


@dataclass(frozen=True)
class Cell:
    """One run of a grid: its id is readable, unique in the grid, and the name of its folder."""

    id: str
    config: Config
    preset: str  # the settings it began from
    test_lengths: tuple[int, ...] = ()  # where the trained model is tested beyond the lengths it saw

    @property
    def limit(self) -> int:
        """The updates or epochs after which it gives up."""
        return getattr(self.config, self.config.limit)


@dataclass(frozen=True)
class Grid:
    """Runs to be made, in the order in which they are begun; `name` is the grid's in records, and all ids differ.

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
        problems: Sequence[Any] = ("temporal-order",),
        lengths: Sequence[tuple[int, int]] | None = None,
        aheads: Sequence[int] | None = None,
        algorithms: Sequence[str] = ("sgd", "sgd-c", "sgd-cr"),
        presets: Sequence[str] = ("paper",),
        inits: Sequence[str] | None = None,
        seeds: Sequence[int] = (1,),
        test_lengths: Sequence[int] = (),
        usual: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> Grid:
        """Every combination; all cells of the first seed come first, so that a sweep cut short has whole rows.

        Args:
            name, problems: the grid's name, in records; names of problems, or classes of one's own.
            lengths: of drawn problems: ranges (low, high), both included; (50, 50) is one length. None means the preset's.
            aheads: of texts: how many characters ahead is predicted.
            algorithms, presets, inits, seeds: as in a `Config` and in `experiments.preset`; inits None means the preset's.
            test_lengths: where each trained model of a drawn problem is tested as well.
            usual: fields of `Config` that belong to the grid as to a preset: ids do not name them.
            **overrides: fields of `Config` to be changed; those of clipping and of Ω in the cells whose algorithm
                has it, those of a curriculum in the cells whose lengths it can grow into.

        Raises ConfigError with all faults of all cells.

        >>> grid = Grid.product("mine", problems=["nottingham"], algorithms=["sgd-cr"], epochs=3)
        >>> [cell.id for cell in grid.cells]
        ['nottingham_sgd-cr_paper_seed1']
        """
        test = tuple(whole("test_lengths", length) for length in test_lengths)
        cells, faults, unused = list[Cell](), dict[str, None](), dict.fromkeys(overrides)
        named = [problems_.name_of(problem) for problem in problems]
        axes = (seeds, named, presets, inits or [None], lengths or [None], aheads or [None], algorithms)
        for seed, problem, settings, init, length, ahead, algorithm in itertools.product(*axes):
            fields = read_by(algorithm, {**(usual or {}), **overrides}, length)
            unused = dict.fromkeys(field for field in unused if field not in fields)
            own = {"seed": seed, "init": init, "length": length, "ahead": ahead}
            fields |= {field: value for field, value in own.items() if value is not None}
            try:
                config = preset(problem, algorithm, settings, **fields)
                # what it would be without the overrides, to tell what the id has to name
                asked = {field: fields[field] for field in ("path", "options", "length", "ahead") if field in fields}
                asked = {**read_by(algorithm, usual or {}, length), **asked}
                like = preset(problem, algorithm, settings, **asked)
            except ConfigError as found:
                faults |= dict.fromkeys(found.faults)
                continue
            tested = test if config.form == DRAWN else ()
            cells.append(Cell(_name(config, like, settings, init), config, settings, tested))
        faults |= dict.fromkeys(f"{field} must be left out: no cell of the grid would read it" for field in unused)
        if faults:
            raise ConfigError(list(faults))
        return cls(name, tuple(cells))

    def __add__(self, other: Grid) -> Grid:
        """Both grids' cells under this one's name; a cell that is in both is there once."""
        mine = {cell.id for cell in self.cells}
        return Grid(self.name, self.cells + tuple(cell for cell in other.cells if cell.id not in mine))


def _name(config: Config, like: Config, settings: str, init: str | None) -> str:
    """The id of a cell; `like` has the preset's values where the config may have others."""
    parts = [problems_.title(config.problem)]
    if config.form == DRAWN:
        low, high = config.length
        parts.append(f"{low}" if low == high else f"{low}-{high}")
    elif config.problem in TEXTS:
        parts.append(f"ahead{config.ahead}")
    parts += [config.algorithm, settings]
    parts += [] if config.network == "rnn" else [config.network]
    parts += [init] if init else []
    for field in read_by(config.algorithm, dict.fromkeys(NAMED)):
        value = getattr(config, field)
        if value != RECORDED.get(config.problem, {}).get(field, getattr(like, field)):
            parts.append(f"{field}-{value:g}" if isinstance(value, float) else f"{field}-{value}")
    return "_".join([*parts, f"seed{config.seed}"])


def read_by(algorithm: str, settings: Mapping[str, Any], length: tuple[int, int] | None = None) -> dict[str, Any]:
    """Those of `settings` that a run by `algorithm`, of this length, reads."""
    start = settings.get("curriculum")
    too_long = start is not None and length is not None and (start[0] >= length[0] or start[1] > length[1])
    absent = without(*unread(algorithm), (too_long, OF_CURRICULUM))
    return {field: value for field, value in settings.items() if field not in absent}


def chosen_seeds(asked: Seeds, usual: int, first: int = 1) -> Sequence[int]:
    """The seeds asked for, by their number or as a list; else the usual number of them."""
    if isinstance(asked, Sequence):
        return asked
    return range(first, first + (usual if asked is None else whole("seeds", asked)))

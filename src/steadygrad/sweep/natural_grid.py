"""A grid of runs on music or text: settings × data × steps ahead × algorithm × seed.

nottingham_sgd-cr_paper_seed1     music, whose next step is predicted
ptb_ahead5_sgd-c_steady_seed2     text, five characters ahead
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from steadygrad.checks import one_of
from steadygrad.data import text
from steadygrad.sweep.grid import Cell, Grid, read_by
from steadygrad.training import ConfigError
from steadygrad.training.config import ALGORITHMS

if TYPE_CHECKING:
    from steadygrad.natural import NaturalConfig


def natural_product(
    name: str,
    *,
    data: Sequence[str],
    aheads: Sequence[int] = (1,),
    algorithms: Sequence[str] = ("sgd", "sgd-c", "sgd-cr"),
    presets: Sequence[str] = ("paper",),
    seeds: Sequence[int] = (1,),
    **overrides: Any,
) -> Grid:
    """Every combination; all cells of the first seed come first, so that a sweep cut short has whole rows.

    Args:
        name: what it is called in records.
        data: names of `steadygrad.natural`.
        aheads: how many steps ahead is predicted; (1,) for music.
        algorithms: 'sgd', 'sgd-c', 'sgd-r', 'sgd-cr'.
        presets: 'paper', 'steady'.
        seeds: whole numbers.
        **overrides: fields of `NaturalConfig` that shall be otherwise; those of clipping and of Ω in the cells whose
            algorithm has it.

    Returns:
        the grid; all faults of all cells are reported at once (`ConfigError`).

    >>> [cell.id for cell in natural_product("mine", data=["nottingham"], algorithms=["sgd-cr"], epochs=3).cells]
    ['nottingham_sgd-cr_paper_seed1']
    """
    from steadygrad import natural

    for algorithm in algorithms:
        one_of("algorithm", algorithm, ALGORITHMS)
    cells: list[Cell] = []
    faults: dict[str, None] = {}
    unused = dict.fromkeys(overrides)
    combinations = [(s, p, d, a, r) for s in seeds for p in presets for d in data for a in aheads for r in algorithms]
    for seed, settings, source, ahead, algorithm in combinations:
        fields = read_by(algorithm, overrides)
        unused = dict.fromkeys(field for field in unused if field not in fields)
        try:
            config = natural.preset(source, algorithm, settings, **{"ahead": ahead, "seed": seed, **fields})
        except ConfigError as found:
            faults |= dict.fromkeys(found.faults)
            continue
        cells.append(Cell(_name(config, settings), config, settings))
    faults |= dict.fromkeys(f"{field} must be left out: no cell of the grid would read it" for field in unused)
    if faults:
        raise ConfigError(list(faults))
    return Grid(name, tuple(cells))


def _name(config: NaturalConfig, settings: str) -> str:
    ahead = [f"ahead{config.ahead}"] if config.data in (*text.NAMES, "text") else []
    return "_".join([config.data, *ahead, config.algorithm, settings, f"seed{config.seed}"])

"""The grids that have a name, and how large each budget makes them.

fig7       temporal order, a model for each length, SGD, SGD-C and SGD-CR          (Pascanu et al. 2013, Fig. 7)
tasks      every task as the paper does it: one model for 50 to 200 steps (memorization: one for each of four
           lengths), the settings `paper` and `steady`, tested at 250, 300 and 400 steps
ablation   `steady` on every task without Ω (sgd-c), without clipping (sgd-r), and without both (sgd)
longest    how long a sequence `steady` can learn, tested at twice that length
table1     music: Piano-midi.de, Nottingham, MuseData by SGD, SGD-C and SGD-CR     (Table 1)
table2     Penn Treebank characters, the next and the fifth ahead, likewise        (Table 2)
smoke      a few seconds, to see that all is well
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from steadygrad.checks import one_of, whole
from steadygrad.sweep.budget import FIG7, LONGEST, TABLE1, TABLE2, TASKS, Budget, DataBudget
from steadygrad.sweep.grid import Grid

BEYOND = (250, 300, 400)
"""Lengths at which a model trained on 50 to 200 steps is tested."""

RANGE = (50, 200)
"""The lengths of the paper's single models."""


def fig7(budget: str = "minutes", *, seeds: int | Sequence[int] | None = None, **overrides: Any) -> Grid:
    """Fig. 7: a model for each length, by SGD, SGD-C and SGD-CR.

    Args:
        budget: 'demo', 'minutes', 'hours' or 'full'.
        seeds: how many (1 … seeds) or which, in place of the budget's.
        **overrides: `preset`, or fields of `Config`, such as `max_updates`.

    >>> len(fig7("hours").cells)
    90
    """
    size = _budget(FIG7, budget)
    preset = overrides.pop("preset", size.presets[0])
    settings = {**size.settings, "after_success": "stop", **overrides}
    lengths = [(length, length) for length in size.lengths]
    return Grid.product("fig7", lengths=lengths, presets=[preset], seeds=_seeds(seeds, size.seeds), **settings)


def tasks(budget: str = "minutes", *, seeds: int | Sequence[int] | None = None, **overrides: Any) -> Grid:
    """Every task as the paper trains it, with SGD-CR: its own settings, and `steady`.

    Args:
        budget: 'minutes', 'hours' or 'full'.
        seeds: how many (1 … seeds) or which, in place of the budget's.
        **overrides: `presets`, or fields of `Config`.
    """
    size = _budget(TASKS, budget)
    presets = overrides.pop("presets", size.presets)
    return _by_task("tasks", size, presets, ("sgd-cr",), seeds, overrides)


def ablation(budget: str = "minutes", *, seeds: int | Sequence[int] | None = None, **overrides: Any) -> Grid:
    """`steady` without Ω, without clipping, and without both: is it Ω, or the recipe around it?

    Args:
        budget, seeds, **overrides: as for `tasks`.
    """
    size = _budget(TASKS, budget)
    return _by_task("ablation", size, ("steady",), size.ablations, seeds, overrides)


def longest(budget: str = "hours", *, seeds: int | Sequence[int] | None = None, **overrides: Any) -> Grid:
    """How long a sequence `steady` can learn: 50 to L steps, for growing L, tested at L and 2 L (memorization: L alone).

    Args:
        budget, seeds, **overrides: as for `tasks`.
    """
    grids = []
    for size in _budget(LONGEST, budget):
        for task, length in itertools.product(size.tasks, size.lengths):
            memorizes = _memorizes(task)
            grids.append(
                Grid.product(
                    "longest",
                    problems=[task],
                    lengths=[(length if memorizes else RANGE[0], length)],
                    algorithms=["sgd-cr"],
                    presets=size.presets,
                    seeds=_seeds(seeds, size.seeds),
                    test_lengths=(length,) if memorizes else (length, 2 * length),
                    **{**size.settings, **overrides},
                )
            )
    return _joined("longest", grids)


def table1(budget: str = "minutes", *, seeds: int | Sequence[int] | None = None, **overrides: Any) -> Grid:
    """Table 1: polyphonic music by SGD, SGD-C and SGD-CR, with the paper's settings and with `steady`.

    Args:
        budget: 'minutes', 'hours' or 'full'.
        seeds: how many (1 … seeds) or which, in place of the budget's.
        **overrides: `presets`, or fields of `Config`, such as `epochs`.
    """
    return _of_data("table1", _budget(TABLE1, budget), ("piano-midi", "nottingham", "musedata"), None, seeds, overrides)


def table2(budget: str = "minutes", *, seeds: int | Sequence[int] | None = None, **overrides: Any) -> Grid:
    """Table 2: the characters of the Penn Treebank, the next and the fifth ahead, by SGD, SGD-C and SGD-CR.

    Args:
        budget, seeds, **overrides: as for `table1`.
    """
    return _of_data("table2", _budget(TABLE2, budget), ("ptb",), (1, 5), seeds, overrides)


def smoke(budget: str = "minutes", *, seeds: int | Sequence[int] | None = None, **overrides: Any) -> Grid:
    """Tiny runs of a second each: length 10, where every algorithm succeeds.

    Args:
        budget: has no smaller or larger form: 'minutes'.
        seeds, **overrides: as for `tasks`.
    """
    one_of("budget of smoke", budget, ("minutes",))
    settings = {"max_updates": 1500, "check_every": 500, "after_success": "stop", **overrides}
    common = {"lengths": [(10, 10)], "presets": ["steady"], "test_lengths": (11,)}
    return Grid.product("smoke", **common, seeds=_seeds(seeds, 2), **settings)


GRIDS: dict[str, Callable[..., Grid]] = {
    "fig7": fig7,
    "tasks": tasks,
    "ablation": ablation,
    "longest": longest,
    "table1": table1,
    "table2": table2,
    "smoke": smoke,
}


def get(name: str, budget: str | None = None, **options: Any) -> Grid:
    """The grid called `name`.

    >>> get("smok")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: grid must be one of 'fig7', 'tasks', ... 'smoke', not 'smok' (did you mean 'smoke'?)
    """
    grid = GRIDS[one_of("grid", name, GRIDS)]
    return grid(**options) if budget is None else grid(budget, **options)


def _by_task(
    name: str,
    size: Budget,
    presets: Sequence[str],
    algorithms: Sequence[str],
    seeds: int | Sequence[int] | None,
    overrides: dict[str, Any],
) -> Grid:
    grids = []
    for task, preset in itertools.product(size.tasks, presets):
        memorizes = _memorizes(task)
        lengths = [(length, length) for length in size.lengths] if memorizes else [RANGE]
        number = size.permutation_seeds if task == "random-permutation" else size.seeds
        part = "ablation" if name == "ablation" else preset
        number = min(number, size.fewer.get(part, number))
        settings = {**size.settings, **size.of.get(part, {})}
        grids.append(
            Grid.product(
                name,
                problems=[task],
                lengths=lengths,
                algorithms=algorithms,
                presets=[preset],
                seeds=_seeds(seeds, number),
                test_lengths=() if memorizes else BEYOND,
                **{**settings, **overrides},
            )
        )
    return _joined(name, grids)


def _memorizes(task: str) -> bool:
    """Whether the task has a model for each length, and none for lengths beyond it."""
    return task.startswith("memorization")


def _of_data(
    name: str,
    size: DataBudget,
    problems: Sequence[str],
    aheads: Sequence[int] | None,
    seeds: int | Sequence[int] | None,
    overrides: dict[str, Any],
) -> Grid:
    presets = overrides.pop("presets", size.presets)
    grids = [
        Grid.product(
            name,
            problems=[source],
            aheads=aheads,
            presets=[preset],
            seeds=_seeds(seeds, size.seeds),
            **{**size.settings(preset, source), **overrides},
        )
        for preset in presets
        for source in problems
    ]
    return _joined(name, grids)


def _joined(name: str, grids: Sequence[Grid]) -> Grid:
    """All cells under one name, those of the first seed first."""
    cells = [cell for grid in grids for cell in grid.cells]
    return Grid(name, tuple(sorted(cells, key=lambda cell: cell.config.seed)))


def _seeds(asked: int | Sequence[int] | None, usual: int) -> Sequence[int]:
    if isinstance(asked, Sequence):
        return asked
    return range(1, (usual if asked is None else whole("seeds", asked)) + 1)


def _budget(table: dict[str, Any], name: str) -> Any:
    return table[one_of("budget", name, table)]

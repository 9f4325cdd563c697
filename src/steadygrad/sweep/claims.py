"""The claims of the paper's section 4 by the paper's own tanh network, the most important first.

1. temporal order, one model for 50 to 200 steps, by the settings of the final edition (`proceedings`) and by `tanh`
2. `tanh` without Ω, and without clipping
3. the other tasks by `tanh`, with Ω and without
4. temporal order by `tanh` on sequences of up to 1,000, 2,000 and 5,000 steps
5. the other tasks by `proceedings`
6. temporal order and addition by the settings of the arXiv supplement (`paper`)

What solves nothing costs most, so each part has its own limit of updates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from steadygrad.sweep.grid import Grid

ORDER, SUMS, MEMORIZATION = (
    "temporal-order",
    ("addition", "multiplication"),
    ("memorization-5bit", "memorization-20bit"),
)
OTHERS = (*SUMS, "temporal-order-3bit", "random-permutation", *MEMORIZATION)
RANGE, BEYOND = (50, 200), (250, 400, 500, 1000, 2000, 3000, 5000)
"""The lengths of the paper's single models, and those at which the final edition tests them."""


@dataclass(frozen=True)
class Part:
    """Cells of one limit."""

    problems: Sequence[str]
    presets: Sequence[str]
    algorithms: Sequence[str]
    seeds: int
    max_updates: int
    longest: int = RANGE[1]
    permutation_seeds: int = 0  # of random permutation, if more: the paper solved it in 1 of 8 runs


CR, WITHOUT_OMEGA = ("sgd-cr",), ("sgd-c",)
HOURS = (
    Part((ORDER,), ("proceedings", "tanh"), CR, 5, 1_000_000),
    Part((ORDER,), ("tanh",), ("sgd-c", "sgd-r"), 5, 200_000),
    Part(OTHERS, ("tanh",), CR, 5, 300_000, permutation_seeds=8),
    Part(OTHERS, ("tanh",), WITHOUT_OMEGA, 3, 100_000),
    *(Part((ORDER,), ("tanh",), CR, 3, 1_000_000, longest) for longest in (1000, 2000, 5000)),
    Part(OTHERS, ("proceedings",), CR, 3, 300_000),
    Part((ORDER, "addition"), ("paper",), CR, 3, 1_000_000),
)
BUDGETS: Mapping[str, Sequence[Part]] = {
    "minutes": (Part((ORDER,), ("tanh",), ("sgd-c", "sgd-cr"), 1, 60_000),),
    "hours": HOURS,
    "full": tuple(replace(part, max_updates=5_000_000) for part in HOURS),
}


def claims(name: str, parts: Sequence[Part], seeds: Sequence[int] | int | None, overrides: dict[str, Any]) -> Grid:
    """The grid of these parts, in their order, the first seed of each first.

    >>> grid = claims("claims", BUDGETS["minutes"], None, {})
    >>> [cell.id for cell in grid.cells]
    ['temporal-order_50-200_sgd-c_tanh_seed1', 'temporal-order_50-200_sgd-cr_tanh_seed1']
    """
    cells = []
    for part in parts:
        for problem in part.problems:
            number = max(part.seeds, part.permutation_seeds if problem == "random-permutation" else 0)
            asked = seeds if seeds is not None else number
            axes: dict[str, Any] = {"algorithms": part.algorithms, "presets": part.presets}
            axes["seeds"] = range(1, asked + 1) if isinstance(asked, int) else asked
            if problem in MEMORIZATION:  # a model for each length, and none for lengths beyond it
                axes["lengths"] = [(RANGE[0], RANGE[0]), (RANGE[1], RANGE[1])]
            else:
                axes |= {"lengths": [(RANGE[0], part.longest)], "test_lengths": BEYOND}
            usual = {"max_updates": part.max_updates}
            cells += Grid.product(name, problems=[problem], usual=usual, **axes, **overrides).cells
    return Grid(name, tuple(cells))

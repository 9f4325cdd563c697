"""The synthetic tasks by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from steadygrad.checks import one_of
from steadygrad.tasks.marked_numbers import Addition, Multiplication
from steadygrad.tasks.memorization import Memorization5bit, Memorization20bit
from steadygrad.tasks.random_permutation import RandomPermutation
from steadygrad.tasks.recall import Recall
from steadygrad.tasks.task import Task
from steadygrad.tasks.temporal_order import TemporalOrder, TemporalOrder3bit

_CATALOGUE: dict[str, type[Task]] = {
    task.name: task
    for task in (
        TemporalOrder,
        TemporalOrder3bit,
        Addition,
        Multiplication,
        RandomPermutation,
        Memorization5bit,
        Memorization20bit,
        Recall,
    )
}


def names() -> tuple[str, ...]:
    """The names that `get` knows, the prototype first; the last, recall, is not the paper's.

    >>> names()[0]
    'temporal-order'
    """
    return tuple(_CATALOGUE)


def get(name: str, **options: Any) -> Task:
    """The task called `name`.

    Args:
        name: one of `names()`.
        **options: the task's own option: `positions` (temporal order), `criterion` (addition, multiplication),
            `predict` (random permutation), `counted` (memorization) or `distractors` (recall).

    Returns:
        a frozen `Task`.

    >>> get("temporal-order", positions="program")
    TemporalOrder(positions='program')
    >>> get("temporal-ordre")
    Traceback (most recent call last):
    ValueError: task must be one of 'temporal-order', 'temporal-order-3bit', 'addition', 'multiplication', \
'random-permutation', 'memorization-5bit', 'memorization-20bit', 'recall', not 'temporal-ordre' (did you mean 'temporal-order'?)

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "The pathological synthetic tasks".
    """
    task = _CATALOGUE[one_of("task", name, _CATALOGUE)]
    for option in options:
        one_of(f"an option of {name}", option, [field.name for field in fields(task)])
    return task(**options)

"""The synthetic tasks by name."""

from __future__ import annotations

import importlib
from dataclasses import fields
from typing import Any

from steadygrad.checks import one_of
from steadygrad.tasks.task import Task

HOMES = {
    "temporal-order": ("temporal_order", "TemporalOrder"),
    "temporal-order-3bit": ("temporal_order", "TemporalOrder3bit"),
    "addition": ("marked_numbers", "Addition"),
    "multiplication": ("marked_numbers", "Multiplication"),
    "random-permutation": ("random_permutation", "RandomPermutation"),
    "memorization-5bit": ("memorization", "Memorization5bit"),
    "memorization-20bit": ("memorization", "Memorization20bit"),
    "recall": ("recall", "Recall"),
}
"""Name to file and class; a file is loaded when its task is asked for."""


def names() -> tuple[str, ...]:
    """The names that `get` knows, the prototype first; the last, recall, is not the paper's.

    >>> names()[0]
    'temporal-order'
    """
    return tuple(HOMES)


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
    task = home(name)
    for option in options:
        one_of(f"an option of {name}", option, [field.name for field in fields(task)])
    return task(**options)


def home(name: str) -> type[Task]:
    """The class of the task called `name`."""
    file, called = HOMES[one_of("task", name, HOMES)]
    return getattr(importlib.import_module(f"steadygrad.tasks.{file}"), called)

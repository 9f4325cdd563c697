"""The synthetic tasks of Pascanu et al. 2013 and one more, each with its own file.

>>> import torch
>>> from steadygrad import tasks
>>> task = tasks.get("temporal-order")
>>> rnn, readout = torch.nn.RNN(task.input_size, task.hidden_size), torch.nn.Linear(task.hidden_size, task.output_size)
>>> batch = task.sample(batch=20, length=50, generator=torch.Generator().manual_seed(1))
>>> hidden, _ = rnn(torch.nn.functional.one_hot(batch.inputs, task.input_size).float())
>>> outputs = readout(hidden[batch.steps])
>>> task.loss(outputs, batch).backward()
>>> task.is_correct(outputs, batch).shape
torch.Size([20])
"""

from __future__ import annotations

import importlib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from steadygrad import names_of
from steadygrad.checks import one_of
from steadygrad.tasks.task import Batch as Batch
from steadygrad.tasks.task import Classification as Classification
from steadygrad.tasks.task import Regression as Regression
from steadygrad.tasks.task import Task as Task

if TYPE_CHECKING:
    from steadygrad.tasks.marked_numbers import Addition as Addition
    from steadygrad.tasks.marked_numbers import Multiplication as Multiplication
    from steadygrad.tasks.memorization import Memorization5bit as Memorization5bit
    from steadygrad.tasks.memorization import Memorization20bit as Memorization20bit
    from steadygrad.tasks.random_permutation import RandomPermutation as RandomPermutation
    from steadygrad.tasks.recall import Recall as Recall
    from steadygrad.tasks.temporal_order import TemporalOrder as TemporalOrder
    from steadygrad.tasks.temporal_order import TemporalOrder3bit as TemporalOrder3bit

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


__getattr__, __dir__ = names_of(__name__, {called: f".{file}" for file, called in HOMES.values()})

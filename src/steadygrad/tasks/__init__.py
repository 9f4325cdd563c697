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
from typing import TYPE_CHECKING, Any

from steadygrad.tasks.batch import Batch as Batch
from steadygrad.tasks.catalogue import HOMES
from steadygrad.tasks.catalogue import get as get
from steadygrad.tasks.catalogue import names as names
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

_FILES = {called: file for file, called in HOMES.values()}


def __getattr__(name: str) -> Any:
    if name in _FILES:
        return getattr(importlib.import_module(f"steadygrad.tasks.{_FILES[name]}"), name)
    raise AttributeError(f"module 'steadygrad.tasks' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_FILES})

"""Which kind a run is of: by its config, or by the name that its cell.json has."""

from __future__ import annotations

from typing import Any

from steadygrad.checks import one_of
from steadygrad.sweep.kind import Kind
from steadygrad.sweep.natural_runs import NaturalRuns
from steadygrad.sweep.task_runs import TaskRuns
from steadygrad.training import RunConfig

KINDS: dict[str, Kind] = {kind.name: kind for kind in (TaskRuns(), NaturalRuns())}


def of(config: Any) -> Kind:
    """The kind of a run with this config.

    >>> of(RunConfig("addition", "sgd")).limit
    'max_updates'
    """
    return KINDS["task" if isinstance(config, RunConfig) else "natural"]


def named(name: str) -> Kind:
    """The kind called `name`.

    >>> named("natural").limit
    'epochs'
    """
    return KINDS[one_of("kind", name, KINDS)]

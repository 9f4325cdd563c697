"""What a network learns. A problem says where its sequences come from, what the loss is, and how well it is solved.

    drawn    sample(batch, length, generator) → tasks.Batch,  loss(outputs, batch),  is_correct(outputs, batch)
             solved once at most 1 % of 10,000 fresh sequences are wrong: the synthetic tasks, and most problems of one's own
    data     epoch(number) and whole(split) → data.Chunk: music and text (data/datasets.py)

A problem of one's own is a class in a file, named 'FILE.py:CLASS' (docs/problems.md).
"""

from __future__ import annotations

import inspect
from typing import Any

from ..checks import one_of
from .config import DATA, DRAWN, PROBLEMS, TASKS, absolute

UNITS = {"piano-midi": 300, "nottingham": 300, "musedata": 400, "jsb": 300, "ptb": 500, "text": 500, "music": 300}
"""The paper's number of units for each data set; those it does not have are as those it has."""
DEFAULT_UNITS = 50
OF_DRAWN = ("input_size", "output_size", "sample", "loss", "is_correct")
OF_DATA = (
    *("input_size", "output_size", "unit", "per_nat", "cost", "symbols"),
    *("predictions", "updates_per_epoch", "epoch", "whole", "checksum"),
)


def is_own(name: str) -> bool:
    """Whether the name is of a class in the user's own file: 'FILE.py:CLASS'."""
    return ".py:" in name


def title(name: str) -> str:
    """What a problem is called in sentences: a class of one's own without its folder.

    >>> title("/home/me/my_problem.py:Parity"), title("addition")
    ('Parity', 'addition')
    """
    return name.rpartition(":")[2] if is_own(name) else name


def form(name: str) -> str:
    """'drawn' or 'data'; ValueError where there is no such problem."""
    if is_own(name):
        return DRAWN if hasattr(own(name), "sample") else DATA
    if name.endswith(".py"):
        raise ValueError(f"problem must name a class of {name} too: {name}:CLASS")
    one_of("problem", name, PROBLEMS)
    return DRAWN if name in TASKS else DATA


def name_of(problem: Any) -> Any:
    """The name under which a config keeps a problem: of a class (or an instance) its file and name."""
    if isinstance(problem, str):
        if not is_own(problem):
            return problem
        path, _, name = problem.rpartition(":")
        return f"{absolute(path)}:{name}"
    kind: Any = problem if inspect.isclass(problem) else type(problem)
    if getattr(kind, "name", None) in TASKS and kind.__module__.startswith("steadygrad."):
        return kind.name
    if not hasattr(kind, "sample") and not hasattr(kind, "epoch"):
        return problem  # not a problem: Config reports it
    try:
        return f"{absolute(inspect.getfile(kind))}:{kind.__qualname__}"
    except (OSError, TypeError):
        why = f"so that the run can be resumed, and {kind.__qualname__} is in none"
        raise ValueError(f"problem must be a class in a file, {why}") from None


def own(name: str) -> Any:
    """The user's class called 'FILE.py:CLASS'."""
    from .. import own_code, tasks

    kind, called = own_code.named("problem", name), title(name)
    wanted = OF_DRAWN if hasattr(kind, "sample") else OF_DATA
    missing = [each for each in wanted if not hasattr(kind, each) and each not in getattr(kind, "__annotations__", {})]
    if wanted is OF_DRAWN and kind.sample is tasks.Task.sample and kind._draw is tasks.Task._draw:
        missing.append("sample")
    if missing:
        raise ValueError(f"problem {called} must have {', '.join(missing)}: see docs/problems.md")
    return kind


def drawn(name: str, options: dict[str, Any]) -> Any:
    """The problem that draws its sequences, with its own options."""
    if is_own(name):
        try:
            return own(name)(**options)
        except TypeError as error:
            raise ValueError(f"options must be those of {title(name)} ({error})") from error
    from .. import tasks

    return tasks.get(name, **options)


def is_taught(made: Any, length: tuple[int, int]) -> bool:
    """Whether a problem that draws its sequences has a target at every step."""
    import torch

    batch = made.sample(1, length[0], torch.Generator().manual_seed(0))
    return len(batch.targets) == len(batch.inputs)


def build(config: Any) -> Any:
    """The problem of a config, its data read and verified (DataError; ValueError where they are too short)."""
    if config.form == DRAWN:
        return drawn(config.problem, config.options)
    if is_own(config.problem):
        return own(config.problem)(config)
    from ..data import datasets

    return datasets.read(config)

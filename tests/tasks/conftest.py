"""Every task under every option, and a way to say whether counts look uniform."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from steadygrad import tasks
from steadygrad.tasks import Task

EVERY_TASK: dict[str, Task] = {
    "order-paper": tasks.get("temporal-order"),
    "order-program": tasks.get("temporal-order", positions="program"),
    "order3-paper": tasks.get("temporal-order-3bit"),
    "order3-program": tasks.get("temporal-order-3bit", positions="program"),
    "addition-absolute": tasks.get("addition"),
    "addition-squared": tasks.get("addition", criterion="squared"),
    "multiplication-absolute": tasks.get("multiplication"),
    "multiplication-squared": tasks.get("multiplication", criterion="squared"),
    "permutation-last": tasks.get("random-permutation"),
    "permutation-all": tasks.get("random-permutation", predict="all"),
    "memory5-pattern": tasks.get("memorization-5bit"),
    "memory5-all": tasks.get("memorization-5bit", counted="all"),
    "memory20-pattern": tasks.get("memorization-20bit"),
    "memory20-all": tasks.get("memorization-20bit", counted="all"),
}


@pytest.fixture(params=EVERY_TASK.values(), ids=list(EVERY_TASK))
def task(request: pytest.FixtureRequest) -> Task:
    return request.param


@pytest.fixture
def seeded() -> Callable[[int], torch.Generator]:
    """A generator by its seed."""
    return lambda seed: torch.Generator().manual_seed(seed)


@pytest.fixture
def uniform_p() -> Callable[[Sequence[float]], float]:
    """The chance that uniform draws give counts at least as uneven as these (Pearson's chi-square)."""

    def p(counts: Sequence[float]) -> float:
        observed = torch.tensor(counts, dtype=torch.float64)
        expected = observed.sum() / len(observed)
        assert expected >= 5, "chi-square needs at least five expected draws in a cell"
        chi_square = ((observed - expected) ** 2 / expected).sum()
        freedom = torch.tensor(len(observed) - 1, dtype=torch.float64)
        return torch.special.gammaincc(freedom / 2, chi_square / 2).item()

    return p

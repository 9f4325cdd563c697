"""Gradients spread over processes: the same numbers and decisions on every rank as in one process.

The cases stand in two_ranks.py and four_ranks.py: each asserts on every rank what its name says, and returns what must
be equal on all ranks, to the bit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("torch.distributed.fsdp", reason="torch was built without distributed")
if not torch.distributed.is_available():
    pytest.skip("torch was built without distributed", allow_module_level=True)

import four_ranks
import processes
import two_ranks

Found = list[dict[str, Any]]


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return processes.run("two_ranks", 2, Path(tmp_path_factory.mktemp("two")))


@pytest.fixture(scope="module")
def of_four(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return processes.run("four_ranks", 4, Path(tmp_path_factory.mktemp("four")))


@pytest.mark.parametrize("case", two_ranks.CASES)
def test_two_ranks(of_two: Found, case: str) -> None:
    all_alike(of_two, case)


@pytest.mark.parametrize("case", four_ranks.CASES)
def test_four_ranks(of_four: Found, case: str) -> None:
    all_alike(of_four, case)


def all_alike(found: Found, case: str) -> None:
    first = found[0][case]
    for rank in found:
        assert isinstance(rank[case], dict), rank[case]  # otherwise the text of an exception
        assert repr(rank[case]) == repr(first)
        assert rank[case].keys() == first.keys()
        for key, value in rank[case].items():
            assert torch.equal(value, first[key]) if isinstance(value, torch.Tensor) else value == first[key]

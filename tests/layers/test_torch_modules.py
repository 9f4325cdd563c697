"""The gate: PyTorch's own module tests and what users do with its recurrent layers, with ours in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch_behaviour import BEHAVIOURS, ONLY, T, sequence, why_it_differs
from torch_modules import CELLS, OURS, Sample, assert_same, computed, errors, samples

pytestmark = pytest.mark.filterwarnings(
    "ignore:.torch.jit.*is deprecated:DeprecationWarning"
)  # torch.func uses it itself
SAMPLES = [
    pytest.param(cell, sample, id=f"{cell}-{sample.name}")
    for cell in CELLS
    for sample in samples(cell)
    if not sample.projects
]
SAME = [
    pytest.param(behaviour, cell, id=f"{behaviour.__name__}-{cell}")
    for _, behaviour in BEHAVIOURS
    for cell in ONLY.get(behaviour, CELLS)
    if why_it_differs(behaviour, cell) is None
]


def test_the_database_has_the_samples_and_the_errors_that_are_relied_on() -> None:
    assert [len(samples(cell)) for cell in CELLS] == [32, 16, 32]
    assert [sum(1 for _ in errors(cell)) for cell in CELLS] == [14, 14, 14]


@pytest.mark.parametrize("batch", [None, 3], ids=["unbatched", "batched"])
@pytest.mark.parametrize(("cell", "sample"), SAMPLES)
def test_outputs_and_gradients_of_each_sample_equal_torch(
    backend: str, cell: str, sample: Sample, batch: int | None
) -> None:
    ours, torchs = sample.layer(cell, True, backend=backend), sample.layer(cell, False)
    assert_same(computed(ours, sample.inputs(batch)), computed(torchs, sample.inputs(batch)))


@pytest.mark.parametrize(("behaviour", "cell"), SAME)
def test_behaves_as_torch(behaviour: Callable[[str], None], cell: str) -> None:
    behaviour(cell)


@pytest.mark.parametrize("cell", CELLS)
def test_an_empty_batch_has_empty_outputs_and_gradients_of_zero(backend: str, cell: str) -> None:
    layer: Any = OURS[cell](2, 3, num_layers=2, alpha=0.5, clip_error=1.0, backend=backend, dtype=torch.float64)
    output, _ = layer(sequence(T, 0, 2))
    assert output.shape == (T, 0, 3)
    output.sum().backward()
    assert all(torch.equal(each.grad, torch.zeros_like(each)) for each in layer.parameters())


@pytest.mark.parametrize("cell", CELLS)
def test_batched_gradients_are_refused_where_omega_would_be_added(fast_backend: str, cell: str) -> None:
    layer: Any = OURS[cell](2, 3, alpha=0.5, backend=fast_backend, dtype=torch.float64)
    output, _ = layer(sequence())
    along = torch.stack([torch.ones_like(output)] * 2)
    with pytest.raises(RuntimeError, match=r"^alpha must be 0 for batched gradients"):
        torch.autograd.grad(output, list(layer.parameters()), along, is_grads_batched=True)

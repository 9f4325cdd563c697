"""A saved or copied module: its weights and arguments, and nothing of its gradients."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import steadygrad as sg


@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
def test_a_pickled_module_carries_no_flow(cell: str) -> None:
    layer = getattr(sg, cell)(3, 4, alpha=0.5)
    before = len(pickle.dumps(layer))
    layer(torch.randn(2000, 50, 3))[0].sum().backward()  # a flow of 2 × 2000 × 50 float64, 1.6 MB
    layer.zero_grad()
    assert len(pickle.dumps(layer)) < before + 100
    again = pickle.loads(pickle.dumps(layer))
    assert len(again.flow) == 0
    again(torch.randn(3, 2, 3))[0].sum().backward()
    assert again.flow.norms.shape == (3,)
    assert layer.flow.norms.shape == (2000,), "the flow of the one is not written by the other"


def test_a_copy_has_a_flow_of_its_own() -> None:
    layer = sg.RNN(3, 4)
    layer(torch.randn(5, 2, 3))[0].sum().backward()
    other = copy.deepcopy(layer)
    other(torch.randn(7, 2, 3))[0].sum().backward()
    assert (len(layer.flow.norms), len(other.flow.norms)) == (5, 7)

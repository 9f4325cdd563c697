"""Hessian-free optimisation solves a recurrent regression and the temporal order problem."""

from __future__ import annotations

import torch
from torch import Tensor

import steadygrad as sg
from steadygrad.baselines import HessianFree


def test_a_recurrent_regression_falls_below_one_in_ten_thousand() -> None:
    draw = torch.Generator().manual_seed(1)
    torch.manual_seed(1)
    rnn, readout = sg.RNN(1, 10), torch.nn.Linear(10, 1)
    inputs = torch.rand(8, 60, 1, generator=draw)
    targets = inputs[0] * inputs[3]  # the product of the first and the fourth number, due at the eighth
    optimizer = HessianFree([*rnn.parameters(), *readout.parameters()], "squared-error", structural=0.1)

    def forward(batch: str) -> tuple[Tensor, Tensor, Tensor]:
        hidden, _ = rnn(inputs)
        return readout(hidden[-1]), targets, hidden

    losses = [optimizer.step(forward)]
    while losses[-1] >= 1e-4 and len(losses) < 60:
        losses.append(optimizer.step(forward))
    assert losses[0] > float(targets.var()) > 1e-2
    assert losses[-1] < 1e-4


def test_temporal_order_at_thirty_steps_is_solved() -> None:
    task, T = sg.tasks.get("temporal-order"), 30
    draw = torch.Generator().manual_seed(1)
    rnn, readout = sg.RNN(task.input_size, 50), torch.nn.Linear(50, task.output_size)
    net = torch.nn.ModuleList([rnn, readout])
    sg.init.smart_tanh_(net, generator=draw)
    rnn.record = False
    optimizer = HessianFree(net.parameters(), task.loss, structural=0.1)
    test = task.sample(10_000, T, draw)

    def wrong() -> float:
        with torch.no_grad():
            return 1 - float(task.is_correct(readout(rnn(test.inputs)[0][test.steps]), test).float().mean())

    assert wrong() > 0.7  # of four classes
    for _ in range(40):
        batches = {"gradient": task.sample(400, T, draw), "curvature": task.sample(100, T, draw)}

        def forward(batch: str, batches: dict[str, sg.tasks.Batch] = batches) -> tuple[Tensor, sg.tasks.Batch, Tensor]:
            drawn = batches[batch]
            hidden, _ = rnn(drawn.inputs)
            return readout(hidden[drawn.steps]), drawn, hidden

        optimizer.step(forward)
        if wrong() <= 0.01:
            break
    assert wrong() <= 0.01  # the paper's criterion: at most 1 % of 10,000 sequences wrong

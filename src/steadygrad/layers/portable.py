"""The layer as a graph of torch's own operations, for torch.export, ONNX and torch.jit.trace.

An exported program must run where steadygrad is not installed, so no operator of ours is in it. Where torch has a layer that
computes the same, that is taken; else the steps are written out one by one. It is the network alone: without Ω, clipped errors
or flow.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportPrivateUsage=false
# (much of what is used of torch here is not annotated)

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

TORCHS = {"RNN_TANH": torch.nn.RNN, "RNN_RELU": torch.nn.RNN, "GRU": torch.nn.GRU, "LSTM": torch.nn.LSTM}


def is_torchs(layer: Any, input: Any) -> bool:
    """Whether torch has a layer that computes the same."""
    data = input.data if isinstance(input, PackedSequence) else input
    return layer.mode in TORCHS and layer.leak == 0 and data.is_floating_point()


def forward(layer: Any, input: Any, hx: Any) -> Any:
    """The forward pass of torch's layer, with this one's parameters."""
    return TORCHS[layer.mode].forward(layer, input, hx)


def warn_of_what_is_left_out(layer: Any) -> None:
    if layer.alpha > 0 or layer.clip_error is not None:
        warnings.warn(
            "an exported layer is the network alone: trained further, it has no Ω (alpha) and no clipped errors",
            stacklevel=4,
        )

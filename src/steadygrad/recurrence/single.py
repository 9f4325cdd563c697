"""One step of the plain layer with gradients: the forward pass by kernel/inference.cpp, the way back in torch's products.

    h = σ(a),  δ = σ'(a) ⊙ e,  dW_hh = δᵀ h0,  dW_ih = δᵀ x,  db = Σ δ,  dh0 = δ W_hh,  dx = δ W_ih

With one step there is nothing to amortise: the kernel of whole sequences (native.py) would lay the weights out for a single
product, and add gradients up in memory of its own first. Ω is about pairs of steps, of which there are none.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..flow import Recorder
from . import inference, native, nonlinearity
from .bptt import norm
from .inference import Network, Sequences
from .options import Given, Gradients, Options, Saved, Wanted


def fits(given: Given, options: Options) -> bool:
    """Whether it is one step of plain units from real numbers."""
    inputs = given.inputs
    if inputs.shape[0] != 1 or options.mode != "RNN" or options.leak > 0 or given.lengths is not None:
        return False
    return inputs.is_floating_point()


def forward(given: Given, options: Options) -> tuple[Saved, tuple[Tensor]]:
    inputs, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths, _ = given
    batch, hidden = inputs.shape[1], weight_hh.shape[0]
    network = Network("RNN", options.nonlinearity, 0.0, weight_ih.shape[1], hidden, 1, 1)
    weights = [weight_ih, weight_hh] if bias_ih is None or bias_hh is None else [weight_ih, weight_hh, bias_ih, bias_hh]
    state = [] if h0 is None else [h0.contiguous().unsqueeze(0)]
    found = inference.run(network, Sequences(inputs, 1, batch, batch), state, weights)
    if found is None:  # weights that lie otherwise, or are not there: who lays them out anew, or refuses them
        return native.forward(given, options)
    output, last = found
    return Saved(inputs, h0, weight_ih, weight_hh, lengths, output, None), (last[0],)


def backward(
    saved: Saved,
    grad_output: Tensor | None,
    grad_last: tuple[Tensor | None, ...],
    options: Options,
    wanted: Wanted,
    recorder: Recorder | None,
) -> Gradients:
    h, last = saved.output[0], grad_last[0]
    error = None if grad_output is None else grad_output[0]
    if error is None or last is not None:
        reached = torch.zeros_like(h) if last is None else last[0]
        error = reached if error is None else error + reached
    delta = nonlinearity.get(options.nonlinearity).slope(h).mul_(error)
    if options.clip_error is not None:
        delta.clamp_(-options.clip_error, options.clip_error)
    measured: Tensor | None = None
    if recorder is not None:
        measured = torch.zeros(2, len(h), 1, dtype=torch.float64)
        torch.mul(size := norm(error if options.state_is_after else delta), size, out=measured[0, :, 0])
    hh: Tensor | None = None
    if wanted.weight_hh:
        hh = torch.zeros_like(saved.weight_hh) if saved.h0 is None else delta.T @ saved.h0
    return Gradients(
        inputs=(delta @ saved.weight_ih).unsqueeze(0) if wanted.inputs else None,
        h0=delta @ saved.weight_hh if wanted.h0 else None,
        weight_ih=delta.T @ saved.inputs[0] if wanted.weight_ih else None,
        weight_hh=hh,
        bias=delta.sum(0) if wanted.bias else None,
        measured=measured,
    )

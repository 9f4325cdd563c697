"""Gradient norm clipping: as a function, inside an optimizer, and with thresholds that find themselves.

Pascanu, Mikolov & Bengio 2013, "On the difficulty of training recurrent neural networks", Algorithm 1. Each name is loaded when
it is first used: a fixed threshold needs nothing of those that adapt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steadygrad import names_of

if TYPE_CHECKING:
    from .clipper import NormClipper as NormClipper
    from .gradients import clip_grad_norm_ as clip_grad_norm_
    from .gradients import grad_norm as grad_norm
    from .gradients import nonfinite_parameters as nonfinite_parameters
    from .stats import ClipStats as ClipStats
    from .threshold import Auto as Auto
    from .threshold import Percentile as Percentile
    from .threshold import Spike as Spike

__getattr__, __dir__ = names_of(
    __name__,
    {
        "NormClipper": ".clipper",
        **dict.fromkeys(("clip_grad_norm_", "grad_norm", "nonfinite_parameters"), ".gradients"),
        "ClipStats": ".stats",
        **dict.fromkeys(("Auto", "Percentile", "Spike"), ".threshold"),
    },
)

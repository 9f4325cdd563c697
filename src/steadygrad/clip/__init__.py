"""Gradient norm clipping: as a function, inside an optimizer, and with thresholds that find themselves.

Pascanu, Mikolov & Bengio 2013, "On the difficulty of training recurrent neural networks", Algorithm 1.
"""

from .clipper import NormClipper as NormClipper
from .gradients import clip_grad_norm_ as clip_grad_norm_
from .gradients import grad_norm as grad_norm
from .gradients import nonfinite_parameters as nonfinite_parameters
from .stats import ClipStats as ClipStats
from .threshold import Auto as Auto
from .threshold import Percentile as Percentile
from .threshold import Spike as Spike

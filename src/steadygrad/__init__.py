"""Recurrent networks whose gradients neither explode nor vanish, and tools that show what the gradients do."""

from . import init as init
from .clip import Auto as Auto
from .clip import ClipStats as ClipStats
from .clip import NormClipper as NormClipper
from .clip import Percentile as Percentile
from .clip import clip_grad_norm_ as clip_grad_norm_
from .clip import grad_norm as grad_norm
from .clip import nonfinite_parameters as nonfinite_parameters
from .flow import GradientFlow as GradientFlow
from .regularizer import omega as omega
from .rnn.layer import RNN as RNN
from .rnn.state import LearnedState as LearnedState

__version__ = "0.1.0"

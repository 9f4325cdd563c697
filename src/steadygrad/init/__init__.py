"""The initialisations of the paper and of its authors' program, in place.

    basic_tanh   all weights N(0, 0.1²), biases 0       (Pascanu et al. 2013, appendix: the temporal order problem)
    sigmoid      all weights N(0, 0.01²), biases 0
    smart_tanh   as sigmoid; then each unit keeps 15 recurrent weights, and W_hh ← 0.95 W_hh / ρ(W_hh)
    orthogonal   W_hh ← gain · Q,   QᵀQ = I
    identity     W_hh ← scale · I
    spectral     W_hh ← radius · W_hh / ρ(W_hh)
    hold         W_hh ← I,               W_in from U(0, 1/√H), biases 0
    cycle        W_hh e_i ← e_{i+1},     W_in from U(0, 1/√H), biases 0
    input_driven W_in from N(0, 1/γ²), W_hh ← 0.05 Q,   QᵀQ = I; the other weights N(0, 0.1²), biases 0

    remember     LSTM b_f ← 1, GRU b_z ← 1: the gate that remembers begins open
    chrono       b_f ← log U(1, T − 1), b_i ← −b_f; GRU b_z ← log U(1, T − 1)

ρ is the spectral radius, γ the steepest slope of the layer's nonlinearity (sigmoid: 1/4; others: 1). "All weights" are
those of recurrent layers (weight_ih…, weight_hh…: `steadygrad.RNN`, `torch.nn.RNN`, any module with parameters of those
names) and of `torch.nn.Linear` layers, wherever they sit in the module: the program drew its readout W_hy from the same
distribution. Other layers are left alone. Where weight_hh stacks gates (GRU and LSTM, shape [3H, H] or
[4H, H]), "W_hh" is each gate's [H, H] in turn; smart_tanh, spectral, hold, cycle and input_driven refuse such layers,
remember and chrono are for them alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from torch import Generator

from steadygrad import checks, names_of

from .matrices import Module as Module
from .matrices import cycle_ as cycle_
from .matrices import hold_ as hold_
from .matrices import identity_ as identity_
from .matrices import orthogonal_ as orthogonal_
from .matrices import spectral_ as spectral_
from .normal import basic_tanh_ as basic_tanh_
from .normal import input_driven_ as input_driven_
from .normal import normal_ as normal_
from .normal import sigmoid_ as sigmoid_
from .normal import smart_tanh_ as smart_tanh_

if TYPE_CHECKING:
    from .gates import chrono_ as chrono_
    from .gates import remember_ as remember_

__getattr__, __dir__ = names_of(__name__, dict.fromkeys(("chrono_", "remember_"), ".gates"))  # for gated layers alone


class Initialisation(Protocol):
    """What `get` returns: a function that fills a module in place and returns it."""

    def __call__(self, module: Module, *, generator: Generator | None = None) -> Module: ...


REGISTRY: dict[str, Initialisation] = {
    "basic_tanh": basic_tanh_,
    "smart_tanh": smart_tanh_,
    "sigmoid": sigmoid_,
    "orthogonal": orthogonal_,
    "identity": identity_,
    "hold": hold_,
    "cycle": cycle_,
    "input_driven": input_driven_,
}


OF_RECURRENT_LAYERS = frozenset({"orthogonal", "identity", "hold", "cycle"})
"""Those that leave all other weights as they are: whoever wants these drawn from a seed draws them first."""


def get(name: str) -> Initialisation:
    """The initialisation of that name.

    >>> get("smart-tanh")
    Traceback (most recent call last):
    ValueError: name must be one of 'basic_tanh', ..., not 'smart-tanh' (did you mean 'smart_tanh'?)
    """
    return REGISTRY[checks.one_of("name", name, REGISTRY)]

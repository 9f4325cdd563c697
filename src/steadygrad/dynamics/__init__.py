"""The one-unit world of Pascanu et al. 2013, sections 2.2 and 2.3: maps, basins, bifurcations and the error surface."""

from steadygrad.dynamics.bifurcation import Bifurcation as Bifurcation
from steadygrad.dynamics.descent import BasinStatistics as BasinStatistics
from steadygrad.dynamics.descent import Descent as Descent
from steadygrad.dynamics.error_surface import ErrorSurface as ErrorSurface
from steadygrad.dynamics.error_surface import FinalState as FinalState
from steadygrad.dynamics.fixed_points import FixedPoint as FixedPoint
from steadygrad.dynamics.input_driven import Crossing as Crossing
from steadygrad.dynamics.input_driven import Divergence as Divergence
from steadygrad.dynamics.input_driven import InputDriven as InputDriven
from steadygrad.dynamics.latch import Latch as Latch
from steadygrad.dynamics.latch import latch as latch
from steadygrad.dynamics.one_unit import Hysteresis as Hysteresis
from steadygrad.dynamics.one_unit import OneUnit as OneUnit

__all__ = [
    "BasinStatistics",
    "Bifurcation",
    "Crossing",
    "Descent",
    "Divergence",
    "ErrorSurface",
    "FinalState",
    "FixedPoint",
    "Hysteresis",
    "InputDriven",
    "Latch",
    "OneUnit",
    "latch",
]

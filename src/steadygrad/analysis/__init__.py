"""What the gradients of a recurrent layer do, and why (Pascanu, Mikolov & Bengio 2013, sections 1.1 and 2).

For RNN, GRU and LSTM of torch and steadygrad, their cells, and any cell in a `steadygrad.Recurrent`. Every result has a
`plot` method (needs matplotlib).

Everything here observes: it runs a copy of the weights in float64 on the CPU and leaves the model, its gradients and
the random state as they were.
"""

from .components import Share as Share
from .components import TemporalComponents as TemporalComponents
from .components import temporal_components as temporal_components
from .counterexample import counterexample as counterexample
from .fixedpoints import FixedPoint as FixedPoint
from .fixedpoints import FixedPoints as FixedPoints
from .fixedpoints import fixed_points as fixed_points
from .gated_guarantees import GatedConditions as GatedConditions
from .gated_guarantees import GateSize as GateSize
from .growth import LinearGrowth as LinearGrowth
from .growth import linear_growth as linear_growth
from .guarantees import Conditions as Conditions
from .guarantees import conditions as conditions
from .jacobians import JacobianNorms as JacobianNorms
from .jacobians import jacobian_norms as jacobian_norms
from .lyapunov import LyapunovSpectrum as LyapunovSpectrum
from .lyapunov import lyapunov_from_jacobians as lyapunov_from_jacobians
from .lyapunov import lyapunov_spectrum as lyapunov_spectrum

"""The earlier solutions that the paper discusses, each usable on its own (Pascanu et al. 2013, section 3.1).

HessianFree     Hessian-free optimisation with structural damping, as a torch optimizer
EchoState       a frozen reservoir with a read-out by ridge regression
TeacherForced   a network whose output units take their targets while it trains
penalty         L1 and L2 penalties on recurrent weights
"""

from . import penalty as penalty
from .echo_state import EchoState as EchoState
from .hessian_free import HessianFree as HessianFree
from .series import nrmse as nrmse
from .teacher_forcing import TeacherForced as TeacherForced
